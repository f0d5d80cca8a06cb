"""Random splits into training and held-out rows, stratified by class if possible."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Int, Shaped

from ergonet._errors import DataError
from ergonet.datasets.validation import Label, check_seed, check_test_fraction, row_name

Rows = Int[np.ndarray, "_"]


def split_rows(
    count: int,
    test_fraction: float,
    *,
    seed: int,
    stratify: Sequence[Label] | None = None,
    groups: Mapping[str, Shaped[np.ndarray, "rows"]] | None = None,
) -> tuple[Rows, Rows]:
    """Split rows at random into training and held-out rows, each in ascending order.

    Args:
        count: Number of rows.
        test_fraction: Fraction held out, in [0, 1); the number of rows is rounded up.
        seed: Seed of the shuffle, in [0, 2**32).
        stratify: Label of each row, to hold out the same fraction of every class up to rounding. If classes are too
            small for that, the split is not stratified.
        groups: Maps column names to the category of each row. A held-out row with a category that occurs in no
            training row is moved to the training rows, with a warning.

    Returns:
        Indices of the training rows and of the held-out rows.

    Raises:
        DataError: Fewer than 2 rows are left for training.
        SettingError: `test_fraction` or `seed` is out of range.
    """
    from sklearn.model_selection import train_test_split

    check_test_fraction(test_fraction)
    check_seed(seed)
    rows = np.arange(count)
    held_count = int(np.ceil(test_fraction * count))
    if count - held_count < 2:
        raise DataError(
            f"`test_fraction={test_fraction}` holds out {held_count} of {count} rows and leaves "
            f"{count - held_count} for training; at least 2 are needed. Hold out fewer rows, or provide more."
        )
    if held_count == 0:
        return rows, rows[:0]
    sizes = Counter(stratify) if stratify is not None else Counter()
    possible = bool(sizes) and min(sizes.values()) >= 2 and len(sizes) <= min(held_count, count - held_count)
    train, test = train_test_split(
        rows, test_size=held_count, random_state=seed, stratify=stratify if possible else None
    )
    return _keep_known(np.sort(train), np.sort(test), groups or {})


def _keep_known(train: Rows, test: Rows, groups: Mapping[str, Shaped[np.ndarray, "rows"]]) -> tuple[Rows, Rows]:
    """Move held-out rows whose class or category occurs in no training row to the training rows."""
    unknown = np.zeros(len(test), dtype=bool)
    first = ""
    for name, column in groups.items():
        known = set(column[train].tolist())
        here = np.array([entry not in known for entry in column[test].tolist()], dtype=bool)
        if here.any() and not first:
            row = int(test[here][0])
            first = f"{column[row]!r} in column {name!r} at {row_name(row)}"
        unknown |= here
    if not unknown.any():
        return train, test
    moved = int(unknown.sum())
    warnings.warn(
        f"Moved {moved} held-out row{'s' * (moved > 1)} to the training rows because a class or category occurred in "
        f"no training row; the first is {first}.",
        UserWarning,
        stacklevel=5,
    )
    return np.sort(np.concatenate([train, test[unknown]])), test[~unknown]
