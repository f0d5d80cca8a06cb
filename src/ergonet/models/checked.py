"""What users give, checked: inputs, targets, and standard deviations."""

import math
from collections.abc import Sequence
from typing import Any, Final

import jax
import numpy as np

from ergonet._checks import is_number
from ergonet._errors import DataError, SettingError, shown
from ergonet._types import Array, Float

Targets = Float[Array, "targets rows"]


def labels_of(y: Any, classes: int, owner: str) -> np.ndarray:
    """Class indices as int32 `[rows]`, validated to lie in 0..classes-1."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"`y` for `{owner}` must be class indices of shape [rows], got {list(labels.shape)}.")
    if not np.all(labels == labels.astype(np.int32)):
        raise DataError(f"`y` for `{owner}` must be integer class indices, got {labels.dtype} with fractions.")
    outside = (labels < 0) | (labels >= classes)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(
            f"`y` for `{owner}` must lie in 0..{classes - 1}; row {row} (counted from 0) has {labels[row]}. "
            f"Give the network as many outputs as there are classes."
        )
    return labels.astype(np.int32)


def real_targets(y: Any, expected: int, owner: str) -> Targets:
    """Real targets as `[targets, rows]`."""
    targets = np.asarray(y)
    targets = targets[:, None] if targets.ndim == 1 else targets
    if targets.ndim != 2 or targets.shape[1] != expected:
        raise DataError(
            f"`y` for `{owner}` must have shape [rows, {expected}] to match the network's outputs, "
            f"got {list(np.shape(y))}."
        )
    return jax.device_put(targets.T)


def deviations_of(given: float | Sequence[float], owner: str) -> np.ndarray:
    """A standard deviation, or one for each target, `[]` or `[targets]`, validated to be above 0."""
    several = isinstance(given, list | tuple)
    values = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not values or not all(is_number(one) and 0 < one < math.inf for one in values):
        raise SettingError(
            f"`{owner}` must be a standard deviation above 0, or one for each target, got {shown(given)}."
        )
    return np.asarray(values if several else values[0], np.float64)


def positive_number(given: Any, owner: str) -> np.ndarray:
    """A number above 0, as an array `[]`, which is an argument of compiled programs and no part of them."""
    if not (is_number(given) and 0 < given < math.inf):
        raise SettingError(f"`{owner}` must be a number above 0, got {shown(given)}.")
    return np.asarray(given, np.float64)


def share(given: Any, owner: str) -> np.ndarray:
    """A number in [0, 1), as an array `[]`."""
    if not (is_number(given) and 0 <= given < 1):
        raise SettingError(f"`{owner}` must be a number of at least 0 and below 1, got {shown(given)}.")
    return np.asarray(given, np.float64)


CLASSES: Final = " Give classes as integers from 0; `BayesianClassifier` takes labels of all kinds."


def precision_of(array: np.ndarray) -> np.dtype:
    """The precision of computations with an array: its own, but at least 32 bits and at most that of JAX."""
    is_float = np.issubdtype(array.dtype, np.floating)
    return jax.dtypes.canonicalize_dtype(np.promote_types(array.dtype, np.float32) if is_float else np.float32)


def numbers(name: str, value: Any, advice: str = "") -> np.ndarray:
    """An array of numbers.

    Raises:
        DataError: it has something else; names the argument and the type, and gives advice.
    """
    array = np.asarray(value)
    try:
        return array if array.dtype.kind in "biuf" else array.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"`{name}` must have numbers, got an array of {array.dtype}.{advice}") from None


def checked_rows(name: str, value: Any) -> np.ndarray:
    """Inputs in the precision of JAX, by rows.

    Raises:
        DataError: there are no rows, or values that are no finite numbers; names the argument and the first of these.
    """
    array = numbers(name, value)
    array = array.astype(precision_of(array))
    if array.ndim < 2 or array.shape[0] == 0:
        raise DataError(f"`{name}` must have shape [rows, features] with at least 1 row, got {list(array.shape)}.")
    require_finite(name, array)
    return array


def require_finite(name: str, rows: np.ndarray) -> None:
    """Check that no value of `rows`, `[rows, ...]`, is NaN or infinite.

    Raises:
        DataError: one is; names the argument and the first such value.
    """
    bad = ~np.isfinite(rows.reshape(len(rows), -1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"`{name}` contains {int(bad.sum())} NaN or infinite values, the first at row {row}, column {column} "
            f"(counted from 0). Drop these rows or impute the values."
        )
