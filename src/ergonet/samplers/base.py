"""The contract of a transition kernel: a small state machine of which every advance costs one gradient.

A driver runs `begin`, then `advance` until `finished`, then `conclude`. Because `advance` costs exactly one
potential gradient (a documented multiple where an algorithm needs more), any driver can interleave chains without
waste, and tests can enumerate trajectories exactly. Tuning is an argument, so adaptation never recompiles.
"""

import abc
from typing import Any

import equinox as eqx

from ergonet._types import Array, Count, Flag, Float, Int, Position, PRNGKey, Scalar
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.models.target import Target
from ergonet.trajectory.packing import packed_while_loop


class State(eqx.Module):
    """What the next transition needs, and nothing else."""

    position: Position
    potential: Scalar
    gradient: Position


class Tuning(eqx.Module):
    """What a warm-up learns. Kernels without a length or a metric ignore it.

    Attributes:
        step_size: in units of the standardised momentum's time, above 0.
        metric: the inverse mass matrix.
        num_steps: length of a static trajectory in steps, at least 1.
    """

    step_size: Scalar
    metric: AbstractMetric
    num_steps: Count


class Info(eqx.Module):
    """Diagnostics of one transition; one array `[chain, draw]` per field in `samples.stats`.

    Attributes:
        acceptance: the statistic that step-size adaptation uses, in [0, 1].
        gradients: potential gradients that the transition cost.
        energy: H of the returned state with its own momentum.
        energy_error: H - H_start of the returned state; 0 where a proposal was rejected.
        max_energy_error: H - H_start where it is furthest from 0, of the states that could have been returned or
            ended the trajectory: of a static one its end, whether accepted or not.
        diverging: an energy error above 1000, or not finite; of a random walk see there.
        nonfinite: some energy was not finite.
        num_steps: integrator steps.
        tree_depth: doublings completed; -1 where there is no tree.
        moved: the position changed.
    """

    acceptance: Float[Array, "..."]
    gradients: Int[Array, "..."]
    energy: Float[Array, "..."]
    energy_error: Float[Array, "..."]
    max_energy_error: Float[Array, "..."]
    diverging: Array
    nonfinite: Array
    num_steps: Int[Array, "..."]
    tree_depth: Int[Array, "..."]
    moved: Array


class WarmupNeeds(eqx.Module):
    """What a kernel wants from its warm-up; `ergonet.adaptation` turns it into stages.

    Attributes:
        target_acceptance: where the step size is driven to, in (0, 1).
        tune_step_size: whether the step size is learned (False where the user gave one).
        learn_metric: whether the inverse mass matrix is learned.
        tune_length: whether the number of steps is learned.
    """

    target_acceptance: float = eqx.field(static=True)
    tune_step_size: bool = eqx.field(static=True)
    learn_metric: bool = eqx.field(static=True)
    tune_length: bool = eqx.field(static=True)


class AbstractKernel(eqx.Module):
    """A Markov transition that leaves the target invariant."""

    @abc.abstractmethod
    def init(self, target: Target, position: Position) -> State:
        """The state of a chain at `position` (one gradient)."""

    @abc.abstractmethod
    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Any:
        """Refresh the momentum and lay out the trajectory; no gradient."""

    @abc.abstractmethod
    def advance(self, target: Target, trajectory: Any, tuning: Tuning) -> Any:
        """One step: one gradient per drift of the integrator."""

    @abc.abstractmethod
    def finished(self, trajectory: Any) -> Flag:
        """Whether the trajectory is complete."""

    def complete(self, target: Target, trajectory: Any, tuning: Tuning) -> Any:
        """`advance` a trajectory that has just begun until it is `finished`, for a driver of one chain at a time."""
        return packed_while_loop(lambda t: ~self.finished(t), lambda t: self.advance(target, t, tuning), trajectory)

    @abc.abstractmethod
    def conclude(self, trajectory: Any) -> tuple[State, Info]:
        """Accept or choose; no gradient."""

    @abc.abstractmethod
    def tuning(self, target: Target, position: Position) -> Tuning:
        """The tuning that a warm-up starts from."""

    @abc.abstractmethod
    def warmup(self) -> WarmupNeeds:
        """What its warm-up has to learn, and the target acceptance."""

    @abc.abstractmethod
    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        """Log acceptance probability of one step from `state`, for the search of a first step size."""


def run_transition(
    kernel: AbstractKernel, key: PRNGKey, target: Target, state: State, tuning: Tuning
) -> tuple[State, Info]:
    """One whole transition as a compiled loop."""
    trajectory = kernel.begin(key, target, state, tuning)
    return kernel.conclude(kernel.complete(target, trajectory, tuning))
