"""Monotone transforms of targets, each with its exact inverse: the network learns t = T(y) instead of y.

Given the network, t is normal, so y has the density p(t) |T'(y)|, its quantiles are the inverses of those of t, and its
mean is that of the inverse of a normal variable, which is not the inverse of the mean. Formulas work on arrays of NumPy
and of JAX; `xp` is the module of the arrays.
"""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ergonet._errors import DataError, SettingError, shown
from ergonet.datasets.validation import capital, column_name, row_name

_NODES = 64  # of the quadrature
_ROUND_TRIP = 1e-5  # of a user's pair of functions, relative to the size of the value; single precision has 1e-7
_LEAST, _MOST = -700.0, 700.0  # exponents that double precision has
Moments = tuple[Any, Any]


class AbstractTransform(abc.ABC):
    """A strictly increasing or decreasing function of the possible targets onto the real line."""

    name: str
    domain: str = "a number"
    """The possible targets in words, following "must be"."""

    @abc.abstractmethod
    def forward(self, y: np.ndarray) -> np.ndarray:
        """T(y), elementwise; not finite for what is no possible target."""

    @abc.abstractmethod
    def inverse(self, t: Any, xp: Any = np) -> Any:
        """The target whose transform is t, elementwise."""

    @abc.abstractmethod
    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """Log |T'(y)|, elementwise."""

    def moments(self, mean: Any, variance: Any, xp: Any = np) -> Moments:
        """Mean and variance of the inverse of normal variables, by Gauss-Hermite quadrature unless there is a formula.

        Args:
            mean: means of the normal variables.
            variance: their variances, in the same shape.
            xp: the module of the arrays.
        """
        nodes, weights = _quadrature()
        sd = xp.sqrt(variance)
        first = sum(weight * self.inverse(mean + node * sd, xp) for node, weight in zip(nodes, weights, strict=True))
        second = sum(
            weight * (self.inverse(mean + node * sd, xp) - first) ** 2
            for node, weight in zip(nodes, weights, strict=True)
        )
        return first, second

    def unit(self, center: np.ndarray) -> np.ndarray:
        """What targets are divided by where they are held in single precision, given the mean of their transforms."""
        return np.ones_like(center)

    def moments_in_units(self, mean: Any, variance: Any, center: Any, xp: Any = np) -> Moments:
        """`moments`, of targets that are divided by `unit(center)`."""
        return self.moments(mean, variance, xp)


