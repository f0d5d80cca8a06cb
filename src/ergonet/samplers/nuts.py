"""The no-U-turn sampler.

Draw a momentum, double a tree of leapfrog states until it turns back on itself, draw one of its states. With
rho the sum of momenta: end when (M^-1 p-)'rho <= 0 or (M^-1 p+)'rho <= 0; states weigh e^-H. Use it as the safe
general choice: no length to tune. When a tree ends and how a state is drawn are parts (`trajectory/criterion.py`,
`trajectory/selection.py`), of which every combination is exact; the sampler of 2014 is
`NUTS(criterion="original", selection="slice")`. References: Hoffman and Gelman 2014; Betancourt 2017, appendix A;
Lau 2018, Algorithm 6; Ask 2022, Algorithm 5.2; Stan's extra checks.
"""

import equinox as eqx
import jax.numpy as jnp

from ergonet._errors import SettingError
from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import first_metric
from ergonet.hamiltonian.phase import with_force
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, WarmupNeeds
from ergonet.samplers.hmc import first_state, probe_step, refresh, resolve_integrator
from ergonet.trajectory.criterion import AbstractCriterion, resolve_criterion
from ergonet.trajectory.doubling import Doubling, DoublingTrajectory
from ergonet.trajectory.selection import AbstractSelection, resolve_selection

LARGEST_DOUBLINGS = 20


class NUTS(AbstractKernel):
    """The no-U-turn sampler; see the module's docstring for the transition."""

    max_doublings: int = eqx.field(static=True)
    step_size: float | None = eqx.field(static=True)
    metric: str = eqx.field(static=True)
    target_acceptance: float = eqx.field(static=True)
    trajectory: Doubling

    def __init__(
        self,
        *,
        max_doublings: int = 10,
        step_size: float | None = None,
        metric: str = "diagonal",
        criterion: str | AbstractCriterion = "generalised",
        selection: str | AbstractSelection = "multinomial",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            max_doublings: at most 2^max_doublings - 1 steps in a transition; 1 to 20.
            step_size: above 0; None: found by the warm-up.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`.
            criterion: when a tree ends: `original`, `generalised`, `exhaustive`, or an object (`Exhaustive(0.2)`).
            selection: how a state is drawn: `multinomial`, `slice`, or an object.
            integrator: a name, or a `Composition`.
            target_acceptance: in (0, 1).

        Raises:
            SettingError: a setting is out of its range.
        """
        require_tree_settings("NUTS", max_doublings, step_size, metric, target_acceptance)
        self.max_doublings = int(max_doublings)
        self.step_size = step_size
        self.metric = metric
        self.target_acceptance = target_acceptance
        self.trajectory = Doubling(
            criterion=resolve_criterion("NUTS", criterion),
            selection=resolve_selection("NUTS", selection),
            integrator=resolve_integrator("NUTS", integrator),
            max_doublings=self.max_doublings,
        )

    def init(self, target: Target, position: Position) -> State:
        return first_state(target, position)

    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> DoublingTrajectory:
        return self.trajectory.begin(key, tuning.metric, with_force(refresh(key, state), tuning.metric))

    def advance(self, target: Target, trajectory: DoublingTrajectory, tuning: Tuning) -> DoublingTrajectory:
        return self.trajectory.advance(target, tuning.metric, tuning.step_size, trajectory)

    def complete(self, target: Target, trajectory: DoublingTrajectory, tuning: Tuning) -> DoublingTrajectory:
        return self.trajectory.complete(target, tuning.metric, tuning.step_size, trajectory)

    def finished(self, trajectory: DoublingTrajectory) -> Flag:
        return trajectory.finished

    def conclude(self, trajectory: DoublingTrajectory) -> tuple[State, Info]:
        draw, leaves = trajectory.draw, trajectory.subtree
        info = Info(
            acceptance=leaves.sum_acceptance / jnp.maximum(leaves.num_states, 1),
            gradients=leaves.num_states * self.trajectory.integrator.gradients_per_step,
            energy=draw.energy,
            energy_error=draw.energy - trajectory.energy_start,
            max_energy_error=leaves.max_energy_error,
            diverging=leaves.divergent,
            nonfinite=leaves.nonfinite,
            num_steps=leaves.num_states,
            tree_depth=trajectory.depth,
            moved=trajectory.moved,
        )
        return State(position=draw.position, potential=draw.potential, gradient=draw.gradient), info

    def tuning(self, target: Target, position: Position) -> Tuning:
        return Tuning(
            step_size=jnp.asarray(self.step_size or 1.0, position.dtype),
            metric=first_metric(self.metric, position),
            num_steps=jnp.ones((), jnp.int32),
        )

    def warmup(self) -> WarmupNeeds:
        return WarmupNeeds(
            target_acceptance=self.target_acceptance,
            tune_step_size=self.step_size is None,
            learn_metric=self.metric != "identity",
            tune_length=False,
        )

    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        return probe_step(self.trajectory.integrator, key, target, state, tuning)


def require_tree_settings(
    owner: str, max_doublings: int, step_size: float | None, metric: str, target_acceptance: float
) -> None:
    """The settings that every kernel with a doubling trajectory has; `owner` is the kernel that an error names."""
    check.require_integer(owner, "max_doublings", max_doublings, 1)
    if max_doublings > LARGEST_DOUBLINGS:
        raise SettingError(
            f"`{owner}(max_doublings=...)` must be at most {LARGEST_DOUBLINGS} (a million steps), got {max_doublings}."
        )
    check.require_adapted(owner, step_size, metric, target_acceptance)
