"""Static Hamiltonian Monte Carlo with jitter.

Draw a momentum, follow L leapfrog steps of size e, accept the end with min(1, exp(H_start - H_end)). Each
trajectory draws its own length L (1 +- length_jitter) and step size e (1 +- step_jitter), which keeps it off
the periods of the target. With `direction="random"` it is followed forwards or backwards, e or -e with probability
1/2 each, drawn first: the same moves are as likely, for so are momenta and their opposites, but the transition then
balances as it is, with no flip of the momentum. Use it where trajectories of one length suit the whole posterior, as
those of neural networks do: it wastes no step on U-turn tests. The length is tuned in function space by the warm-up
unless given.
References: Neal 2011; Lau 2018, Algorithm 1 and section 2.1; Ask 2022, Algorithm 4.3 (the random direction).
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError, suggest
from ergonet._types import Count, Flag, Position, PRNGKey, Scalar
from ergonet.hamiltonian.energy import is_divergent, total_energy
from ergonet.hamiltonian.integrator import AbstractIntegrator, Composition, integrator, integrator_names
from ergonet.hamiltonian.metric import first_metric
from ergonet.hamiltonian.phase import Phase, phase_at, with_force
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, WarmupNeeds
from ergonet.trajectory.fixed import Fixed, FixedTrajectory

FIRST_NUM_STEPS = 32
DIRECTIONS = ("forward", "random")
DIRECTION_KEY = 0xBB67AE85  # folded into the transition's key; far from the numbers that splitting it uses


class DrawnTrajectory(eqx.Module):
    """What is random about a static trajectory, besides the momentum that its key gives.

    The step size is negative where the trajectory goes backwards.
    """

    key_momentum: PRNGKey
    step_size: Scalar
    num_steps: Count
    uniform: Scalar


class HMC(AbstractKernel):
    """Static Hamiltonian Monte Carlo; see the module's docstring for the transition."""

    num_steps: int | None = eqx.field(static=True)
    step_size: float | None = eqx.field(static=True)
    step_jitter: float = eqx.field(static=True)
    length_jitter: float = eqx.field(static=True)
    direction: str = eqx.field(static=True)
    metric: str = eqx.field(static=True)
    target_acceptance: float = eqx.field(static=True)
    trajectory: Fixed

    def __init__(
        self,
        *,
        num_steps: int | None = None,
        step_size: float | None = None,
        step_jitter: float = 0.0,
        length_jitter: float = 0.2,
        direction: str = "forward",
        metric: str = "diagonal",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            num_steps: leapfrog steps of a trajectory, at least 1; None: found by the warm-up in function space.
            step_size: above 0; None: found by the warm-up.
            step_jitter: in [0, 1): the step size is multiplied by Uniform(1 - j, 1 + j) once per trajectory.
            length_jitter: in [0, 1): the length is uniform on the integers of num_steps (1 - j, 1 + j).
            direction: `forward`, or `random`: each trajectory goes forwards or backwards with probability 1/2.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`.
            integrator: a name, or a `Composition`.
            target_acceptance: in (0, 1).

        Raises:
            SettingError: a setting is out of its range.
        """
        check.require_adapted("HMC", step_size, metric, target_acceptance)
        require_length("HMC", num_steps, step_jitter, length_jitter)
        if direction not in DIRECTIONS:
            raise SettingError(f"`HMC(direction={direction!r})` is not known. {suggest(str(direction), DIRECTIONS)}")
        self.num_steps = None if num_steps is None else int(num_steps)
        self.step_size = step_size
        self.step_jitter = step_jitter
        self.length_jitter = length_jitter
        self.direction = direction
        self.metric = metric
        self.target_acceptance = target_acceptance
        self.trajectory = Fixed(resolve_integrator("HMC", integrator))

    def init(self, target: Target, position: Position) -> State:
        return first_state(target, position)

    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> FixedTrajectory:
        drawn = self.draw_trajectory(key, state, tuning)
        start = with_force(refresh(drawn.key_momentum, state), tuning.metric)
        return self.trajectory.begin(start, drawn.step_size, drawn.num_steps, drawn.uniform)

    def draw_trajectory(self, key: PRNGKey, state: State, tuning: Tuning) -> DrawnTrajectory:
        """Jitter the step size and the length, and draw the direction and what decides acceptance."""
        key_momentum, key_step, key_length, key_accept = jax.random.split(key, 4)
        dtype = state.position.dtype
        factor = 1 + self.step_jitter * jax.random.uniform(key_step, (), dtype, -1, 1)
        return DrawnTrajectory(
            key_momentum=key_momentum,
            step_size=self._directed(key, tuning.step_size * factor),
            num_steps=self._length(key_length, tuning),
            uniform=jax.random.uniform(key_accept, (), dtype),
        )

    def _directed(self, key: PRNGKey, step_size: Scalar) -> Scalar:
        if self.direction == "forward":
            return step_size
        backward = jax.random.bernoulli(jax.random.fold_in(key, DIRECTION_KEY))
        return jnp.where(backward, -step_size, step_size)

    def _length(self, key: PRNGKey, tuning: Tuning) -> Count:
        length = tuning.num_steps.astype(jnp.float32)
        low = jnp.maximum(1, jnp.round(length * (1 - self.length_jitter))).astype(jnp.int32)
        high = jnp.maximum(1, jnp.round(length * (1 + self.length_jitter))).astype(jnp.int32)
        return jax.random.randint(key, (), low, high + 1)

    def advance(self, target: Target, trajectory: FixedTrajectory, tuning: Tuning) -> FixedTrajectory:
        return self.trajectory.advance(target, tuning.metric, trajectory)

    def finished(self, trajectory: FixedTrajectory) -> Flag:
        return self.trajectory.finished(trajectory)

    def accept_probability(self, trajectory: FixedTrajectory) -> Scalar:
        """min(1, exp(H_start - H_end)); 0 where the end is not finite."""
        ratio = jnp.exp(trajectory.energy_start - trajectory.energy)
        return jnp.where(jnp.isfinite(trajectory.energy), jnp.minimum(1.0, ratio), 0.0)

    def conclude(self, trajectory: FixedTrajectory) -> tuple[State, Info]:
        probability = self.accept_probability(trajectory)
        accepted = trajectory.uniform < probability
        return conclude_fixed(trajectory, probability, accepted, self.trajectory.integrator.gradients_per_step)

    def tuning(self, target: Target, position: Position) -> Tuning:
        return Tuning(
            step_size=jnp.asarray(self.step_size or 1.0, position.dtype),
            metric=first_metric(self.metric, position),
            num_steps=jnp.asarray(self.num_steps or FIRST_NUM_STEPS, jnp.int32),
        )

    def warmup(self) -> WarmupNeeds:
        return WarmupNeeds(
            target_acceptance=self.target_acceptance,
            tune_step_size=self.step_size is None,
            learn_metric=self.metric != "identity",
            tune_length=self.num_steps is None,
        )

    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        return probe_step(self.trajectory.integrator, key, target, state, tuning)


def require_length(owner: str, num_steps: int | None, step_jitter: float, length_jitter: float) -> None:
    """The settings of every kernel with a length and jitter; `owner` is the kernel that an error names."""
    if num_steps is not None:
        check.require_integer(owner, "num_steps", num_steps, 1)
    check.require_share(owner, "step_jitter", step_jitter)
    check.require_share(owner, "length_jitter", length_jitter)


def resolve_integrator(owner: str, choice: str | Composition) -> Composition:
    """A `Composition` as it is, or the one of that name; `owner` is the kernel that an error names."""
    if isinstance(choice, Composition):
        return choice
    if choice not in integrator_names():
        raise SettingError(f"`{owner}(integrator={choice!r})` is not known. {suggest(str(choice), integrator_names())}")
    return integrator(choice)


def first_state(target: Target, position: Position) -> State:
    """The state of a chain at `position` (one gradient)."""
    phase = phase_at(target, position, jnp.zeros_like(position))
    return State(position=position, potential=phase.potential, gradient=phase.gradient)


def refresh(key: PRNGKey, state: State) -> Phase:
    """A phase point at `state` with a fresh standard normal momentum."""
    momentum = jax.lax.optimization_barrier(jax.random.normal(key, state.position.shape, state.position.dtype))
    return Phase(position=state.position, momentum=momentum, potential=state.potential, gradient=state.gradient)


def probe_step(steps: AbstractIntegrator, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
    """H_start - H_end of one integrator step from a fresh momentum."""
    start = refresh(key, state)
    end = steps.step(target, tuning.metric, tuning.step_size, start)
    return total_energy(start) - total_energy(end)


def conclude_fixed(
    trajectory: FixedTrajectory, probability: Scalar, accepted: Flag, gradients_per_step: int
) -> tuple[State, Info]:
    """The end where it was accepted, else the start, with its diagnostics."""
    chosen = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trajectory.phase, trajectory.start)
    taken = trajectory.num_steps - trajectory.steps_left
    error = trajectory.energy - trajectory.energy_start
    info = Info(
        acceptance=probability,
        gradients=taken * gradients_per_step,
        energy=jnp.where(accepted, trajectory.energy, trajectory.energy_start),
        energy_error=jnp.where(accepted, error, 0.0),
        max_energy_error=error,
        diverging=is_divergent(error),
        nonfinite=~jnp.isfinite(error),
        num_steps=taken,
        tree_depth=jnp.full((), -1, jnp.int32),
        moved=accepted,
    )
    return State(position=chosen.position, potential=chosen.potential, gradient=chosen.gradient), info
