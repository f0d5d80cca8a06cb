"""One minibatch kernel for the first steps of a chain, another from then on.

Until step k the first kernel, from step k the second, which begins at the position that the first has reached. 002,
section 5.3, suggests `SGNUTS` for a fast approach and `SGHMC`, which is cheaper, to sample:
`HandOver(SGNUTS(learning_rate=1e-8), SGHMC(learning_rate=2e-6), after=120)`. From a poor start trees need small steps,
or they are refused.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, Pace, StepInfo
from ergonet.samplers.stochastic.schedule import AbstractSchedule

BEGIN_KEY = 0x5BE0CD19  # folded into the key of the step that hands over


class HandOverState(eqx.Module):
    """Where a chain is, and the states of both kernels; only one of them moves."""

    position: Position
    first: Any
    second: Any


class HandOver(AbstractMinibatchKernel):
    """Two kernels, one after the other; see the module's docstring."""

    first: AbstractMinibatchKernel
    second: AbstractMinibatchKernel
    after: int = eqx.field(static=True)
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True)

    def __init__(self, first: AbstractMinibatchKernel, second: AbstractMinibatchKernel, *, after: int):
        """Check and keep the kernels.

        Args:
            first: for the first steps.
            second: from then on. Its batch size, steps per draw and schedule are those of the first. Where both kernels
                have a learning rate each has its own; without one it has that of the first. Where the first has none
                either, one rate is searched for, by trials that hand over as the chain would.
            after: steps of the first, at least 1.

        Raises:
            SettingError: the kernels take minibatches or draws of different sizes, have different schedules, or only
                the second has a learning rate.
        """
        check.require_integer("HandOver", "after", after, 1)
        for name in ("batch_size", "steps_per_draw", "schedule"):
            one, other = getattr(first, name), getattr(second, name)
            if one != other:
                raise SettingError(f"`HandOver`: both kernels must have the same `{name}`, got {one} and {other}.")
        if first.learning_rate is None and second.learning_rate is not None:
            raise SettingError(
                f"`HandOver`: the second kernel has a learning rate, {second.learning_rate:g}, and the first none. "
                f"Give both one, or neither: then one is searched for both."
            )
        self.first, self.second, self.after = first, second, int(after)
        self.schedule = first.schedule
        self.batch_size, self.steps_per_draw = first.batch_size, first.steps_per_draw

    @property
    def learning_rate(self) -> float | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.first.learning_rate

    @property
    def temperature(self) -> float:
        """The lower one of its kernels'; 1 where they have none."""
        return min(getattr(one, "temperature", 1.0) for one in (self.first, self.second))

    @property
    def memory(self) -> float:
        return max(self.first.memory, self.second.memory)

    def with_rate_named(self, value: str) -> str:
        return f"HandOver({self.first.with_rate_named(value)}, ...)"

    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> HandOverState:
        return HandOverState(
            position=position,
            first=self.first.init(key, target, position, step_size),
            second=self.second.init(key, target, position, self._second(step_size)),
        )

    def _second(self, step_size: Scalar) -> Scalar:
        """The second kernel's step size, from the first's."""
        first, second = self.first.learning_rate, self.second.learning_rate
        return step_size if first is None or second is None else step_size * (second / first)

    def step(
        self, key: PRNGKey, target: Target, state: HandOverState, rows: Any, pace: Pace
    ) -> tuple[HandOverState, StepInfo]:
        def by_first() -> tuple[HandOverState, StepInfo]:
            moved, info = self.first.step(key, target, state.first, rows, pace)
            return HandOverState(moved.position, moved, state.second), info

        def by_second() -> tuple[HandOverState, StepInfo]:
            step_size = self._second(pace.step_size)
            begun = jax.lax.cond(
                pace.number == self.after,
                lambda: self.second.init(jax.random.fold_in(key, BEGIN_KEY), target, state.position, step_size),
                lambda: state.second,
            )
            later = Pace(step_size=step_size, number=pace.number - self.after)
            moved, info = self.second.step(key, target, begun, rows, later)
            return HandOverState(moved.position, state.first, moved), info

        return jax.lax.cond(jnp.less(pace.number, self.after), by_first, by_second)
