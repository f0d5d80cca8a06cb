"""Metropolis-adjusted microcanonical sampling with jitter.

Draw a direction uniformly, take N steps of size e of the dynamics in `hamiltonian/microcanonical.py`, and accept the
end with probability min(1, e^-W), where the energy error W is the increase of the potential plus that of the kinetic
energy. Length and step size are drawn and learned as in `HMC`. With a `memory`, the direction is refreshed partially
before and after each step, which adds nothing to W. References: Robnik2023; Robnik2025.
"""

import jax
import jax.numpy as jnp

from ergonet._numbers import like, optional_integer, optional_real, real
from ergonet._types import PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.microcanonical import (
    MicrocanonicalIntegrator,
    MicrocanonicalPhase,
    RefreshedPhase,
    RefreshingIntegrator,
)
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.base import State, Tuning, WalkInfo
from ergonet.samplers.common import directed, require_directions
from ergonet.samplers.hmc import AbstractStatic
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.fixed import Fixed, FixedTrajectory


class MAMS(AbstractStatic):
    """Metropolis-adjusted microcanonical sampling; see the module's docstring for the transition."""

    memory: float | None

    def __init__(
        self,
        *,
        num_steps: int | None = None,
        step_size: float | None = None,
        step_jitter: float = 0.0,
        length_jitter: float = 0.2,
        memory: float | None = None,
        metric: str | AbstractMetric = "diagonal",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.9,
    ):
        """Check and keep the settings.

        Args:
            num_steps: number of steps of a trajectory, at least 1; None: learned in function space,
                and shared by the chains of a run.
            step_size: the step size, above 0; None: learned.
            step_jitter: as in `HMC`.
            length_jitter: as in `HMC`.
            memory: time in which the direction decorrelates within a trajectory, above 0, in mean lengths of a
                trajectory; None: there is no refreshment within.
            metric: as in `HMC`.
            integrator: a name, or a `Composition`.
            target_acceptance: target of the step-size adaptation, in (0, 1).

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_adapted("MAMS", step_size, metric, target_acceptance)
        check.require_length("MAMS", num_steps, step_jitter, length_jitter)
        if memory is not None:
            check.require_positive("MAMS", "memory", memory)
        self.num_steps = optional_integer(num_steps)
        self.step_size = optional_real(step_size)
        self.step_jitter, self.length_jitter = real(step_jitter), real(length_jitter)
        self.memory = optional_real(memory)
        self.direction = "forward"
        self.metric = metric
        self.target_acceptance = real(target_acceptance)
        steps = MicrocanonicalIntegrator(INTEGRATORS.resolve(integrator, owner="MAMS"))
        self.trajectory = Fixed(steps if memory is None else RefreshingIntegrator(steps))

    def check_target(self, target: AbstractDensity) -> None:
        require_directions("MAMS", target)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(WalkInfo)

    def conclude(self, trajectory: FixedTrajectory) -> tuple[State, WalkInfo]:
        state, info = super().conclude(trajectory)
        return state, WalkInfo.of(info)

    def start(self, key: PRNGKey, state: State, tuning: Tuning) -> MicrocanonicalPhase:
        if self.memory is None:
            return directed(key, state)
        key_direction, key_steps = jax.random.split(key)
        start = directed(key_direction, state)
        length = tuning.num_steps.astype(start.position.dtype) * tuning.step_size
        memory = like(self.memory, start.position) * length
        return RefreshedPhase(
            start.position, start.direction, start.potential, start.gradient, start.kinetic_energy, key_steps, memory
        )

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        """Minus the size of the energy error of one step, for the reason that `MCLMC.probe` gives."""
        return -jnp.abs(super().probe(key, target, state, tuning))