@cache
def _quadrature() -> tuple[list[float], list[float]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes.tolist(), (weights / weights.sum()).tolist()


def _of_log_normal(mean: Any, variance: Any, xp: Any) -> Moments:
    """Mean and variance of exp of a normal variable."""
    first = xp.exp(mean + variance / 2)
    return first, first**2 * xp.expm1(variance)


@dataclass(frozen=True)
class Logarithm(AbstractTransform):
    """The logarithm of targets above 0.

    Attributes:
        name: its name.
        base: of the logarithm, above 1.
    """

    name: str
    base: float
    domain = "above 0"

    def forward(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log10(y) if self.base == 10 else np.log(y) / math.log(self.base)

    def inverse(self, t: Any, xp: Any = np) -> Any:
        return xp.power(self.base, t) if xp is np else xp.exp(t * math.log(self.base))

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        return -np.log(y) - math.log(math.log(self.base))

    def moments(self, mean: Any, variance: Any, xp: Any = np) -> Moments:
        natural = math.log(self.base)
        return _of_log_normal(natural * mean, natural**2 * variance, xp)

    def unit(self, center: np.ndarray) -> np.ndarray:
        return self.inverse(np.asarray(center, np.float64))

    def moments_in_units(self, mean: Any, variance: Any, center: Any, xp: Any = np) -> Moments:
        return self.moments(mean - center, variance, xp)


@dataclass(frozen=True)
class Log1p(AbstractTransform):
    """log(1 + y), for targets above -1 such as amounts that may be 0."""

    name = "log1p"
    domain = "above -1"

    def forward(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log1p(y)

    def inverse(self, t: Any, xp: Any = np) -> Any:
        return xp.expm1(t)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        return -np.log1p(y)

    def moments(self, mean: Any, variance: Any, xp: Any = np) -> Moments:
        return xp.expm1(mean + variance / 2), _of_log_normal(mean, variance, xp)[1]


@dataclass(frozen=True)
class Arcsinh(AbstractTransform):
    """The inverse hyperbolic sine: about linear near 0, about logarithmic far from it, for either sign."""

    name = "arcsinh"

    def forward(self, y: np.ndarray) -> np.ndarray:
        return np.arcsinh(y)

    def inverse(self, t: Any, xp: Any = np) -> Any:
        return xp.sinh(t)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        return -0.5 * np.log1p(np.square(y))

    def moments(self, mean: Any, variance: Any, xp: Any = np) -> Moments:
        grown = xp.expm1(variance)
        return (
            xp.exp(variance / 2) * xp.sinh(mean),
            0.5 * grown * ((grown + 1) * xp.cosh(2 * mean) + 1),
        )


@dataclass(frozen=True)
class Logit(AbstractTransform):
    """log(y / (1 - y)), for shares strictly between 0 and 1; moments by quadrature."""

    name = "logit"
    domain = "strictly between 0 and 1"

    def forward(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(y) - np.log1p(-y)

    def inverse(self, t: Any, xp: Any = np) -> Any:
        return 0.5 * (1 + xp.tanh(0.5 * t)) if xp is not np else 1 / (1 + np.exp(-np.clip(t, _LEAST, _MOST)))

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        return -np.log(y) - np.log1p(-y)


@dataclass(frozen=True)
class FromFunctions(AbstractTransform):
    """A transform of your own, from functions as those of scikit-learn's `TransformedTargetRegressor`.

    They take and return arrays of NumPy or of JAX, so that they are written with arithmetic or with `jax.numpy`. Means
    and variances come from a quadrature of 64 points. An estimator with such a transform can be pickled if the
    functions can be, but not saved as text.

    Attributes:
        func: the transform, strictly increasing or decreasing, from all possible targets onto the real line.
        inverse_func: its exact inverse, defined on the whole real line.
        slope: the derivative of `func`, for log scores.
    """

    func: Any
    inverse_func: Any
    slope: Any
    name = "a transform of your own"
    domain = "a possible argument of `func`"

    def __post_init__(self):
        for name in ("func", "inverse_func", "slope"):
            if not callable(getattr(self, name)):
                raise SettingError(f"`FromFunctions({name})` must be a function, got {shown(getattr(self, name))}.")

    def forward(self, y: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = np.asarray(self.func(y), np.float64)
        _check_pair(y, found, self.inverse(found))
        return found

    def inverse(self, t: Any, xp: Any = np) -> Any:
        found = self.inverse_func(t)
        return np.asarray(found, np.float64) if xp is np else found

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.abs(np.asarray(self.slope(y), np.float64)))


def _check_pair(y: np.ndarray, t: np.ndarray, back: np.ndarray) -> None:
    """Raise `SettingError` unless finite transforms go back to the targets, and are in the same or the other order."""
    if t.shape != y.shape:
        raise SettingError(f"`FromFunctions(func)` must act elementwise: {list(y.shape)} became {list(t.shape)}.")
    fine = np.isfinite(t)
    with np.errstate(invalid="ignore"):
        off = fine & ~(np.abs(back - y) <= _ROUND_TRIP * (np.abs(y) + np.std(y[fine]) if fine.any() else 1.0))
    if off.any():
        index = tuple(int(one) for one in np.argwhere(off)[0])
        raise SettingError(
            f"`FromFunctions`: `inverse_func(func({y[index]:g}))` is {back[index]:g}. `inverse_func` must be the exact "
            f"inverse of `func`."
        )
    ordered = t[fine][np.argsort(y[fine], kind="stable")]
    steps = np.diff(ordered)
    if (steps < 0).any() and (steps > 0).any():
        raise SettingError("`FromFunctions(func)` rises and falls over the training rows; it must only do one of them.")


def log10() -> Logarithm:
    """The logarithm to base 10, for targets above 0."""
    return Logarithm("log10", 10.0)


def log() -> Logarithm:
    """The natural logarithm, for targets above 0."""
    return Logarithm("log", math.e)


def require_regression(transform: AbstractTransform | None, task: str) -> None:
    """Raise `SettingError` if there is a transform of what are no real targets."""
    if transform is not None and task != "regression":
        raise SettingError(f"`target_transform` is for a regression, but this is a {task}. Leave it out.")


def transformed(
    transform: AbstractTransform | None,
    targets: np.ndarray,
    names: Sequence[str],
    *,
    argument: str = "the target",
) -> np.ndarray:
    """Targets `[rows, targets]` as they are standardized then.

    Args:
        transform: the transform; None: they are unchanged.
        targets: the targets.
        names: names of the target columns.
        argument: name of the targets in messages.

    Raises:
        DataError: the transform is not defined for a target; names the first one.
    """
    if transform is None:
        return targets
    found = transform.forward(targets)
    if not np.isfinite(found).all():
        row, column = (int(one) for one in np.argwhere(~np.isfinite(found))[0])
        raise DataError(
            f"{capital(column_name(names[column], argument))} must be {transform.domain} for `target_transform="
            f"{transform.name!r}`; {row_name(row)} has {targets[row, column]:g}. Correct the row, or choose another "
            f"transform."
        )
    return found
