"""Naive stochastic gradient Hamiltonian Monte Carlo, with or without a Metropolis correction on all rows.

Trajectories have L steps q <- q + v / 2, v <- v - l g(q), q <- q + v / 2 with a resampled velocity v ~ N(0, l) and a
new minibatch for each g. Without the correction, the gradient noise heats the chain and the result is wrong; this
kernel is provided for comparison. With it, every trajectory is accepted with probability min(1, exp(H - H')), where
H = U(q) + |v|^2 / (2 l) is evaluated on *all* rows, which costs a pass over the data. The steps are symmetric and a
sequence of minibatches is as probable as its reverse, so the correction makes the sampler exact, at an acceptance that
decreases with the noise. This holds if an epoch consists of whole trajectories; a trajectory that continues into the
next epoch may use a row twice, which its reverse could not. References: Chen2014, section 3.1; ChenReport, section 2.2
(its Algorithm 1 has the acceptance condition reversed).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import integer, optional_integer, optional_real, whole
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import (
    CONSTANT,
    AbstractMinibatchKernel,
    AbstractStepInfo,
    MomentumInfo,
    Pace,
    TestedInfo,
    check_stream,
    minibatch_gradient,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.samplers.stochastic.sghmc import RESAMPLING_KEY, kinetic_temperature
from ergonet.target.contract import AbstractDensity

TEST_KEY = 0x9B05688C  # folded into the step's key for the Metropolis correction


class NaiveState(eqx.Module):
    """The position of a chain, and the start of its trajectory."""

    position: Position
    velocity: Position
    start: Position
    start_potential: Scalar  # over all rows; 0 without a Metropolis correction
    start_kinetic: Scalar


class NaiveSGHMC(AbstractMinibatchKernel):
    """Hamiltonian steps with noisy gradients and no friction; see the module's docstring."""

    learning_rate: float | None
    num_steps: int
    metropolis: bool = eqx.field(static=True)
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        num_steps: int = 10,
        metropolis: bool = False,
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ):
        """Check and keep the settings.

        Args:
            learning_rate: l = e^2, above 0; None: found by a stability search.
            num_steps: L, number of steps of a trajectory, at least 1; the velocity is resampled after each trajectory.
            metropolis: whether to apply a Metropolis correction on all rows to each trajectory.
            batch_size: number of rows of a minibatch, at least 1.
            steps_per_draw: number of minibatch steps per draw, at least 1; None: an epoch. With `metropolis`, use a
                multiple of `num_steps`, since a draw inside a trajectory has not been corrected yet.

        Raises:
            SettingError: a setting is out of range.
        """
        check_stream("NaiveSGHMC", batch_size, steps_per_draw, learning_rate)
        check.require_integer("NaiveSGHMC", "num_steps", num_steps, 1)
        self.learning_rate = optional_real(learning_rate)
        self.num_steps = integer(num_steps)
        self.metropolis = bool(metropolis)
        self.schedule = CONSTANT
        self.batch_size = int(batch_size)
        self.steps_per_draw = optional_integer(steps_per_draw)

    @property
    def memory(self) -> float:
        return float(self.num_steps)

    @property
    def is_corrected(self) -> bool:
        return self.metropolis

    @property
    def remedies(self) -> str:
        return "" if self.metropolis else "lower `learning_rate`, raise `batch_size` or set `metropolis=True`"

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(TestedInfo if self.metropolis else MomentumInfo)

    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> NaiveState:
        zero = jnp.zeros((), position.dtype)
        potential = target.potential(position) if self.metropolis else zero
        return NaiveState(
            position=position,
            velocity=jnp.zeros_like(position),
            start=position,
            start_potential=potential,
            start_kinetic=zero,
        )

    def step(
        self, key: PRNGKey, target: AbstractDensity, state: NaiveState, rows: Any, pace: Pace
    ) -> tuple[NaiveState, AbstractStepInfo]:
        num_steps = whole(self.num_steps)
        place = pace.number % num_steps
        state = jax.lax.cond(place == 0, lambda: self._begun(key, state, pace), lambda: state)
        middle = state.position + 0.5 * state.velocity
        potential, gradient = minibatch_gradient(target, middle, rows)
        velocity = state.velocity - pace.step_size * gradient
        moved = eqx.tree_at(lambda one: (one.position, one.velocity), state, (middle + 0.5 * velocity, velocity))
        temperature, one = kinetic_temperature(velocity, pace.step_size), jnp.ones((), jnp.int32)
        if not self.metropolis:
            return moved, MomentumInfo(potential=potential, gradients=one, temperature=temperature)
        moved, acceptance = jax.lax.cond(
            place == num_steps - 1,
            lambda: self._tested(key, target, moved, pace),
            lambda: (moved, jnp.full_like(potential, jnp.nan)),
        )
        info = TestedInfo(potential=potential, gradients=one, temperature=temperature, acceptance=acceptance)
        return moved, info

    def _begun(self, key: PRNGKey, state: NaiveState, pace: Pace) -> NaiveState:
        fresh = normals(jax.random.fold_in(key, RESAMPLING_KEY), state.position.size, state.position.dtype)
        velocity = jnp.sqrt(pace.step_size) * fresh
        return NaiveState(
            position=state.position,
            velocity=velocity,
            start=state.position,
            start_potential=state.start_potential,
            start_kinetic=_kinetic(velocity, pace),
        )

    def _tested(
        self, key: PRNGKey, target: AbstractDensity, moved: NaiveState, pace: Pace
    ) -> tuple[NaiveState, Scalar]:
        potential = target.potential(moved.position)
        error = potential + _kinetic(moved.velocity, pace) - moved.start_potential - moved.start_kinetic
        acceptance = jnp.where(jnp.isfinite(error), jnp.minimum(1.0, jnp.exp(-error)), 0.0)
        accepted = jax.random.uniform(jax.random.fold_in(key, TEST_KEY), (), potential.dtype) < acceptance
        position = jnp.where(accepted, moved.position, moved.start)
        kept = jnp.where(accepted, potential, moved.start_potential)
        return eqx.tree_at(lambda one: (one.position, one.start_potential), moved, (position, kept)), acceptance


def _kinetic(velocity: Position, pace: Pace) -> Scalar:
    return jnp.sum(velocity**2) / (2 * pace.step_size)
