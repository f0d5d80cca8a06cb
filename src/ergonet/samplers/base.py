"""The contract of a transition kernel: a state machine in which every advance costs one gradient.

A driver calls `begin`, then `advance` until `finished`, then `conclude`. Because `advance` costs exactly one potential
gradient (or a documented multiple), any driver can interleave chains without waste, and tests can enumerate
trajectories exactly. Tuning is an argument, so adaptation never recompiles.
"""

import abc
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._errors import SettingError
from ergonet._numbers import AbstractSettings, Whole
from ergonet._types import Array, Bool, Count, Flag, Float, Int, Position, PRNGKey, Scalar
from ergonet.draws.statistics import (
    ANY,
    FLOAT,
    FURTHEST,
    LAST,
    MAX,
    SUM,
    AbstractDiagnostics,
    Statistic,
    statistic,
)
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.packing import packed_while_loop


class State(eqx.Module):
    """The state between transitions: exactly what the next transition needs."""

    position: Position
    potential: Scalar
    gradient: Position


def with_gradient(target: AbstractDensity, position: Position) -> State:
    """A target at `position`: the potential and its gradient."""
    potential, gradient = jax.value_and_grad(target.potential)(position)
    return State(position=position, potential=potential, gradient=gradient)


class Tuning(eqx.Module):
    """What a warm-up learns; kernels ignore fields that they do not use.

    Attributes:
        step_size: step size for standardized momenta, above 0.
        metric: the inverse mass matrix.
        num_steps: length of a static trajectory in steps, at least 1.
        memory: time in which the direction of a microcanonical kernel decorrelates; None for other kernels.
    """

    step_size: Scalar
    metric: AbstractMetric
    num_steps: Count
    memory: Scalar | None = None


class AbstractInfo(AbstractDiagnostics):
    """Diagnostics of one transition of any kernel; one array `[chain, draw]` per field in `samples.stats`.

    Attributes:
        gradients: number of potential gradients of the transition.
        diverging: whether an energy error was above 1000 or not finite; see `random_walk.py` for random walks, and
            `delayed_rejection_hmc.py` for two proposals.
        nonfinite: whether some energy was not finite.
        moved: whether the position changed.
    """

    gradients: Int[Array, "..."] = statistic("gradients", np.int32, SUM)
    diverging: Bool[Array, "..."] = statistic("diverging", np.bool_, ANY)
    nonfinite: Bool[Array, "..."] = statistic("nonfinite", np.bool_, ANY)
    moved: Bool[Array, "..."] = statistic("moved", np.bool_, ANY)


class AbstractProposalInfo(AbstractInfo):
    """Diagnostics of a transition that weights states by their energy.

    Attributes:
        acceptance: the acceptance statistic used by step-size adaptation, in [0, 1].
        energy_error: H - H_start of the returned state; 0 if the proposal was rejected.
        max_energy_error: the value of H - H_start furthest from 0 among the states that could have been returned or
            that ended the trajectory; for a static trajectory its end, accepted or not.
        num_steps: number of integrator steps, or of proposals.
    """

    acceptance: Float[Array, "..."] = statistic("acceptance_rate", FLOAT, LAST)
    energy_error: Float[Array, "..."] = statistic("energy_error", FLOAT, LAST)
    max_energy_error: Float[Array, "..."] = statistic("max_energy_error", FLOAT, FURTHEST)
    num_steps: Int[Array, "..."] = statistic("n_steps", np.int32, SUM)


class WalkInfo(AbstractProposalInfo):
    """Diagnostics of a proposal without momentum, for which H is the potential, or with a direction instead of one.

    The energy of a direction is not a variable of a joint density, so that E-BFMI would say nothing.
    """

    @staticmethod
    def of(info: AbstractProposalInfo) -> "WalkInfo":
        """The diagnostics without the energy."""
        return WalkInfo(**{field.name: getattr(info, field.name) for field in fields(WalkInfo)})


class TrajectoryInfo(AbstractProposalInfo):
    """Diagnostics of a Hamiltonian trajectory.

    Attributes:
        energy: H of the returned state, at its momentum.
    """

    energy: Float[Array, "..."] = statistic("energy", FLOAT, LAST, is_potential=True)


class TreeInfo(AbstractProposalInfo):
    """Diagnostics of a doubling trajectory.

    Attributes:
        energy: H of the returned state, at its momentum.
        tree_depth: number of completed doublings.
    """

    energy: Float[Array, "..."] = statistic("energy", FLOAT, LAST, is_potential=True)
    tree_depth: Int[Array, "..."] = statistic("tree_depth", np.int32, MAX)


