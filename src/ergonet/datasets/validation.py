"""Validation of plain arrays, shared by tables and estimators.

Every error names the argument, the column, the first invalid row and its value, and says what to do next. Rows in
messages are data rows counted from 1, without the header of a file.
"""

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int, Int32, Shaped

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError, shown, suggest, visible

LONG_LIST = 30
FOR_A_QUANTITY = "set `--task regression` (`task='regression'` in Python) for a quantity."
_LABEL_ADVICE = "labels must be strings, numbers or true/false."
Label = str | bool | int | float
T = TypeVar("T")
_ROWS: ContextVar[np.ndarray | None] = ContextVar("rows", default=None)


def capital(text: str) -> str:
    """Capitalize the first letter of a text."""
    return text[:1].upper() + text[1:]


def shorten(names: Sequence[str]) -> str:
    """Join names to a list for a message, truncated after 30, with nothing that commands a terminal."""
    rest = len(names) - LONG_LIST
    return visible(", ".join(names[:LONG_LIST])) + (f" and {rest} more" if rest > 0 else "")


def nearest(name: str, present: Sequence[str]) -> str:
    """Suggest column names: names that differ only in case count as near, and known names are truncated after 30."""
    hint = suggest(name, present)
    other_case = [one for one in present if one.casefold() == name.casefold()]
    if other_case and "Did you mean" not in hint:
        hint = f"Did you mean {other_case[0]!r}? {hint}"
    return hint if len(present) <= LONG_LIST else f"{hint.partition('Known: ')[0]}Known: {shorten(sorted(present))}."


@contextmanager
def rows_named(rows: Int[np.ndarray, "rows"] | None) -> Generator[None]:
    """Let messages name rows by their index in the user's table, of which a part is looked at; None: by their own."""
    token = _ROWS.set(rows)
    try:
        yield
    finally:
        _ROWS.reset(token)


def column_name(name: str, argument: str) -> str:
    """The name of a column of an argument in messages; that of the argument if it is the column."""
    return argument if argument == f"`{name}`" else f"column {name!r} of {argument}"


def row_name(index: int) -> str:
    """The name of a row in messages, from its index counted from 0."""
    rows = _ROWS.get()
    return f"data row {(index if rows is None else int(rows[index])) + 1} (counting from 1)"


def is_missing(value: object) -> bool:
    """Whether a single entry is None, NaN, or pandas' NA or NaT."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def for_each(entries: Sequence[Any], function: Callable[[Any], T]) -> list[T]:
    """`function` of every entry, called once for those of one type that are equal: texts repeat, and True is not 1."""

    def keys() -> Iterator[tuple[type, Any]]:
        return zip(map(type, entries), entries, strict=True)

    try:
        found: dict[tuple[type, Any], Any] = dict.fromkeys(keys())
    except TypeError:  # some cannot be hashed, such as lists
        return [function(one) for one in entries]
    for key in found:
        found[key] = function(key[1])
    return [found[key] for key in keys()]


def check_rows(count: int, *, argument: str, minimum: int = 2) -> None:
    """Check that a table has at least `minimum` rows.

    Raises:
        DataError: There are too few rows.
    """
    if count < minimum:
        found = {0: "no data rows", 1: "only 1 data row"}.get(count, f"only {count} data rows")
        raise DataError(
            f"{capital(argument)} has {found}; at least {minimum} {'is' if minimum == 1 else 'are'} needed. "
            "Check that the file is complete and that its first line holds the column names."
        )


def check_finite(
    values: Shaped[np.ndarray, "rows *columns"], *, argument: str, names: Sequence[str] | None = None
) -> None:
    """Check that all values are finite.

    Args:
        values: Numbers, [rows] or [rows, columns].
        argument: Name of the values in the message, such as ```x```.
        names: Column names, one per column; without them, columns are numbered from 1.

    Raises:
        DataError: A value is NaN or infinite; names the first such column, its first such row, the value there and
            the number of such values.
    """
    matrix = values[:, None] if values.ndim == 1 else values
    bad = ~np.isfinite(matrix)
    if not bad.any():
        return
    column = int(np.flatnonzero(bad.any(axis=0))[0])
    row = int(np.flatnonzero(bad[:, column])[0])
    if names is not None:
        label = column_name(names[column], argument)
    else:
        label = argument if values.ndim == 1 else f"column {column + 1} (counting from 1) of {argument}"
    raise DataError(_bad_entries(label, bad[:, column], matrix[row, column]))


def _bad_entries(label: str, bad: Bool[np.ndarray, "rows"], value: object) -> str:
    count = int(bad.sum())
    kind = "a missing value (NaN)" if is_missing(value) else f"an infinite value ({as_float(value)})"
    total = "1 such value" if count == 1 else f"{count} missing or infinite values"
    return (
        f"{capital(label)} has {kind} at {row_name(int(np.flatnonzero(bad)[0]))}; {total} in this "
        "column. Remove these rows or impute the values before fitting or predicting."
    )


def as_numbers(values: object, *, column: str, argument: str) -> Float[np.ndarray, "rows"]:
    """Convert one column to Float64; None becomes NaN (see `check_finite`). Contiguous Float64 is not copied.

    Raises:
        DataError: An entry is not a number; names the column, the first such row, its value and the count.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return np.ascontiguousarray(array, np.float64)
    entries = _plain_entries(array)
    numbers = [_number(value) for value in entries]
    bad = [row for row, number in enumerate(numbers) if number is None]
    if bad:
        found = "1 value that is not a number" if len(bad) == 1 else f"{len(bad)} values that are not numbers"
        raise DataError(
            f"Column {column!r} of {argument} holds {found}: the first is {shown(entries[bad[0]])} at "
            f"{row_name(bad[0])}. Correct it, or remove the row or the column."
        )
    return np.array(numbers, dtype=np.float64)


