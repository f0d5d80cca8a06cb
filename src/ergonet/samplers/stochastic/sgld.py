"""Stochastic gradient Langevin dynamics.

q <- q - l g(q) + N(0, 2 l T), with g the gradient of the minibatch potential, l the learning rate (e / 2 in the
documents' e) and T the temperature, 1 for the posterior. There is no momentum and no test: the error is of the order
of l times the variance of g. At temperature 0 it is gradient descent. Use it for its simplicity; `SGHMC` decorrelates
faster. References: Welling and Teh 2011; 002, section 4.2.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Position, PRNGKey, Scalar
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import (
    AbstractMinibatchKernel,
    Pace,
    StepInfo,
    check_stream,
    minibatch_gradient,
    without_test,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule, resolve_schedule


class SGLDState(eqx.Module):
    """Where a chain is."""

    position: Position


class SGLD(AbstractMinibatchKernel):
    """Stochastic gradient Langevin dynamics; see the module's docstring for the step."""

    learning_rate: float | None = eqx.field(static=True)
    schedule: AbstractSchedule
    temperature: float = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True)

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        schedule: str | AbstractSchedule = "constant",
        temperature: float = 1.0,
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ):
        """Check and keep the settings.

        Args:
            learning_rate: l = e / 2 at the first step, above 0; None: found by a short search on the loss.
            schedule: how it changes: `constant`, `polynomial`, or an object
                (`schedules.Polynomial(...)`, `schedules.Cyclical(...)`).
            temperature: at least 0; 1 samples the posterior, 0 is gradient descent.
            batch_size: rows of a minibatch, at least 1.
            steps_per_draw: minibatch steps of a draw, at least 1; None: an epoch.

        Raises:
            SettingError: a setting is out of its range.
        """
        check_stream("SGLD", batch_size, steps_per_draw, learning_rate)
        check.require_at_least("SGLD", "temperature", temperature, 0.0)
        self.learning_rate = learning_rate
        self.schedule = resolve_schedule(schedule)
        self.temperature = float(temperature)
        self.batch_size = int(batch_size)
        self.steps_per_draw = None if steps_per_draw is None else int(steps_per_draw)

    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> SGLDState:
        return SGLDState(position)

    def step(self, key: PRNGKey, target: Target, state: SGLDState, rows: Any, pace: Pace) -> tuple[SGLDState, StepInfo]:
        potential, gradient = minibatch_gradient(target, state.position, rows)
        position = state.position - pace.step_size * gradient
        if self.temperature > 0:
            spread = jnp.sqrt(2 * self.temperature * pace.step_size)
            position = position + spread * normals(key, target.dim, position.dtype)
        return SGLDState(position), without_test(potential)
