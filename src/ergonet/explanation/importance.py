"""Permutation importance: what a column contributes to the log score of held-out rows (Breiman2001)."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError
from ergonet.explanation.explained import Explained, Input, chosen, spread_rows
from ergonet.prediction.calibration import standard_error
from ergonet.prediction.predictive import predict

MOST_ROWS = 256
REPEATS = 3


@dataclass(frozen=True)
class Importance:
    """What is lost when a column is permuted.

    Attributes:
        names: the columns, `[column]`.
        loss: mean loss of log score, in nats per row, `[column]`; 0 for a column without effect; NaN for columns that
            the time did not suffice for.
        standard_error: its standard error over rows, `[column]`; NaN for a single row.
        repeats: number of permutations of each column, `[column]`.
    """

    names: tuple[str, ...]
    loss: np.ndarray
    standard_error: np.ndarray
    repeats: np.ndarray

    @property
    def order(self) -> list[int]:
        """Indices of the columns, most important first; those without a figure last."""
        return np.argsort(-np.nan_to_num(self.loss, nan=-np.inf), kind="stable").tolist()


def permutation_importance(
    fitted: Any,
    x: Any,
    y: Any,
    columns: Sequence[str] | str | None = None,
    *,
    repeats: int = REPEATS,
    seed: int = 0,
    seconds: float | None = None,
) -> Importance:
    """Permute one column among the rows, and measure how much worse the log score becomes.

    Two columns that say the same share their importance: the network can do without either. The categories of a column
    move together, and so do the parts of a date.

    Args:
        fitted: a fitted estimator, a run that was read, or samples from the posterior of a network.
        x: held-out rows, as the model takes them; 256 evenly spaced ones are used.
        y: their targets.
        columns: names of columns; None: all.
        repeats: permutations of each column, at least 1.
        seed: seeds the permutations.
        seconds: stop after so many seconds, between two permutations; None: no limit.

    Raises:
        CapabilityError: there is no network, or its inputs are images.
        DataError: `x` or `y` does not match the training rows, or they have different lengths.
        SettingError: there is no such column, nothing was fitted, or `repeats` is below 1.
    """
    if not is_integer(repeats) or repeats < 1:
        raise SettingError(f"`repeats` must be an integer of at least 1, got {repeats!r}.")
    explained = Explained.of(fitted)
    rows, targets = explained.scaled(x), explained.targets(y)
    if len(rows) != len(targets):
        raise DataError(f"`x` has {len(rows)} rows, but `y` has {len(targets)}. They must match.")
    inputs = chosen(explained.columns(rows.shape[1]), columns)
    return importance_of(explained, (rows, targets), inputs, repeats=repeats, seed=seed, seconds=seconds)


def importance_of(
    explained: Explained,
    data: tuple[np.ndarray, np.ndarray],
    inputs: Sequence[Input],
    *,
    repeats: int = REPEATS,
    seed: int = 0,
    seconds: float | None = None,
) -> Importance:
    """`permutation_importance` on rows of network inputs and targets as the network takes them."""
    kept = spread_rows(len(data[0]), MOST_ROWS)
    rows, targets = data[0][kept], data[1][kept]
    began, rng = time.perf_counter(), np.random.default_rng(seed)
    before, losses = _scores(explained, rows, targets), np.zeros((len(inputs), len(rows)))
    done = np.zeros(len(inputs), np.int64)
    for _ in range(repeats):
        for number, column in enumerate(inputs):
            order = rng.permutation(len(rows))
            if seconds is not None and time.perf_counter() - began > seconds:
                continue
            permuted, indices = rows.copy(), list(column.indices)
            permuted[:, indices] = rows[order][:, indices]
            losses[number] += before - _scores(explained, permuted, targets)
            done[number] += 1
    losses /= np.where(done > 0, done, np.nan)[:, None]
    errors = np.array([standard_error(one) for one in losses])
    return Importance(tuple(one.name for one in inputs), losses.mean(axis=1), errors, done)


def _scores(explained: Explained, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The log predictive density of each row."""
    found = predict(explained.samples, rows, model=explained.model, levels=(), y=targets)
    return np.asarray(found.log_density, np.float64)
