"""Columns of a table as arrays: selection by name, means and standard deviations, and one-hot encoding."""

import warnings
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from ergonet._errors import DataError, shown
from ergonet.datasets.validation import Label, as_float, as_labels, capital, nearest, position_of, row_name, shorten

# A spread this small relative to the values is rounding error, even of values that are sums.
_RELATIVE_ROUNDING = 64 * float(np.finfo(np.float64).eps)
_SMALLEST_SPREAD = 1e-300
_SQUEEZED = 1e4
EXACT = 2**53  # from which on not every integer is a Float64
_NUMBERS = (int, float, Decimal, np.number, np.bool_)


def select_columns(
    table: Any, names: Sequence[str], *, unused: Sequence[str], ignored: Sequence[str], argument: str
) -> dict[str, np.ndarray]:
    """Select the columns that are used, by name.

    Args:
        table: A pandas DataFrame, or an array [rows, columns] with exactly the columns of `names`.
        names: All input columns of the training table, in order.
        unused: Columns among them that are not needed.
        ignored: Other columns that may be present without a warning, such as the target.
        argument: Name of the table in messages.

    Raises:
        DataError: A column is missing, or the array has the wrong shape.
    """
    left_out = set(unused)
    used = [name for name in names if name not in left_out]
    own: list[Any] = list(getattr(table, "columns", ()))
    is_unnamed = not any(isinstance(one, str) for one in own) and not set(used) <= set(map(str, own))
    if is_unnamed:  # an array, or a frame without names, as scikit-learn sees it
        array = np.asarray(table)
        if array.ndim != 2 or array.shape[1] != len(names):
            raise DataError(
                f"{capital(argument)} must be an array of shape [rows, {len(names)}] as in training, "
                f"got {array.shape}. Its columns are, in order: {shorten(names)}."
            )
        return {name: array[:, i] for i, name in enumerate(names) if name not in left_out}
    present = {str(name): name for name in own}
    repeated = [name for name, times in Counter(map(str, own)).items() if times > 1 and name in used]
    if repeated:
        raise DataError(f"{capital(argument)} has more than one column {repeated[0]!r}. Give each its own name.")
    missing = [name for name in used if name not in present]
    if missing:
        raise DataError(
            f"{capital(argument)} lacks {len(missing)} column{'s' * (len(missing) > 1)} of the training table: "
            f"{shorten([repr(name) for name in missing])}. {nearest(missing[0], list(present))}"
        )
    expected = {*names, *ignored}
    extra = [name for name in present if name not in expected]
    if extra:
        warnings.warn(
            f"{capital(argument)} has {len(extra)} column{'s' * (len(extra) > 1)} that the training table "
            f"did not have; ignored: {shorten([repr(name) for name in extra])}.",
            UserWarning,
            stacklevel=3,
        )
    return {name: column_values(table[present[name]]) for name in used}


def column_values(column: Any) -> np.ndarray:
    """A pandas column as an array.

    Numbers and booleans become Float64 (missing: NaN), but stay integers if Float64 has not all of them; dates stay
    dates (those of a time zone as its clocks show them); and everything else becomes objects (missing: None). A column
    of categorical type stays categorical, whatever its categories are.
    """
    if column.dtype.kind in "biuf":
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)  # Float64 is not copied
        if column.dtype.kind not in "iu" or np.fmax.reduce(np.abs(numbers), initial=0.0) < EXACT:
            return numbers
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_localize(None)
    if column.dtype.kind in "mM" and (moments := np.asarray(column)).dtype.kind in "mM":
        return moments
    entries = column.to_numpy(dtype=object, copy=True)
    entries[np.asarray(column.isna())] = None
    if (moments := _as_moments(entries)) is not None:
        return moments
    has_integers = any(issubclass(kind, (int, np.integer)) for kind in set(map(type, entries)))
    is_exact = has_integers and any(isinstance(one, (int, np.integer)) and abs(one) >= EXACT for one in entries)
    if str(column.dtype) == "category" or is_exact or not are_numbers(entries):
        return entries
    return np.array([np.nan if one is None else as_float(one) for one in entries], dtype=np.float64)


def are_numbers(entries: np.ndarray) -> bool:
    """Whether there are entries, and all that are not missing are numbers."""
    return len(entries) > 0 and all(one is None or isinstance(one, _NUMBERS) for one in entries)


def _as_moments(entries: np.ndarray) -> np.ndarray | None:
    """Dates and times of Python, pandas or Arrow as NumPy's, as their clocks show them, if a column holds no others."""
    kinds = {type(one) for one in entries} - {type(None)}
    if not kinds or not all(issubclass(kind, date) for kind in kinds):
        return None
    local = [one.replace(tzinfo=None) if isinstance(one, datetime) else one for one in entries.tolist()]
    return np.array(local, dtype="M8[us]")


def mean_and_sd(
    values: Shaped[np.ndarray, "rows columns"],
) -> tuple[Float[np.ndarray, "columns"], Float[np.ndarray, "columns"], Bool[np.ndarray, "columns"]]:
    """Compute mean and standard deviation (divisor: rows) of each column, and whether it is constant.

    Values are first divided by their largest magnitude to prevent overflow. A column whose spread is at most 64 units
    in the last place counts as constant, since what varies is rounding error; its standard deviation is reported as 1,
    so that dividing by it is harmless.
    """
    magnitude = np.abs(values).max(axis=0).astype(np.float64)
    magnitude[magnitude == 0.0] = 1.0
    relative = values / magnitude
    mean = relative.mean(axis=0)
    deviation = relative - mean
    shift = deviation.mean(axis=0)
    sd = np.sqrt(np.mean((deviation - shift) ** 2, axis=0))
    constant = (sd <= _RELATIVE_ROUNDING) | (sd * magnitude < _SMALLEST_SPREAD)
    return (mean + shift) * magnitude, np.where(constant, 1.0, sd * magnitude), constant


def extreme_row(values: Float[np.ndarray, "rows"]) -> int | None:
    """The row of a value beside which the others look alike, or None.

    A value is extreme if it makes the standard deviation at least 10 000 times the distance between the quartiles, so
    that after scaling the middle half of the rows cannot be told apart. Columns of which half is constant have none.
    """
    magnitude = np.abs(values).max()
    relative = values / magnitude if magnitude > 0 else values
    low, middle, high = np.quantile(relative, [0.25, 0.5, 0.75])
    if not 0 < (high - low) * _SQUEEZED < relative.std():
        return None
    return int(np.argmax(np.abs(relative - middle)))


def one_hot(
    values: Any, categories: Sequence[Label], *, column: str, argument: str
) -> Float[np.ndarray, "rows categories"]:
    """Encode a column as one 0/1 column per category.

    Raises:
        DataError: An entry is missing or not among the categories; names row and value.
    """
    positions = {category: index for index, category in enumerate(categories)}
    labels = as_labels(values, argument=f"column {column!r} of {argument}")
    found = [position_of(label, positions) for label in labels]
    for row, (label, index) in enumerate(zip(labels, found, strict=True)):
        if index is None:
            raise DataError(
                f"Column {column!r} of {argument} has the category {shown(label)} at {row_name(row)}, which does not "
                f"occur in the training rows. {nearest(str(label), [str(one) for one in categories])} "
                "Correct the value, remove the row, or train with rows of that category."
            )
    encoded = np.zeros((len(labels), len(categories)))
    encoded[np.arange(len(labels)), np.array(found, dtype=np.int64)] = 1.0
    return encoded
