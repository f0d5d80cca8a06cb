"""Static Hamiltonian Monte Carlo with jitter.

Resample the momentum, take L leapfrog steps of size e, and accept the end with probability min(1, exp(H_start -
H_end)). The length L (1 +- length_jitter) and the step size e (1 +- step_jitter) are drawn for each trajectory, which
prevents resonance with the periods of the target. With `direction="random"`, the step size is e or -e with probability
1/2 each. The distribution of moves is the same, since momenta r and -r are equally probable, but the transition then
satisfies detailed balance without a momentum flip. Use HMC if trajectories of one length suit the whole posterior, as
for neural networks: it spends no steps on U-turn tests. Unless the length is given, the warm-up learns it in function
space. References: Neal2011; Lau2018, Algorithm 1 and section 2.1; Ask2022, Algorithm 4.3 (the random direction).
"""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import Whole, like, optional_integer, optional_real, real
from ergonet._types import Count, Flag, Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase, with_force
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.base import (
    AbstractKernel,
    AbstractProposalInfo,
    State,
    TrajectoryInfo,
    Tuning,
    WarmupNeeds,
)
from ergonet.samplers.common import AbstractAdaptedKernel, Proposal, refresh
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.fixed import AnyPhase, Fixed, FixedTrajectory

DIRECTIONS = ("forward", "random")


class DrawnTrajectory(eqx.Module):
    """The random settings of a static trajectory, besides its momentum.

    The step size is negative if the trajectory goes backward.
    """

    key_momentum: PRNGKey
    step_size: Scalar
    num_steps: Count
    uniform: Scalar


class AbstractStatic(AbstractAdaptedKernel):
    """A kernel that proposes the end of a trajectory whose length is drawn in advance."""

    num_steps: int | None
    step_size: float | None
    step_jitter: float
    length_jitter: float
    direction: str = eqx.field(static=True)
    metric: str | AbstractMetric
    target_acceptance: float
    trajectory: Fixed

    @property
    def length(self) -> Whole | None:
        return self.num_steps

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(TrajectoryInfo)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> FixedTrajectory:
        drawn = self.draw_trajectory(key, state, tuning)
        start = self.start(drawn.key_momentum, state, tuning)
        return self.trajectory.begin(start, drawn.step_size, drawn.num_steps, drawn.uniform)

    @abc.abstractmethod
    def start(self, key: PRNGKey, state: State, tuning: Tuning) -> AnyPhase:
        """A phase point at `state` whose momentum or direction is drawn."""

    def draw_trajectory(self, key: PRNGKey, state: State, tuning: Tuning) -> DrawnTrajectory:
        """Jitter the step size and the length; draw the direction and the uniform that decides acceptance."""
        key_momentum, key_uniforms = jax.random.split(key)
        of_step, of_length, of_direction, uniform = jax.random.uniform(key_uniforms, (4,), state.position.dtype)
        step_size = tuning.step_size * (1 + like(self.step_jitter, of_step) * (2 * of_step - 1))
        return DrawnTrajectory(
            key_momentum=key_momentum,
            step_size=jnp.where(of_direction < 0.5, -step_size, step_size) if self.is_two_way else step_size,
            num_steps=self._length(of_length, tuning),
            uniform=uniform,
        )

    @property
    def is_two_way(self) -> bool:
        """Whether trajectories go backward half of the time."""
        return self.direction == "random"

    def _length(self, uniform: Scalar, tuning: Tuning) -> Count:
        """A length from low to high, each with the same probability."""
        length = tuning.num_steps.astype(uniform.dtype)
        jitter = like(self.length_jitter, length)
        low, high = (jnp.maximum(1, jnp.round(length * (1 + sign * jitter))) for sign in (-1, 1))
        drawn = low + jnp.floor(uniform * (high - low + 1))
        return jnp.minimum(drawn, high).astype(jnp.int32)

    def advance(self, target: AbstractDensity, trajectory: FixedTrajectory, tuning: Tuning) -> FixedTrajectory:
        return self.trajectory.advance(target, tuning.metric, trajectory)

    def finished(self, trajectory: FixedTrajectory) -> Flag:
        return self.trajectory.finished(trajectory)

    def accept_probability(self, trajectory: FixedTrajectory) -> Scalar:
        """min(1, exp(H_start - H_end)); 0 if the energy at the end is not finite."""
        return self._proposal(trajectory).probability

    def conclude(self, trajectory: FixedTrajectory) -> tuple[State, AbstractProposalInfo]:
        return self._proposal(trajectory).conclude(self.accept_probability(trajectory), trajectory.uniform)

    def _proposal(self, trajectory: FixedTrajectory) -> Proposal:
        taken = trajectory.num_steps - trajectory.steps_left
        return Proposal(
            start=trajectory.start,
            end=trajectory.phase,
            energy_start=trajectory.energy_start,
            energy=trajectory.energy,
            num_steps=taken,
            gradients=taken * self.trajectory.integrator.gradients_per_step,
        )

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        start: Any = self.start(key, state, tuning)
        return start.energy - self.trajectory.integrator.step(target, tuning.metric, tuning.step_size, start).energy


class AbstractStaticHMC(AbstractStatic):
    """Static trajectories of Hamiltonian dynamics."""

    def start(self, key: PRNGKey, state: State, tuning: Tuning) -> Phase:
        return with_force(refresh(key, state), tuning.metric)


class HMC(AbstractStaticHMC):
    """Static Hamiltonian Monte Carlo; see the module's docstring for the transition."""

    def __init__(
        self,
        *,
        num_steps: int | None = None,
        step_size: float | None = None,
        step_jitter: float = 0.0,
        length_jitter: float = 0.2,
        direction: str = "forward",
        metric: str | AbstractMetric = "diagonal",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            num_steps: number of leapfrog steps of a trajectory, at least 1; None: learned in function space,
                and shared by the chains of a run.
            step_size: the step size, above 0; None: learned.
            step_jitter: j in [0, 1): the step size is multiplied by Uniform(1 - j, 1 + j) for each trajectory.
            length_jitter: j in [0, 1): the length is uniform on the integers in num_steps (1 - j, 1 + j).
            direction: `forward`, or `random`: each trajectory goes forward or backward with probability 1/2.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            integrator: a name, or a `Composition`.
            target_acceptance: target of the step-size adaptation, in (0, 1).

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_adapted("HMC", step_size, metric, target_acceptance)
        check.require_length("HMC", num_steps, step_jitter, length_jitter)
        check.require_one_of("HMC", "direction", direction, DIRECTIONS)
        self.num_steps = optional_integer(num_steps)
        self.step_size = optional_real(step_size)
        self.step_jitter = real(step_jitter)
        self.length_jitter = real(length_jitter)
        self.direction = direction
        self.metric = metric
        self.target_acceptance = real(target_acceptance)
        self.trajectory = Fixed(INTEGRATORS.resolve(integrator, owner="HMC"))


class AbstractAroundHMC(AbstractKernel):
    """A kernel that makes something else of static trajectories, and tunes them as `HMC` does.

    Attributes:
        static: draws the trajectories, and has their settings.
    """

    static: eqx.AbstractVar[HMC]

    @property
    def evaluate(self) -> Callable[[AbstractDensity, Position], State]:
        return self.static.evaluate

    def state_at(self, target: AbstractDensity, evaluated: State) -> State:
        return self.static.state_at(target, evaluated)

    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        return self.static.tuning(target, position)

    def warmup(self) -> WarmupNeeds:
        return self.static.warmup()

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        return self.static.probe(key, target, state, tuning)
