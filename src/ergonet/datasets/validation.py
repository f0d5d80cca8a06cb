"""Checks on plain arrays: what tables and estimators refuse, in one wording.

Every error names the argument, the column, the first bad row and its value, and what to do next. Rows in
messages are data rows counting from 1: the header of a file is not counted.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int32, Shaped

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError, suggest

LONG_LIST = 30
_LABEL_ADVICE = "labels must be strings, numbers or true/false."
Label = str | bool | int | float
_INFINITIES = (float("inf"), float("-inf"))


def capital(text: str) -> str:
    """The text as the start of a sentence."""
    return text[:1].upper() + text[1:]


def shorten(names: Sequence[str]) -> str:
    """Names as a list for a message, cut after 30."""
    rest = len(names) - LONG_LIST
    return ", ".join(names[:LONG_LIST]) + (f" and {rest} more" if rest > 0 else "")


def nearest(name: str, present: Sequence[str]) -> str:
    """`suggest` for column names: other upper and lower case counts as near, known names are cut after 30."""
    hint = suggest(name, present)
    other_case = [one for one in present if one.casefold() == name.casefold()]
    if other_case and "Did you mean" not in hint:
        hint = f"Did you mean {other_case[0]!r}? {hint}"
    return hint if len(present) <= LONG_LIST else f"{hint.partition('Known: ')[0]}Known: {shorten(sorted(present))}."


def row_name(index: int) -> str:
    """The words for a row in messages, from its index counting from 0."""
    return f"data row {index + 1} (counting from 1)"


def is_missing(value: object) -> bool:
    """Whether a single entry is None, NaN, or pandas' NA or NaT."""
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def check_rows(count: int, *, argument: str, minimum: int = 2) -> None:
    """Refuse a table with fewer than `minimum` rows.

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
    """Refuse NaN and infinity.

    Args:
        values: Numbers, [rows] or [rows, columns].
        argument: What the values are called in the message, such as ```x```.
        names: Column names, one per column; columns are numbered from 1 without them.

    Raises:
        DataError: Names the first bad column, its first bad row, the value there and how many there are.
    """
    matrix = values[:, None] if values.ndim == 1 else values
    bad = ~np.isfinite(matrix)
    if not bad.any():
        return
    column = int(np.flatnonzero(bad.any(axis=0))[0])
    row = int(np.flatnonzero(bad[:, column])[0])
    if names is not None:
        label = f"column {names[column]!r} of {argument}"
    else:
        label = argument if values.ndim == 1 else f"column {column + 1} (counting from 1) of {argument}"
    raise DataError(_bad_entries(label, bad[:, column], matrix[row, column]))


def _bad_entries(label: str, bad: Bool[np.ndarray, "rows"], value: object) -> str:
    count = int(bad.sum())
    kind = "a missing value (NaN)" if is_missing(value) else f"an infinite value ({value})"
    total = "1 such value" if count == 1 else f"{count} missing or infinite values"
    return (
        f"{capital(label)} has {kind} at {row_name(int(np.flatnonzero(bad)[0]))}; {total} in this "
        "column. Remove those rows, or fill in the values, before fitting or predicting."
    )


def as_numbers(values: object, *, column: str, argument: str) -> Float[np.ndarray, "rows"]:
    """One column as Float64; None becomes NaN (see `check_finite`).

    Raises:
        DataError: An entry is not a number: names the column, the first such row, its value and the count.
    """
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    entries = _plain_entries(array)
    numbers = [_number(value) for value in entries]
    bad = [row for row, number in enumerate(numbers) if number is None]
    if bad:
        found = "1 value that is not a number" if len(bad) == 1 else f"{len(bad)} values that are not numbers"
        raise DataError(
            f"Column {column!r} of {argument} holds {found}: the first is {entries[bad[0]]!r} at "
            f"{row_name(bad[0])}. Correct it, or remove the row or the column."
        )
    return np.array(numbers, dtype=np.float64)


def _plain_entries(array: np.ndarray) -> list:
    """Entries as Python values; dates stay recognisable (NumPy would turn them into whole numbers)."""
    return [str(entry) for entry in array] if array.dtype.kind in "mM" else array.tolist()


def _number(value: Any) -> float | None:
    if is_missing(value):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def as_matrix(
    values: object, *, argument: str, names: Sequence[str] | None = None
) -> Float[np.ndarray, "rows columns"]:
    """Inputs given as an array, checked: two dimensions, numbers only, all finite.

    Args:
        values: Anything that NumPy turns into [rows, columns].
        argument: What the values are called in messages.
        names: Column names for messages.

    Returns:
        Float64 [rows, columns].

    Raises:
        DataError: Another number of dimensions, no columns, a value that is no number, NaN or infinity.
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
    """Regression targets as Float64 [rows, targets]; [rows] becomes one target.

    Raises:
        DataError: More than two dimensions, a value that is no number, NaN or infinity.
    """
    array = np.asarray(values)
    return as_matrix(array[:, None] if array.ndim == 1 else array, argument=argument, names=names)


