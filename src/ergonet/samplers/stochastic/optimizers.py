"""Point estimates by stochastic gradient descent, in the minibatch loop of the samplers.

An optimizer minimizes the minibatch potential, so a normal prior acts as weight decay, and the result approximates a
mode of the posterior. `sample(target, Adam())` gives a learning curve that is comparable with those of samplers. The
draws are the path of one network and not a sample from a distribution; use the last one.
"""

from functools import cache
from typing import Any

import equinox as eqx
import optax

from ergonet._errors import SettingError
from ergonet._numbers import optional_integer, optional_real
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import (
    CONSTANT,
    AbstractMinibatchKernel,
    GradientInfo,
    Pace,
    check_stream,
    minibatch_gradient,
    one_gradient,
)
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.target.contract import AbstractDensity

ADAM_MOMENTS = optax.scale_by_adam()  # one object, so that equal optimizers compile once


class OptimizerState(eqx.Module):
    """The position `[dim]` and the memory of the Optax transformation."""

    position: Position
    memory: Any


class Optimizer(AbstractMinibatchKernel):
    """Minimizes the minibatch potential with an Optax transformation."""

    transformation: optax.GradientTransformation = eqx.field(static=True)
    learning_rate: float | None
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None

    def __init__(
        self,
        transformation: optax.GradientTransformation,
        *,
        learning_rate: float,
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ):
        """Check and keep the settings.

        Args:
            transformation: turns gradients into updates, without the learning rate and its sign, such as
                `optax.scale_by_adam()`.
            learning_rate: step size, above 0.
            batch_size: rows of a minibatch, at least 1.
            steps_per_draw: steps between two points of the learning curve, at least 1; None: one epoch.

        Raises:
            SettingError: a setting is out of its range.
        """
        check_stream("Optimizer", batch_size, steps_per_draw, learning_rate)
        self.transformation = transformation
        self.learning_rate = optional_real(learning_rate)
        self.schedule = CONSTANT
        self.batch_size = int(batch_size)
        self.steps_per_draw = optional_integer(steps_per_draw)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(GradientInfo)

    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> OptimizerState:
        return OptimizerState(position, self.transformation.init(position))

    def step(
        self, key: PRNGKey, target: AbstractDensity, state: OptimizerState, rows: Any, pace: Pace
    ) -> tuple[OptimizerState, GradientInfo]:
        potential, gradient = minibatch_gradient(target, state.position, rows)
        update: Any
        update, memory = self.transformation.update(gradient, state.memory, state.position)
        return OptimizerState(state.position - pace.step_size * update, memory), one_gradient(potential)


def SGD(  # noqa: N802 - reads as the class that it makes
    *,
    learning_rate: float,
    momentum_decay: float = 1.0,
    nesterov: bool = False,
    batch_size: int = 100,
    steps_per_draw: int | None = None,
) -> Optimizer:
    """Stochastic gradient descent with momentum: v <- (1 - a) v - l g, q <- q + v, with the minibatch gradient g.

    Args:
        learning_rate: l, above 0.
        momentum_decay: a, in (0, 1], as in `SGHMC`; 1 is descent without momentum.
        nesterov: whether to use Nesterov's momentum (Sutskever2013), which needs a below 1.
        batch_size: rows of a minibatch, at least 1.
        steps_per_draw: steps between two points of the learning curve, at least 1; None: one epoch.

    Raises:
        SettingError: a setting is out of its range.
    """
    check.require_positive("SGD", "momentum_decay", momentum_decay)
    if momentum_decay > 1:
        raise SettingError(f"`SGD(momentum_decay=...)` must be at most 1, got {momentum_decay!r}.")
    if nesterov and momentum_decay == 1:
        raise SettingError("`SGD(nesterov=True)` needs a momentum: give `momentum_decay` below 1.")
    transformation = _descent(momentum_decay, nesterov=nesterov)
    return Optimizer(transformation, learning_rate=learning_rate, batch_size=batch_size, steps_per_draw=steps_per_draw)


@cache
def _descent(momentum_decay: float, *, nesterov: bool) -> optax.GradientTransformation:
    """The transformation of SGD; cached, so that equal optimizers compile once."""
    return optax.trace(1 - momentum_decay, nesterov) if momentum_decay < 1 else optax.identity()


def Adam(  # noqa: N802 - reads as the class that it makes
    *, learning_rate: float = 1e-3, batch_size: int = 100, steps_per_draw: int | None = None
) -> Optimizer:
    """Adam with the default moments of Optax (KingmaBa2015).

    Args:
        learning_rate: step size, above 0.
        batch_size: rows of a minibatch, at least 1.
        steps_per_draw: steps between two points of the learning curve, at least 1; None: one epoch.

    Raises:
        SettingError: a setting is out of its range.
    """
    return Optimizer(ADAM_MOMENTS, learning_rate=learning_rate, batch_size=batch_size, steps_per_draw=steps_per_draw)
