"""Base of kernels with a doubling trajectory, which differ only in their settings."""

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Flag, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import with_force
from ergonet.samplers import _settings as check
from ergonet.samplers.base import State, TreeInfo, Tuning
from ergonet.samplers.common import AbstractAdaptedKernel, probe_step, refresh
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.doubling import Doubling, DoublingTrajectory

LARGEST_DOUBLINGS = 20


class AbstractTreeKernel(AbstractAdaptedKernel):
    """A kernel that selects one state of a doubling trajectory."""

    max_doublings: int = eqx.field(static=True)
    step_size: float | None
    metric: str | AbstractMetric
    target_acceptance: float
    trajectory: Doubling

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(TreeInfo)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> DoublingTrajectory:
        return self.trajectory.begin(key, tuning.metric, with_force(refresh(key, state), tuning.metric))

    def advance(self, target: AbstractDensity, trajectory: DoublingTrajectory, tuning: Tuning) -> DoublingTrajectory:
        return self.trajectory.advance(target, tuning.metric, tuning.step_size, trajectory)

    def complete(self, target: AbstractDensity, trajectory: DoublingTrajectory, tuning: Tuning) -> DoublingTrajectory:
        return self.trajectory.complete(target, tuning.metric, tuning.step_size, trajectory)

    def finished(self, trajectory: DoublingTrajectory) -> Flag:
        return trajectory.finished

    def conclude(self, trajectory: DoublingTrajectory) -> tuple[State, TreeInfo]:
        draw, leaves = trajectory.draw, trajectory.subtree
        info = TreeInfo(
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

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        return probe_step(self.trajectory.integrator, key, target, state, tuning)


def require_tree_settings(
    owner: str, max_doublings: int, step_size: float | None, metric: str | AbstractMetric, target_acceptance: float
) -> None:
    """Check the settings shared by kernels with doubling trajectories; `owner` is the kernel named in errors."""
    check.require_doublings(owner, max_doublings, LARGEST_DOUBLINGS, " (a million steps)")
    check.require_adapted(owner, step_size, metric, target_acceptance)
