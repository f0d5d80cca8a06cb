"""Naive stochastic gradient Hamiltonian Monte Carlo, with or without a test on all rows.

Trajectories of L steps q <- q + v / 2, v <- v - l g(q), q <- q + v / 2 with a fresh velocity v ~ N(0, l) and a new
minibatch for each g. Without the test the gradient's noise heats the chain and the result is wrong: this kernel is
here to be compared with. With it, every trajectory is accepted with min(1, exp(H - H')), H = U(q) + |v|^2 / (2 l) over
*all* rows, which costs a pass over the data. The steps are symmetric and a minibatch sequence is as likely as its
reverse, so that the test makes the sampler exact, at an acceptance that falls with the noise. That holds where an
epoch is whole trajectories: one that goes on into the next epoch may meet a row again that its reverse could not.
References: Chen, Fox and Guestrin 2014, section 3.1; 002, section 2.2 (its Algorithm 1 accepts on the wrong side).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Position, PRNGKey, Scalar
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import (
    CONSTANT,
    AbstractMinibatchKernel,
    Pace,
    StepInfo,
    check_stream,
    minibatch_gradient,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.samplers.stochastic.sghmc import RESAMPLING_KEY, kinetic_temperature

TEST_KEY = 0x9B05688C  # folded into the step's key for the test


class NaiveState(eqx.Module):
    """Where a chain is, and where its trajectory began."""

    position: Position
    velocity: Position
    start: Position
    start_potential: Scalar  # over all rows; 0 without a test
    start_kinetic: Scalar


class NaiveSGHMC(AbstractMinibatchKernel):
    """Hamiltonian steps with noisy gradients and no friction; see the module's docstring."""

    learning_rate: float | None = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)
    metropolis: bool = eqx.field(static=True)
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True)

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
            learning_rate: l = e^2, above 0; None: found by a short search on the loss.
            num_steps: L, steps of a trajectory, at least 1; the velocity is drawn afresh after each.
            metropolis: whether the end of each is tested against all rows.
            batch_size: rows of a minibatch, at least 1.
            steps_per_draw: minibatch steps of a draw, at least 1; None: an epoch. With the test, a draw inside a
                trajectory is one that is not tested yet: a multiple of `num_steps` is what one wants.

        Raises:
            SettingError: a setting is out of its range.
        """
        check_stream("NaiveSGHMC", batch_size, steps_per_draw, learning_rate)
        check.require_integer("NaiveSGHMC", "num_steps", num_steps, 1)
        self.learning_rate = learning_rate
        self.num_steps = int(num_steps)
        self.metropolis = bool(metropolis)
        self.schedule = CONSTANT
        self.batch_size = int(batch_size)
        self.steps_per_draw = None if steps_per_draw is None else int(steps_per_draw)

    @property
    def memory(self) -> float:
        return float(self.num_steps)

    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> NaiveState:
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
        self, key: PRNGKey, target: Target, state: NaiveState, rows: Any, pace: Pace
    ) -> tuple[NaiveState, StepInfo]:
        place = pace.number % self.num_steps
        state = jax.lax.cond(place == 0, lambda: self._begun(key, state, pace), lambda: state)
        middle = state.position + 0.5 * state.velocity
        potential, gradient = minibatch_gradient(target, middle, rows)
        velocity = state.velocity - pace.step_size * gradient
        moved = eqx.tree_at(lambda one: (one.position, one.velocity), state, (middle + 0.5 * velocity, velocity))
        acceptance = jnp.full_like(potential, jnp.nan)
        if self.metropolis:
            moved, acceptance = jax.lax.cond(
                place == self.num_steps - 1,
                lambda: self._tested(key, target, moved, pace),
                lambda: (moved, acceptance),
            )
        return moved, StepInfo(
            potential=potential,
            temperature=kinetic_temperature(velocity, pace.step_size),
            acceptance=acceptance,
            gradients=jnp.ones((), jnp.int32),
            clipped=jnp.zeros_like(potential),
        )

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

    def _tested(self, key: PRNGKey, target: Target, moved: NaiveState, pace: Pace) -> tuple[NaiveState, Scalar]:
        potential = target.potential(moved.position)
        error = potential + _kinetic(moved.velocity, pace) - moved.start_potential - moved.start_kinetic
        acceptance = jnp.where(jnp.isfinite(error), jnp.minimum(1.0, jnp.exp(-error)), 0.0)
        accepted = jax.random.uniform(jax.random.fold_in(key, TEST_KEY), (), potential.dtype) < acceptance
        position = jnp.where(accepted, moved.position, moved.start)
        kept = jnp.where(accepted, potential, moved.start_potential)
        return eqx.tree_at(lambda one: (one.position, one.start_potential), moved, (position, kept)), acceptance


def _kinetic(velocity: Position, pace: Pace) -> Scalar:
    return jnp.sum(velocity**2) / (2 * pace.step_size)
