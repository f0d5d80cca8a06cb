"""Point estimates by stochastic gradient descent, as steps that the minibatch loop of the samplers runs.

An optimiser descends the minibatch potential, so a normal prior is weight decay and the end is a mode of the posterior.
`sample_minibatches(target, Adam())` gives its learning curve beside those of samplers, on the same stack; its draws
are the path of one network, not a sample of anything, and what counts is the last one.
"""

from functools import cache
from typing import Any

import equinox as eqx
import optax

from ergonet._errors import SettingError
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
    without_test,
)
from ergonet.samplers.stochastic.schedule import AbstractSchedule

ADAM_MOMENTS = optax.scale_by_adam()  # one object, so that equal optimisers compile once


class OptimiserState(eqx.Module):
    """Where the descent is."""

    position: Position
    memory: Any


class Optimiser(AbstractMinibatchKernel):
    """Descent of the minibatch potential by an Optax transformation."""

    transformation: optax.GradientTransformation = eqx.field(static=True)
    learning_rate: float = eqx.field(static=True)
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True)

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
            transformation: from gradients to updates, without the learning rate and its sign, such as
                `optax.scale_by_adam()`.
            learning_rate: above 0.
            batch_size: rows of a minibatch, at least 1.
            steps_per_draw: steps from one point of the learning curve to the next; None: an epoch.

        Raises:
            SettingError: a setting is out of its range.
        """
        check_stream("Optimiser", batch_size, steps_per_draw, learning_rate)
        self.transformation = transformation
        self.learning_rate = learning_rate
        self.schedule = CONSTANT
        self.batch_size = int(batch_size)
        self.steps_per_draw = None if steps_per_draw is None else int(steps_per_draw)

    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> OptimiserState:
        return OptimiserState(position, self.transformation.init(position))

    def step(
        self, key: PRNGKey, target: Target, state: OptimiserState, rows: Any, pace: Pace
    ) -> tuple[OptimiserState, StepInfo]:
        potential, gradient = minibatch_gradient(target, state.position, rows)
        update: Any
        update, memory = self.transformation.update(gradient, state.memory, state.position)
        return OptimiserState(state.position - pace.step_size * update, memory), without_test(potential)


def SGD(  # noqa: N802 - reads as the class that it makes
    *,
    learning_rate: float,
    momentum_decay: float = 1.0,
    nesterov: bool = False,
    batch_size: int = 100,
    steps_per_draw: int | None = None,
) -> Optimiser:
    """Stochastic gradient descent, v <- (1 - a) v - l g, q <- q + v; without momentum at a = 1.

    Args:
        learning_rate: l, above 0.
        momentum_decay: a, in (0, 1], as that of `SGHMC`.
        nesterov: whether the gradient is looked at where the momentum leads (Sutskever and others 2013).
        batch_size: rows of a minibatch, at least 1.
        steps_per_draw: as in `Optimiser`.

    Raises:
        SettingError: a setting is out of its range.
    """
    check.require_positive("SGD", "momentum_decay", momentum_decay)
    if momentum_decay > 1:
        raise SettingError(f"`SGD(momentum_decay=...)` must be at most 1, got {momentum_decay!r}.")
    if nesterov and momentum_decay == 1:
        raise SettingError("`SGD(nesterov=True)` needs a momentum: give `momentum_decay` below 1.")
    transformation = _descent(momentum_decay, nesterov=nesterov)
    return Optimiser(transformation, learning_rate=learning_rate, batch_size=batch_size, steps_per_draw=steps_per_draw)


@cache
def _descent(momentum_decay: float, *, nesterov: bool) -> optax.GradientTransformation:
    """The same object each time, so that equal optimisers compile once."""
    return optax.trace(1 - momentum_decay, nesterov) if momentum_decay < 1 else optax.identity()


def Adam(  # noqa: N802 - reads as the class that it makes
    *, learning_rate: float = 1e-3, batch_size: int = 100, steps_per_draw: int | None = None
) -> Optimiser:
    """Adam with Optax's moments (Kingma and Ba 2015).

    Args:
        learning_rate: above 0.
        batch_size: rows of a minibatch, at least 1.
        steps_per_draw: as in `Optimiser`.

    Raises:
        SettingError: a setting is out of its range.
    """
    return Optimiser(ADAM_MOMENTS, learning_rate=learning_rate, batch_size=batch_size, steps_per_draw=steps_per_draw)
