"""One minibatch kernel for the first steps of a chain, and another for the rest.

The first kernel takes the steps before step k; the second takes the steps from k on, starting at the position that the
first has reached. ChenReport, section 5.3, suggests `SGNUTS` for a fast approach to the posterior and the cheaper
`SGHMC` for sampling: `SequentialKernel(SGNUTS(learning_rate=1e-8), SGHMC(learning_rate=2e-6), after=120)`. Far from the
posterior, trees need small steps; with larger ones they are rejected.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError, shown
from ergonet._numbers import integer, like, whole
from ergonet._types import Array, Position, PRNGKey, Scalar
from ergonet.draws.statistics import KNOWN_MEAN, Statistic, statistics
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, AbstractStepInfo, Pace
from ergonet.samplers.stochastic.ordering import SHUFFLED, AbstractOrdering
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.target.contract import AbstractDensity

BEGIN_KEY = 0x5BE0CD19  # folded into the key of the first step of the second kernel


class SequentialState(eqx.Module):
    """The position of a chain, and the states of both kernels, of which one is active."""

    position: Position
    first: Any
    second: Any


class SequentialInfo(AbstractStepInfo):
    """Diagnostics of a step of either kernel; statistics that a kernel does not have are NaN in its steps."""

    others: dict[str, Array] = eqx.field(kw_only=True)

    def values(self) -> dict[str, Array]:
        return {"lp": self.potential, "gradients": self.gradients, **self.others}


class SequentialKernel(AbstractMinibatchKernel):
    """Two kernels, one after the other; see the module's docstring."""

    first: AbstractMinibatchKernel
    second: AbstractMinibatchKernel
    after: int
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None

    def __init__(self, first: AbstractMinibatchKernel, second: AbstractMinibatchKernel, *, after: int):
        """Check and keep the kernels.

        Args:
            first: kernel of the first steps.
            second: kernel of the later steps, with the same batch size, steps per draw and schedule. If it has no
                learning rate, it uses that of the first kernel. If neither has one, a common rate is found by a
                stability search whose trials switch kernels as the chain does.
            after: number of steps of the first kernel, at least 1.

        Raises:
            SettingError: one of them is no minibatch kernel, they differ in batch size, steps per draw or schedule, or
                only the second has a learning rate.
        """
        check.require_integer("SequentialKernel", "after", after, 1)
        parts: dict[str, Any] = {"first": first, "second": second}
        for name, kernel in parts.items():
            if not isinstance(kernel, AbstractMinibatchKernel):
                raise SettingError(
                    f"`SequentialKernel({name}=...)` must be a minibatch kernel such as `ergonet.SGHMC()`, got "
                    f"{shown(kernel)}."
                )
        for name in ("batch_size", "steps_per_draw", "schedule"):
            one, other = getattr(first, name), getattr(second, name)
            if one != other:
                raise SettingError(
                    f"`SequentialKernel`: both kernels must have the same `{name}`, got {one} and {other}."
                )
        if first.learning_rate is None and second.learning_rate is not None:
            raise SettingError(
                f"`SequentialKernel`: the second kernel has a learning rate, {second.learning_rate:g}, but the first "
                f"has none. Give one to both, or to neither; then a common rate is found by search."
            )
        self.first, self.second, self.after = first, second, integer(after)
        self.schedule = first.schedule
        self.batch_size, self.steps_per_draw = first.batch_size, first.steps_per_draw

    @property
    def learning_rate(self) -> float | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.first.learning_rate

    @property
    def temperature(self) -> float:
        """The lower of the two temperatures; that of a kernel without one is 1."""
        return min(getattr(one, "temperature", 1.0) for one in (self.first, self.second))

    @property
    def memory(self) -> float:
        return max(self.first.memory, self.second.memory)

    @property
    def is_corrected(self) -> bool:
        return self.first.is_corrected and self.second.is_corrected

    @property
    def remedies(self) -> str:
        return self.second.remedies

    @property
    def ordering(self) -> AbstractOrdering:
        """That of the first kernel if it is not shuffled epochs, else that of the second."""
        return self.second.ordering if self.first.ordering is SHUFFLED else self.first.ordering

    def with_rate_named(self, value: str) -> str:
        return f"SequentialKernel({self.first.with_rate_named(value)}, ...)"

    def statistics(self) -> tuple[Statistic, ...]:
        ours = statistics(AbstractStepInfo)
        return (*ours, *self._others().values())

    def _others(self) -> dict[str, Statistic]:
        """The additional statistics of one or both kernels, by name."""
        first, second = ({one.name: one for one in kernel.statistics()} for kernel in (self.first, self.second))
        ours = {one.name for one in statistics(AbstractStepInfo)}
        return {
            name: one if name in first and name in second else replace(one, thinning=KNOWN_MEAN)
            for name, one in (first | second).items()
            if name not in ours
        }

    def _info(self, info: AbstractStepInfo) -> SequentialInfo:
        values, unknown = info.values(), jnp.full_like(info.potential, jnp.nan)
        others = {name: values.get(name, unknown) for name in self._others()}
        return SequentialInfo(potential=info.potential, gradients=info.gradients, others=others)

    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> SequentialState:
        return SequentialState(
            position=position,
            first=self.first.init(key, target, position, step_size),
            second=self.second.init(key, target, position, self._second(step_size)),
        )

    def _second(self, step_size: Scalar) -> Scalar:
        """The step size of the second kernel, from that of the first."""
        first, second = self.first.learning_rate, self.second.learning_rate
        return step_size if first is None or second is None else step_size * like(second / first, step_size)

    def step(
        self, key: PRNGKey, target: AbstractDensity, state: SequentialState, rows: Any, pace: Pace
    ) -> tuple[SequentialState, SequentialInfo]:
        def by_first() -> tuple[SequentialState, SequentialInfo]:
            moved, info = self.first.step(key, target, state.first, rows, pace)
            return SequentialState(moved.position, moved, state.second), self._info(info)

        def by_second() -> tuple[SequentialState, SequentialInfo]:
            step_size = self._second(pace.step_size)
            begun = jax.lax.cond(
                pace.number == whole(self.after),
                lambda: self.second.init(jax.random.fold_in(key, BEGIN_KEY), target, state.position, step_size),
                lambda: state.second,
            )
            later = Pace(step_size=step_size, number=pace.number - whole(self.after))
            moved, info = self.second.step(key, target, begun, rows, later)
            return SequentialState(moved.position, state.first, moved), self._info(info)

        return jax.lax.cond(pace.number < whole(self.after), by_first, by_second)
