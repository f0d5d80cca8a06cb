"""Microcanonical Langevin Monte Carlo, without a Metropolis correction.

A transition takes `num_steps` steps of the dynamics in `hamiltonian/microcanonical.py`. Before the steps of a time t,
the direction u is refreshed partially, u <- (u + nu z) / |u + nu z|, z ~ N(0, I), nu = sqrt((e^(2 t / L) - 1) / D), so
that it decorrelates in a time L, the memory; it is part of the state of the chain. Such a time is as many steps as fit
into half of the memory, at least one. A step with an energy error above 1000, up or down, or not finite is undone,
and the direction is reversed.

The draws are *biased* by the step size, since nothing is ever rejected. The step size is learned such that the mean
square of the energy error of a step, divided by the dimension D, is `energy_variance`. Steps can then be large, and do
not shrink as D grows. Use it to move fast from initial values to the posterior, or for predictions if a small bias
does not matter; `MAMS` is the exact kernel with the same dynamics. References: Robnik2023; Robnik2025.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._numbers import Whole, integer, like, optional_real, plain, real, whole
from ergonet._types import Array, Count, Flag, Float, Int, Position, PRNGKey, Scalar
from ergonet.draws.statistics import FLOAT, MEAN, SUM, Statistic, statistic, statistics
from ergonet.hamiltonian.energy import DIVERGENCE_THRESHOLD
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric, first_metric
from ergonet.hamiltonian.microcanonical import (
    MicrocanonicalIntegrator,
    MicrocanonicalPhase,
    partially_refreshed,
)
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractInfo, AbstractKernel, EnergyVariance, State, Tuning, WarmupNeeds
from ergonet.samplers.common import directed, require_directions
from ergonet.target.contract import AbstractDensity

BOUNDS = -DIVERGENCE_THRESHOLD, DIVERGENCE_THRESHOLD  # of energy errors
REFRESHED = 0.5  # of the memory, between two refreshments: normals for each step take a tenth of the time


class DirectedState(State):
    """A state with the direction of motion, in standardized coordinates; 0 until the first transition draws one."""

    direction: Position


class MCLMCInfo(AbstractInfo):
    """Diagnostics of a transition without a Metropolis correction.

    Attributes:
        energy_variance: mean square of the energy error of a step, per dimension. Errors that are not finite do not
            count, and larger ones count as 1000.
        num_steps: number of integrator steps.
    """

    energy_variance: Float[Array, "..."] = statistic("energy_variance", FLOAT, MEAN)
    num_steps: Int[Array, "..."] = statistic("n_steps", np.int32, SUM)


class MCLMCTrajectory(eqx.Module):
    """The current end of the trajectory, and sums over the steps whose energy error is finite."""

    phase: MicrocanonicalPhase
    key: PRNGKey
    steps_left: Count
    num_steps: Count
    finite: Count
    squares: Scalar  # of energy errors
    diverging: Flag
    moved: Flag


class MCLMC(AbstractKernel):
    """Microcanonical Langevin Monte Carlo, biased by its step size; see the module's docstring for the transition."""

    num_steps: int
    step_size: float | None
    memory: float | None
    energy_variance: float
    first_energy_variance: float | None
    metric: str | AbstractMetric
    integrator: MicrocanonicalIntegrator

    def __init__(
        self,
        *,
        num_steps: int = 16,
        step_size: float | None = None,
        memory: float | None = None,
        energy_variance: float = 5e-4,
        first_energy_variance: float | None = None,
        metric: str | AbstractMetric = "diagonal",
        integrator: str | Composition = "leapfrog",
    ):
        """Check and keep the settings.

        Args:
            num_steps: number of steps of a transition, at least 1.
            step_size: the step size, above 0; None: learned.
            memory: time L in which the direction decorrelates, above 0, in units of the step size; None: learned, 0.4
                times the autocorrelation time of the monitored quantities.
            energy_variance: mean square of the energy error of a step, per dimension, at which the step size aims;
                above 0. Smaller values mean smaller steps and a smaller bias.
            first_energy_variance: the same at the start of the warm-up, from which it changes geometrically; None:
                `energy_variance`. A large value moves fast from remote initial values to the posterior.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            integrator: a name, or a `Composition`.

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_integer("MCLMC", "num_steps", num_steps, 1)
        check.require_positive("MCLMC", "energy_variance", energy_variance)
        optional = {"step_size": step_size, "memory": memory, "first_energy_variance": first_energy_variance}
        for name, value in optional.items():
            if value is not None:
                check.require_positive("MCLMC", name, value)
        check.require_metric("MCLMC", metric)
        self.num_steps = integer(num_steps)
        self.step_size = optional_real(step_size)
        self.memory = optional_real(memory)
        self.energy_variance = real(energy_variance)
        self.first_energy_variance = optional_real(first_energy_variance)
        self.metric = metric
        self.integrator = MicrocanonicalIntegrator(INTEGRATORS.resolve(integrator, owner="MCLMC"))

    @property
    def length(self) -> Whole:
        return self.num_steps

    @property
    def is_corrected(self) -> bool:
        return False

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(MCLMCInfo)

    def check_target(self, target: AbstractDensity) -> None:
        require_directions("MCLMC", target)

    def state_at(self, target: AbstractDensity, evaluated: State) -> DirectedState:
        position = evaluated.position
        return DirectedState(position, evaluated.potential, evaluated.gradient, jnp.zeros_like(position))

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> MCLMCTrajectory:
        assert isinstance(state, DirectedState)
        zero = jnp.zeros_like(state.potential)
        none, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        return MCLMCTrajectory(
            phase=MicrocanonicalPhase(state.position, state.direction, state.potential, state.gradient, zero),
            key=key,
            steps_left=tuning.num_steps,
            num_steps=tuning.num_steps,
            finite=none,
            squares=zero,
            diverging=no,
            moved=no,
        )

    def advance(self, target: AbstractDensity, trajectory: MCLMCTrajectory, tuning: Tuning) -> MCLMCTrajectory:
        assert tuning.memory is not None
        held = trajectory.phase
        start = replace(held, direction=self._refreshed(trajectory, tuning.step_size, tuning.memory))
        end = self.integrator.step(target, tuning.metric, tuning.step_size, start)
        error = end.energy - start.energy
        is_finite, is_kept = jnp.isfinite(error), jnp.abs(error) <= DIVERGENCE_THRESHOLD
        phase = jax.tree.map(lambda new, old: jnp.where(is_kept, new, old), end, start)
        direction = jnp.where(is_kept, phase.direction, -phase.direction)
        return replace(
            trajectory,
            phase=replace(phase, direction=direction, kinetic_energy=jnp.zeros_like(error)),
            steps_left=trajectory.steps_left - 1,
            finite=trajectory.finite + is_finite,
            squares=trajectory.squares + jnp.where(is_finite, jnp.clip(error, *BOUNDS) ** 2, 0.0),
            diverging=trajectory.diverging | ~is_kept,
            moved=trajectory.moved | is_kept,
        )

    def _refreshed(self, trajectory: MCLMCTrajectory, step_size: Scalar, memory: Scalar) -> Position:
        """The direction, refreshed for as many steps at once as take a share of the memory, and at the first step."""
        every = jnp.clip(REFRESHED * memory / step_size, 1, trajectory.num_steps).astype(jnp.int32)
        made, direction = trajectory.num_steps - trajectory.steps_left, trajectory.phase.direction
        time = step_size * jnp.minimum(every, trajectory.steps_left)
        key = jax.random.fold_in(trajectory.key, made)
        return lax.cond(
            made % every == 0,
            lambda: partially_refreshed(key, direction, time, memory),
            lambda: direction,
        )

    def finished(self, trajectory: MCLMCTrajectory) -> Flag:
        return trajectory.steps_left <= 0

    def conclude(self, trajectory: MCLMCTrajectory) -> tuple[DirectedState, MCLMCInfo]:
        phase, finite = trajectory.phase, trajectory.finite
        info = MCLMCInfo(
            gradients=trajectory.num_steps * self.integrator.gradients_per_step,
            diverging=trajectory.diverging,
            nonfinite=finite < trajectory.num_steps,
            moved=trajectory.moved,
            energy_variance=trajectory.squares / (jnp.maximum(finite, 1) * phase.position.size),
            num_steps=trajectory.num_steps,
        )
        return DirectedState(phase.position, phase.potential, phase.gradient, phase.direction), info

    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        return Tuning(
            step_size=like(1.0 if self.step_size is None else self.step_size, position),
            metric=first_metric(self.metric, position),
            num_steps=whole(self.num_steps),
            memory=like(np.sqrt(position.size) if self.memory is None else self.memory, position),
        )

    def warmup(self) -> WarmupNeeds:
        last = plain(self.energy_variance)
        first = last if self.first_energy_variance is None else plain(self.first_energy_variance)
        return WarmupNeeds.of(
            EnergyVariance(first, last),
            step_size=self.step_size is None,
            metric=isinstance(self.metric, str) and self.metric != "identity",
            memory=self.memory is None,
        )

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        """Minus the size of the energy error of one step.

        Away from the mode, a step loses energy, and never more than some (D - 1) log 2 of it, however large it is: once
        the direction has turned into the force, the error no longer grows. By its sign, a search would go on doubling.
        """
        start = directed(key, state)
        error = self.integrator.step(target, tuning.metric, tuning.step_size, start).energy - start.energy
        return -jnp.abs(error)
