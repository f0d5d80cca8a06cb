"""Static Hamiltonian Monte Carlo with delayed rejection.

A trajectory as in `HMC`; where its end is rejected, another of as many steps from the same start, whose steps are
shorter by a factor, and a Metropolis correction that allows for the first rejection (`trajectory/delayed.py`). Steps
can then be as long as most of the posterior allows: in a narrow region, where long steps diverge, a chain goes on by
short ones instead of staying where it is. A rejected proposal costs up to two more trajectories. Reference: Modi2024.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._numbers import real
from ergonet._types import Array, Flag, Int, PRNGKey
from ergonet.draws.statistics import SUM, Statistic, statistic, statistics
from ergonet.hamiltonian.energy import is_divergent
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.base import State, TrajectoryInfo, Tuning
from ergonet.samplers.hmc import HMC, AbstractAroundHMC
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.delayed import Delayed, DelayedTrajectory


class DelayedRejectionInfo(TrajectoryInfo):
    """Diagnostics of a transition with delayed rejection.

    `acceptance` is that of the first proposal, at which the step-size adaptation aims. `diverging` says that both
    proposals diverged: a chain is held up only there. `nonfinite` says that one of these had no finite energy.

    Attributes:
        num_proposals: number of proposals, 1 or 2.
    """

    num_proposals: Int[Array, "..."] = statistic("n_proposals", np.int32, SUM)


class DelayedRejectionHMC(AbstractAroundHMC):
    """Static Hamiltonian Monte Carlo with delayed rejection; see the module's docstring for the transition."""

    static: HMC
    trajectory: Delayed

    def __init__(
        self,
        reduction: float = 4.0,
        *,
        num_steps: int | None = None,
        step_size: float | None = None,
        step_jitter: float = 0.0,
        length_jitter: float = 0.2,
        metric: str | AbstractMetric = "diagonal",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            reduction: number by which the steps of the second proposal are shorter, above 1.
            num_steps: number of leapfrog steps of a trajectory, at least 1; None: learned in function space,
                and shared by the chains of a run.
            step_size: the step size of the first proposal, above 0; None: learned.
            step_jitter: as in `HMC`.
            length_jitter: as in `HMC`.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            integrator: a name, or a `Composition`.
            target_acceptance: target acceptance of the first proposal, in (0, 1).

        Raises:
            SettingError: a setting is out of range.
        """
        owner = type(self).__name__
        check.require_above(owner, "reduction", reduction, 1.0)
        check.require_adapted(owner, step_size, metric, target_acceptance)
        check.require_length(owner, num_steps, step_jitter, length_jitter)
        steps = INTEGRATORS.resolve(integrator, owner=owner)
        self.static = HMC(
            num_steps=num_steps,
            step_size=step_size,
            step_jitter=step_jitter,
            length_jitter=length_jitter,
            metric=metric,
            integrator=steps,
            target_acceptance=target_acceptance,
        )
        self.trajectory = Delayed(steps, real(reduction))

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(DelayedRejectionInfo)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> DelayedTrajectory:
        drawn = self.static.draw_trajectory(key, state, tuning)
        start = self.static.start(drawn.key_momentum, state, tuning)
        return self.trajectory.begin(start, drawn.step_size, drawn.num_steps, drawn.uniform)

    def advance(self, target: AbstractDensity, trajectory: DelayedTrajectory, tuning: Tuning) -> DelayedTrajectory:
        return self.trajectory.advance(target, tuning.metric, trajectory)

    def finished(self, trajectory: DelayedTrajectory) -> Flag:
        return self.trajectory.finished(trajectory)

    def conclude(self, trajectory: DelayedTrajectory) -> tuple[State, DelayedRejectionInfo]:
        is_first, is_second = trajectory.is_first, trajectory.is_second
        chosen = jax.tree.map(
            lambda first, second, start: jnp.where(is_first, first, jnp.where(is_second, second, start)),
            trajectory.phase,
            trajectory.second,
            trajectory.start,
        )
        begun, first, second = trajectory.energy_start, trajectory.first_energy, trajectory.second_energy
        energy = jnp.where(is_first, first, jnp.where(is_second, second, begun))
        errors = first - begun, jnp.where(is_first, 0.0, second - begun)
        is_worse = (jnp.abs(errors[1]) > jnp.abs(errors[0])) | jnp.isnan(errors[1])
        diverging = is_divergent(errors[0]) & is_divergent(errors[1])
        info = DelayedRejectionInfo(
            acceptance=trajectory.probabilities[0],
            gradients=trajectory.taken * self.trajectory.integrator.gradients_per_step,
            energy=energy,
            energy_error=energy - begun,
            max_energy_error=jnp.where(is_worse, errors[1], errors[0]),
            diverging=diverging,
            nonfinite=diverging & ~(jnp.isfinite(first) & jnp.isfinite(second)),
            num_steps=trajectory.taken,
            moved=is_first | is_second,
            num_proposals=jnp.where(is_first, 1, 2),
        )
        return State(position=chosen.position, potential=chosen.potential, gradient=chosen.gradient), info