def _plain_entries(array: np.ndarray) -> list[Any]:
    """Convert entries to Python values; dates stay dates (NumPy would convert them to integers)."""
    return [str(entry) for entry in array] if array.dtype.kind in "mM" else array.tolist()


def _number(value: Any) -> float | None:
    if is_missing(value):
        return float("nan")
    try:
        return as_float(value)
    except (TypeError, ValueError):
        return None


def as_float(value: Any) -> float:
    """`float(value)`; infinite for an integer that is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def as_matrix(
    values: object, *, argument: str, names: Sequence[str] | None = None
) -> Float[np.ndarray, "rows columns"]:
    """Validate inputs given as an array: two dimensions, only numbers, all finite.

    Args:
        values: Anything that NumPy converts to [rows, columns].
        argument: Name of the values in messages.
        names: Column names for messages.

    Returns:
        Float64 [rows, columns].

    Raises:
        DataError: There are not two dimensions, there are no columns, or a value is not a number, NaN or infinite.
    """
    array = np.asarray(values)
    if array.ndim != 2:
        raise DataError(
            f"{capital(argument)} must have two dimensions, [rows, columns], got shape {array.shape}. "
            "Reshape a single column with `.reshape(-1, 1)`, a single row with `.reshape(1, -1)`."
        )
    if array.shape[1] == 0:
        raise DataError(f"{capital(argument)} has no columns: at least one input is needed.")
    if array.dtype.kind not in "biuf":
        labels = [str(i + 1) for i in range(array.shape[1])] if names is None else list(names)
        columns = [as_numbers(array[:, i], column=labels[i], argument=argument) for i in range(array.shape[1])]
        array = np.stack(columns, axis=1)
    array = array.astype(np.float64)
    check_finite(array, argument=argument, names=names)
    return array


def as_targets(
    values: object, *, argument: str, names: Sequence[str] | None = None
) -> Float[np.ndarray, "rows targets"]:
    """Convert regression targets to Float64 [rows, targets]; [rows] becomes one target.

    Raises:
        DataError: There are more than two dimensions, or a value is not a number, NaN or infinite.
    """
    array = np.asarray(values)
    return as_matrix(array[:, None] if array.ndim == 1 else array, argument=argument, names=names)


def check_counts(values: Float[np.ndarray, "rows targets"], *, argument: str, names: Sequence[str]) -> None:
    """Check that every value is a whole number of at least 0.

    Raises:
        DataError: One is not; names column, row and value.
    """
    bad = (values < 0) | (values != np.floor(values))
    if bad.any():
        row, column = (int(one) for one in np.argwhere(bad)[0])
        raise DataError(
            f"{capital(column_name(names[column], argument))} has {values[row, column]:g} at {row_name(row)}, one of "
            f"{int(bad.any(axis=1).sum())} rows that are not counts: whole numbers of at least 0. Correct or remove "
            f"them, or {FOR_A_QUANTITY}"
        )


def as_labels(values: object, *, argument: str) -> list[Label]:
    """Convert class labels of shape [rows] or [rows, 1] to plain Python values of the same type.

    Raises:
        DataError: There is more than one column, a label is missing, or a label is not a string, bool or number.
    """
    array = np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            f"{capital(argument)} must hold one label per row, got shape {array.shape}. "
            "Classification takes a single target column; fit one model per column."
        )
    if array.dtype.kind in "mM":
        raise DataError(f"{capital(argument)} holds dates or times. Labels must be strings, numbers or true/false.")
    labels = array.tolist()
    if any(issubclass(kind, np.generic) for kind in set(map(type, labels))):
        labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    bad = np.array(for_each(labels, lambda label: is_missing(label) or _is_infinite(label)), dtype=bool)
    if bad.any():
        raise DataError(_bad_entries(argument, bad, labels[int(np.flatnonzero(bad)[0])]))
    others = {kind for kind in set(map(type, labels)) if not issubclass(kind, (str, bool, int, float))}
    if others:
        row = next(row for row, label in enumerate(labels) if type(label) in others)
        raise DataError(
            f"{capital(argument)} holds a {type(labels[row]).__name__} at {row_name(row)}: {shown(labels[row])}. "
            f"{capital(_LABEL_ADVICE)}"
        )
    return labels


def _is_infinite(label: Any) -> bool:
    return isinstance(label, int | float) and math.isinf(as_float(label))


def sorted_labels(labels: Sequence[Label]) -> tuple[Label, ...]:
    """The distinct labels in order, numbers before strings."""
    return tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))


def label_classes(labels: Sequence[Label], *, argument: str) -> tuple[Label, ...]:
    """The distinct labels in sorted order.

    Raises:
        DataError: Labels have several types, there is only one class, or every row has a different label.
    """
    first_rows: dict[str, int] = {}
    for row, label in enumerate(labels):
        first_rows.setdefault(type(label).__name__, row)
    if len(first_rows) > 1:
        found = " and ".join(f"{shown(labels[row])} at {row_name(row)}" for row in first_rows.values())
        raise DataError(f"{capital(argument)} mixes labels of several types: {found}. Convert them to one type.")
    classes = sorted_labels(labels)
    if len(classes) == 1:
        raise DataError(
            f"{capital(argument)} has only one class: every row is {shown(classes[0])}. "
            "At least two classes are needed; check that the right column was chosen."
        )
    if len(classes) == len(labels):
        raise DataError(
            f"{capital(argument)} has as many classes as rows ({len(classes)}): every label is different, "
            f"the first is {shown(labels[0])}. Choose another column, or {FOR_A_QUANTITY}"
        )
    return classes


def position_of(label: Label, positions: Mapping[Label, int]) -> int | None:
    """Look up a label; None if it is unknown.

    A file in which every label happens to look like a number, or like true and false, is read as numbers. So a number
    is also looked up by its text, 1 and 1.0 as ``"1"``, and then by the only text that becomes it, such as ``"01"`` or
    ``"True"``.
    """
    if label in positions:
        return positions[label]
    whole = isinstance(label, float) and label.is_integer()
    found = positions.get(str(int(label)) if whole else str(label))
    if found is not None or isinstance(label, str):
        return found
    alike = [index for known, index in positions.items() if isinstance(known, str) and value_of(known) == label]
    return alike[0] if len(alike) == 1 else None


def value_of(text: str) -> float | None:
    """The number that a text becomes in a file in which all others are numbers, or all are true or false."""
    truths = {"true": 1.0, "false": 0.0}
    with suppress(ValueError):
        return truths[text.lower()] if text.lower() in truths else float(text)
    return None


def encode_labels(labels: Sequence[Label], classes: Sequence[Label], *, argument: str) -> Int32[np.ndarray, "rows"]:
    """Find the position of each label in `classes`.

    Raises:
        DataError: A label is not among the classes; names the first such row and the label.
    """
    positions = {label: index for index, label in enumerate(classes)}
    found = [position_of(label, positions) for label in labels]
    for row, (label, index) in enumerate(zip(labels, found, strict=True)):
        if index is None:
            raise DataError(
                f"{capital(argument)} has the label {shown(label)} at {row_name(row)}, which does not occur in "
                f"the training rows. Known: {shorten([shown(one) for one in classes])}. "
                "Remove the row, or train with that class."
            )
    return np.array(found, dtype=np.int32)


def check_same_rows(inputs_count: int, targets_count: int, *, inputs: str, targets: str) -> None:
    """Check that inputs and targets have the same number of rows.

    Raises:
        DataError: The counts differ.
    """
    if inputs_count != targets_count:
        raise DataError(
            f"{capital(inputs)} has {inputs_count} rows, but {targets} has {targets_count}: each row needs a target."
        )


def check_test_fraction(test_fraction: float) -> None:
    """Check that a held-out fraction is in [0, 1).

    Raises:
        SettingError: The fraction is out of range.
    """
    if not 0.0 <= test_fraction < 1.0:
        raise SettingError(
            f"`test_fraction` must be at least 0 and below 1, got {test_fraction}. "
            "It is the fraction of rows held out for testing, such as 0.2."
        )


def check_seed(seed: int) -> None:
    """Check that a seed is an integer in [0, 2**32).

    Raises:
        SettingError: The seed is out of range.
    """
    if not is_integer(seed) or not 0 <= seed < 2**32:
        raise SettingError(f"`seed` must be an integer from 0 to {2**32 - 1}, got {shown(seed)}.")
