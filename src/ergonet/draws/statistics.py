"""Statistics that kernels declare: name, dtype, and how thinning reduces them.

The diagnostics of a kernel are a record (`AbstractDiagnostics`) whose fields declare their statistics:

    acceptance: Scalar = statistic("acceptance_rate", FLOAT, LAST)

Everything that runs, stores and shows chains uses these declarations. A statistic that a kernel does not declare is
absent.
"""

import abc
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from ergonet._types import Array, Count

FLOAT = None  # the dtype of positions


class AbstractReduction(abc.ABC):
    """How the values of the transitions of one stored draw are reduced to one value."""

    @abc.abstractmethod
    def blank(self, dtype: DTypeLike) -> Any:
        """The total of zero transitions."""

    @abc.abstractmethod
    def add(self, total: Any, value: Array) -> Any:
        """`total` with the value of one more transition."""

    def finish(self, total: Any, count: Count) -> Array:
        """The value of a draw of `count` transitions, at least 1."""
        return total

    def sum_of(self, total: Any) -> Array:
        """The sum of the values so far, as one number."""
        return total


class Last(AbstractReduction):
    """The value of the last transition."""

    def blank(self, dtype: DTypeLike) -> Array:
        return jnp.zeros((), dtype)

    def add(self, total: Array, value: Array) -> Array:
        return value


class Sum(AbstractReduction):
    """The sum."""

    def blank(self, dtype: DTypeLike) -> Array:
        return jnp.zeros((), dtype)

    def add(self, total: Array, value: Array) -> Array:
        return total + value


class Any_(AbstractReduction):  # noqa: N801  `Any` is taken
    """Whether the value was true for any transition."""

    def blank(self, dtype: DTypeLike) -> Array:
        return jnp.zeros((), bool)

    def add(self, total: Array, value: Array) -> Array:
        return total | value


class Max(AbstractReduction):
    """The largest integer."""

    def blank(self, dtype: DTypeLike) -> Array:
        return jnp.full((), jnp.iinfo(dtype).min, dtype)

    def add(self, total: Array, value: Array) -> Array:
        return jnp.maximum(total, value)


class Furthest(AbstractReduction):
    """The value furthest from 0; NaN counts as furthest."""

    def blank(self, dtype: DTypeLike) -> Array:
        return jnp.zeros((), dtype)

    def add(self, total: Array, value: Array) -> Array:
        return jnp.where((jnp.abs(total) >= jnp.abs(value)) | jnp.isnan(total), total, value)


class Mean(AbstractReduction):
    """The mean, or with `sign` -1 minus the mean."""

    def __init__(self, sign: int = 1):
        self.sign = sign

    def blank(self, dtype: DTypeLike) -> Array:
        return jnp.zeros((), dtype)

    def add(self, total: Array, value: Array) -> Array:
        return total + value

    def finish(self, total: Array, count: Count) -> Array:
        return self.sign * total / count.astype(total.dtype)


class KnownMean(AbstractReduction):
    """The mean over the transitions whose value is not NaN; NaN if there is none."""

    def blank(self, dtype: DTypeLike) -> tuple[Array, Array]:
        return jnp.zeros((), dtype), jnp.zeros((), dtype)

    def add(self, total: tuple[Array, Array], value: Array) -> tuple[Array, Array]:
        known = ~jnp.isnan(value)
        return total[0] + jnp.where(known, value, 0.0), total[1] + known

    def finish(self, total: tuple[Array, Array], count: Count) -> Array:
        values, number = total
        return jnp.where(number > 0, values / jnp.maximum(number, 1), jnp.nan)

    def sum_of(self, total: tuple[Array, Array]) -> Array:
        return total[0]


LAST, SUM, ANY, MAX, FURTHEST, MEAN = Last(), Sum(), Any_(), Max(), Furthest(), Mean()
MINUS_MEAN, KNOWN_MEAN = Mean(sign=-1), KnownMean()


@dataclass(frozen=True)
class Statistic:
    """A declared statistic.

    Attributes:
        name: name in `samples.stats`; the ArviZ name if there is one.
        dtype: dtype of the stored array; `FLOAT`: the dtype of positions.
        thinning: how the values of the transitions of a stored draw are reduced.
        is_potential: whether it includes the potential, which chains measure relative to a reference point; the
            potential at that point is added back to stored draws.
    """

    name: str
    dtype: DTypeLike | None
    thinning: AbstractReduction
    is_potential: bool = False

    def cast(self, value: Array) -> Array:
        """The value in the declared dtype; counts are 64-bit integers in some programs."""
        return value if self.dtype is None else value.astype(self.dtype)

    def dtype_for(self, positions: DTypeLike) -> np.dtype:
        """The dtype of the statistic, given the dtype of positions."""
        return np.dtype(positions if self.dtype is None else self.dtype)


def statistic(name: str, dtype: DTypeLike | None, thinning: AbstractReduction, *, is_potential: bool = False) -> Any:
    """A field of a record of diagnostics; see `Statistic`."""
    return eqx.field(metadata={"statistic": Statistic(name, dtype, thinning, is_potential)})


class AbstractDiagnostics(eqx.Module):
    """Diagnostics of one transition; every field is declared by `statistic(...)`."""

    def values(self) -> dict[str, Array]:
        """The value of every statistic by name."""
        return {one.metadata["statistic"].name: getattr(self, one.name) for one in dataclasses.fields(self)}


def statistics(diagnostics: type[AbstractDiagnostics]) -> tuple[Statistic, ...]:
    """The statistics declared by the fields of a record, in order."""
    return tuple(one.metadata["statistic"] for one in dataclasses.fields(diagnostics))


LP = Statistic("lp", FLOAT, LAST, is_potential=True)
STEP_SIZE = Statistic("step_size", FLOAT, LAST)


def blank(declared: Sequence[Statistic], dtype: DTypeLike) -> dict[str, Any]:
    """The totals of zero transitions, by name."""
    return {one.name: one.thinning.blank(one.dtype_for(dtype)) for one in declared}


def add(declared: Sequence[Statistic], totals: Mapping[str, Any], values: Mapping[str, Array]) -> dict[str, Any]:
    """Add the values of one more transition to the totals."""
    return {one.name: one.thinning.add(totals[one.name], one.cast(values[one.name])) for one in declared}


def finish(declared: Sequence[Statistic], totals: Mapping[str, Any], count: Count) -> dict[str, Array]:
    """The values of a draw made of `count` transitions."""
    return {one.name: one.thinning.finish(totals[one.name], count) for one in declared}


def room(declared: Sequence[Statistic], capacity: int, dtype: DTypeLike) -> dict[str, Array]:
    """Zeros for `capacity` draws, by name."""
    return {one.name: jnp.zeros((capacity,), one.dtype_for(dtype)) for one in declared}


def stored_fields(declared: Sequence[Statistic], dtype: DTypeLike) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
    """Shape per draw and dtype by name, in the form that stores take."""
    return {one.name: ((), one.dtype_for(dtype)) for one in declared}
