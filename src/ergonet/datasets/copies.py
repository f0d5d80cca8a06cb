"""Held-out rows that repeat training rows, so that they are no test of what was learned."""

from typing import Any

import numpy as np
from scipy.special import pdtrc

from ergonet.datasets.dataset import Dataset

SHARE = 0.05  # of the held-out rows; fewer change a score by little
CHANCE = 0.01  # of as many rows that agree


def row_keys(x: Any, y: Any) -> list[int]:
    """Rows with their targets, as numbers to be compared within this process.

    Args:
        x: inputs, ``[rows, features]``.
        y: classes ``[rows]`` or targets ``[rows, targets]``.
    """
    inputs, targets = (np.asarray(one, np.float32) for one in (x, y))
    return [hash(row.tobytes() + target.tobytes()) for row, target in zip(inputs, targets, strict=True)]


def count_copies(dataset: Dataset) -> int:
    """Number of held-out rows with the inputs and the target of a training row; 0 where chance may explain them.

    Different rows agree throughout at most as often as in a single column. Where some column hardly repeats a value in
    different rows, rows that agree are copies. Where all columns have few values, or are rounded, nobody can tell.
    """
    if not len(dataset.x_test):
        return 0
    train, test = row_keys(dataset.x_train, dataset.y_train), row_keys(dataset.x_test, dataset.y_test)
    known = set(train)
    copied = [key for key in test if key in known]
    different = len(set(copied))  # a row that is usual by chance counts once
    if different <= SHARE * len(test):
        return 0
    by_chance = pdtrc(different - 1, len(test) * _explained(dataset, [*train, *test]))
    return len(copied) if by_chance < CHANCE else 0


def _explained(dataset: Dataset, keys: list[int]) -> float:
    """The largest share of held-out rows that may agree with one of the training rows by chance."""
    _, chosen = np.unique(np.asarray(keys), return_index=True)
    x, y = np.concatenate([dataset.x_train, dataset.x_test]), np.concatenate([dataset.y_train, dataset.y_test])
    columns = (*x[chosen].T, *y[chosen].reshape(len(chosen), -1).T)
    return len(dataset.x_train) * min(_agreement(column) for column in columns)


def _agreement(column: np.ndarray) -> float:
    """The probability that two different rows have the same value: as observed, but not below that of rounding."""
    values, counts = np.unique(column.astype(np.float64), return_counts=True)
    if len(values) < 2:
        return 1.0
    low, high = np.quantile(column, (0.25, 0.75))
    steps = (high - low) / np.diff(values).min() + 1  # for a normal distribution, this is 2.6 times too cautious
    return float(max((counts * (counts - 1)).sum() / (len(column) * (len(column) - 1)), 1 / steps))