class EnergyVariance(eqx.Module):
    """Aim of the step size of a kernel without a Metropolis correction: the variance of its energy errors.

    Attributes:
        first: mean square of the energy error of a step, per dimension, at the start of a warm-up.
        last: the same at its end; in between it changes geometrically.
    """

    first: float
    last: float


class WarmupNeeds(eqx.Module):
    """What the warm-up of a kernel should learn; the learners are in `ergonet.adaptation`.

    Attributes:
        step_size_aim: aim of the step-size adaptation: an acceptance in (0, 1), or energy errors of a given size.
        learned: the fields of `Tuning` to learn, without those that the user has given.
        fewest_steps: the least number of steps of a trajectory, whatever length is learned.
    """

    step_size_aim: float | EnergyVariance
    learned: tuple[str, ...] = eqx.field(static=True)
    fewest_steps: Whole = 1

    @staticmethod
    def of(
        step_size_aim: float | EnergyVariance,
        *,
        step_size: bool,
        metric: bool = False,
        num_steps: bool = False,
        memory: bool = False,
    ) -> "WarmupNeeds":
        """Make the record from flags that say which fields to learn."""
        wanted = {"step_size": step_size, "metric": metric, "num_steps": num_steps, "memory": memory}
        return WarmupNeeds(step_size_aim, tuple(name for name, is_wanted in wanted.items() if is_wanted))

    @property
    def target_acceptance(self) -> float:
        """The target acceptance of a kernel with a Metropolis correction."""
        if isinstance(self.step_size_aim, EnergyVariance):
            raise SettingError("A kernel without a Metropolis correction has no target acceptance.")
        return self.step_size_aim


class AbstractKernel(AbstractSettings):
    """A Markov transition that leaves the target invariant, exactly or up to the error of its steps."""

    @property
    def is_corrected(self) -> bool:
        """Whether draws converge to the target; otherwise they are biased by the step size."""
        return True

    def check_target(self, target: AbstractDensity) -> None:
        """Check that a target offers what the kernel needs.

        Raises:
            CapabilityError: it does not.
        """

    def check_starts(self, dim: int, positions: np.ndarray | None) -> None:
        """Check that a target of `dim` coordinates and starts `[chain, dim]` (None: to be drawn) suit the kernel.

        Raises:
            SettingError: they do not.
        """

    def start_near(self, position: Position) -> Position:
        """Where a chain starts for a drawn position: the position itself, unless the kernel confines chains."""
        return position

    @abc.abstractmethod
    def statistics(self) -> tuple[Statistic, ...]:
        """The declared statistics: `statistics(...)` of the record that `conclude` returns."""

    @property
    def evaluate(self) -> Callable[[AbstractDensity, Position], State]:
        """Evaluates a target where a chain is; kernels that share it share its compiled program."""
        return with_gradient

    def state_at(self, target: AbstractDensity, evaluated: State) -> State:
        """The state of a chain that starts where `evaluate` has evaluated the target."""
        return evaluated

    def init(self, target: AbstractDensity, position: Position) -> State:
        """The state of a chain that starts at `position` (one gradient).

        Raises:
            CapabilityError: the target does not suit the kernel.
        """
        self.check_target(target)
        return self.state_at(target, self.evaluate(target, position))

    @abc.abstractmethod
    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Any:
        """Resample the momentum and begin the trajectory; no gradient."""

    @abc.abstractmethod
    def advance(self, target: AbstractDensity, trajectory: Any, tuning: Tuning) -> Any:
        """One step: one gradient per drift of the integrator."""

    @abc.abstractmethod
    def finished(self, trajectory: Any) -> Flag:
        """Whether the trajectory is complete."""

    def complete(self, target: AbstractDensity, trajectory: Any, tuning: Tuning) -> Any:
        """Run `advance` until `finished`, for a driver of one chain at a time."""
        return packed_while_loop(lambda t: ~self.finished(t), lambda t: self.advance(target, t, tuning), trajectory)

    @abc.abstractmethod
    def conclude(self, trajectory: Any) -> tuple[State, AbstractInfo]:
        """Accept or reject, or select a state; no gradient."""

    @abc.abstractmethod
    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        """The tuning at the start of a warm-up."""

    @abc.abstractmethod
    def warmup(self) -> WarmupNeeds:
        """What the warm-up should learn, and the target acceptance."""

    @abc.abstractmethod
    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        """Log acceptance probability of one step from `state`, for the search of an initial step size."""


def run_transition(
    kernel: AbstractKernel, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning
) -> tuple[State, AbstractInfo]:
    """Run one complete transition as a compiled loop."""
    trajectory = kernel.begin(key, target, state, tuning)
    return kernel.conclude(kernel.complete(target, trajectory, tuning))
