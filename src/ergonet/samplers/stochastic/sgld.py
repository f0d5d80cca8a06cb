"""Stochastic gradient Langevin dynamics.

q <- q - l g(q) + N(0, 2 l T), with g the gradient of the minibatch potential, l the learning rate (e / 2 for the step
size e of the references) and T the temperature, 1 for the posterior. There is no momentum and no Metropolis correction;
the bias is of the order of l times the variance of g. At temperature 0 this is gradient descent. It is simple, but
`SGHMC` decorrelates faster. References: WellingTeh2011; ChenReport, section 4.2.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._numbers import like, optional_integer, optional_real, real
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.samplers import _settings as check
from ergonet.samplers.registry import SCHEDULES
from ergonet.samplers.stochastic.base import (
    AbstractMinibatchKernel,
    GradientInfo,
    Pace,
    check_stream,
    minibatch_gradient,
    one_gradient,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.target.contract import AbstractDensity


class SGLDState(eqx.Module):
    """The state of a chain."""

    position: Position


class SGLD(AbstractMinibatchKernel):
    """Stochastic gradient Langevin dynamics; see the module's docstring for the step."""

    learning_rate: float | None
    schedule: AbstractSchedule
    temperature: float
    is_noisy: bool = eqx.field(static=True)  # above temperature 0
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None

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
            learning_rate: l = e / 2 at the first step, above 0; None: found by a stability search.
            schedule: schedule of the learning rate: `constant`, `polynomial`, or an object
                (`schedules.Polynomial(...)`, `schedules.Cyclical(...)`).
            temperature: at least 0; 1 samples the posterior, 0 is gradient descent.
            batch_size: number of rows of a minibatch, at least 1.
            steps_per_draw: number of minibatch steps per draw, at least 1; None: an epoch.

        Raises:
            SettingError: a setting is out of range.
        """
        check_stream("SGLD", batch_size, steps_per_draw, learning_rate)
        check.require_at_least("SGLD", "temperature", temperature, 0.0)
        self.learning_rate = optional_real(learning_rate)
        self.schedule = SCHEDULES.resolve(schedule, owner="SGLD")
        self.temperature, self.is_noisy = real(temperature), temperature > 0
        self.batch_size = int(batch_size)
        self.steps_per_draw = optional_integer(steps_per_draw)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(GradientInfo)

    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> SGLDState:
        return SGLDState(position)

    def step(
        self, key: PRNGKey, target: AbstractDensity, state: SGLDState, rows: Any, pace: Pace
    ) -> tuple[SGLDState, GradientInfo]:
        potential, gradient = minibatch_gradient(target, state.position, rows)
        position = state.position - pace.step_size * gradient
        if self.is_noisy:
            spread = jnp.sqrt(2 * like(self.temperature, position) * pace.step_size)
            position = position + spread * normals(key, target.dim, position.dtype)
        return SGLDState(position), one_gradient(potential)