def as_labels(values: object, *, argument: str) -> list[Label]:
    """Class labels as plain Python values, with their type kept; shape [rows] or [rows, 1].

    Raises:
        DataError: More than one column, a missing label, or a label that is not a string, bool or number.
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
    labels = [label.item() if isinstance(label, np.generic) else label for label in array.tolist()]
    bad = np.array([is_missing(label) or label in _INFINITIES for label in labels], dtype=bool)
    if bad.any():
        raise DataError(_bad_entries(argument, bad, labels[int(np.flatnonzero(bad)[0])]))
    for row, label in enumerate(labels):
        if not isinstance(label, (str, bool, int, float)):
            raise DataError(
                f"{capital(argument)} holds a {type(label).__name__} at {row_name(row)}: {label!r}. "
                f"{capital(_LABEL_ADVICE)}"
            )
    return labels


def sorted_labels(labels: Sequence[Label]) -> tuple[Label, ...]:
    """The distinct labels in order; numbers before strings where they are mixed."""
    return tuple(sorted(set(labels), key=lambda label: (isinstance(label, str), label)))


def label_classes(labels: Sequence[Label], *, argument: str) -> tuple[Label, ...]:
    """The distinct labels in sorted order.

    Raises:
        DataError: Labels of several types, one class only, or a different label in every row.
    """
    first_rows: dict[str, int] = {}
    for row, label in enumerate(labels):
        first_rows.setdefault(type(label).__name__, row)
    if len(first_rows) > 1:
        found = " and ".join(f"{labels[row]!r} at {row_name(row)}" for row in first_rows.values())
        raise DataError(f"{capital(argument)} mixes labels of several types: {found}. Give them one type.")
    classes = sorted_labels(labels)
    if len(classes) == 1:
        raise DataError(
            f"{capital(argument)} has one class only: every row is {classes[0]!r}. "
            "At least two classes are needed; check that the right column was chosen."
        )
    if len(classes) == len(labels):
        raise DataError(
            f"{capital(argument)} has as many classes as rows ({len(classes)}): every label is different, "
            f"the first is {labels[0]!r}. Choose another column, or set task='regression' for a quantity."
        )
    return classes


def position_of(label: Label, positions: Mapping[Label, int]) -> int | None:
    """Look a label up; None when it is not known.

    A file in which every label happens to look like a number is read as numbers, so a number is looked up
    by its text too: 1 and 1.0 as ``"1"``.
    """
    if label in positions:
        return positions[label]
    whole = isinstance(label, float) and label.is_integer()
    return positions.get(str(int(label)) if whole else str(label))


def encode_labels(labels: Sequence[Label], classes: Sequence[Label], *, argument: str) -> Int32[np.ndarray, "rows"]:
    """The position of each label in `classes`.

    Raises:
        DataError: A label is not among the classes: names the first row and the label.
    """
    positions = {label: index for index, label in enumerate(classes)}
    found = [position_of(label, positions) for label in labels]
    for row, (label, index) in enumerate(zip(labels, found, strict=True)):
        if index is None:
            raise DataError(
                f"{capital(argument)} has the label {label!r} at {row_name(row)}, which the training "
                f"rows did not have. Known: {shorten([repr(one) for one in classes])}. "
                "Remove the row, or train with that class."
            )
    return np.array(found, dtype=np.int32)


def check_same_rows(inputs_count: int, targets_count: int, *, inputs: str, targets: str) -> None:
    """Refuse inputs and targets with different numbers of rows.

    Raises:
        DataError: The counts differ.
    """
    if inputs_count != targets_count:
        raise DataError(
            f"{capital(inputs)} has {inputs_count} rows, {targets} has {targets_count}: each row needs its target."
        )


def check_test_fraction(test_fraction: float) -> None:
    """Refuse a held-out share outside [0, 1).

    Raises:
        SettingError: The share is out of its range.
    """
    if not 0.0 <= test_fraction < 1.0:
        raise SettingError(
            f"`test_fraction` must be at least 0 and below 1, got {test_fraction}. "
            "It is the share of rows held out for testing, such as 0.2."
        )


def check_seed(seed: int) -> None:
    """Refuse a seed that is not a whole number in [0, 2**32).

    Raises:
        SettingError: The seed is out of its range.
    """
    if not is_integer(seed) or not 0 <= seed < 2**32:
        raise SettingError(f"`seed` must be a whole number from 0 to {2**32 - 1}, got {seed!r}.")
