"""Algorithm 16 of Lau2018 exactly as printed, as a minibatch kernel; it does not sample the posterior.

For each draw v ~ e N(0, 1), then L times: q <- q + v, then v <- -l g(q) - a v + N(0, 2 (a - b l)), with g the gradient
of the minibatch potential, l the learning rate and a the momentum decay. Against SGHMC (`ergonet.SGHMC`) it drops v on
the right-hand side, so that no momentum is left after two steps; its noise has variance 2 a where 2 a l is meant; and
the velocity is drawn with a standard deviation e that occurs nowhere else. What remains is Langevin dynamics at the
temperature a / l instead of 1.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import real
from ergonet.draws.statistics import Statistic, statistics
from ergonet.samplers.stochastic.base import (
    CONSTANT,
    AbstractMinibatchKernel,
    GradientInfo,
    Pace,
    minibatch_gradient,
    one_gradient,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.target.contract import AbstractDensity

FRESH_KEY = 0x16


class PrintedState(eqx.Module):
    """The position and the velocity of a chain."""

    position: jax.Array
    velocity: jax.Array


class PrintedSGHMC(AbstractMinibatchKernel):
    """The kernel of the module's docstring with b = 0; e and L are arrays, so that a grid compiles once."""

    learning_rate: float | None
    velocity_scale: jax.Array
    length: jax.Array
    momentum_decay: float = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    schedule: AbstractSchedule

    def __init__(
        self, *, learning_rate: float, velocity_scale: float, length: int, momentum_decay: float, batch_size: int
    ):
        """Keep the settings.

        Args:
            learning_rate: l, above 0.
            velocity_scale: e, above 0.
            length: L, steps of a draw, at least 1.
            momentum_decay: a, in (0, 1).
            batch_size: rows of a minibatch.
        """
        self.learning_rate, self.velocity_scale = real(learning_rate), jnp.asarray(velocity_scale)
        self.length = jnp.asarray(length, jnp.int32)
        self.momentum_decay, self.batch_size, self.schedule = momentum_decay, batch_size, CONSTANT

    @property
    def steps_per_draw(self) -> int:  # type: ignore[override]
        return int(self.length)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(GradientInfo)

    def init(self, key: jax.Array, target: AbstractDensity, position: jax.Array, step_size: jax.Array) -> PrintedState:
        return PrintedState(position, jnp.zeros_like(position))

    def step(
        self, key: jax.Array, target: AbstractDensity, state: PrintedState, rows: object, pace: Pace
    ) -> tuple[PrintedState, GradientInfo]:
        size, dtype = state.velocity.size, state.velocity.dtype
        velocity = jax.lax.cond(
            pace.number % self.length == 0,
            lambda: self.velocity_scale * normals(jax.random.fold_in(key, FRESH_KEY), size, dtype),
            lambda: state.velocity,
        )
        position = state.position + velocity
        potential, gradient = minibatch_gradient(target, position, rows)
        noise = (2 * self.momentum_decay) ** 0.5 * normals(key, size, dtype)
        velocity = -pace.step_size * gradient - self.momentum_decay * velocity + noise
        return PrintedState(position, velocity), one_gradient(potential)
