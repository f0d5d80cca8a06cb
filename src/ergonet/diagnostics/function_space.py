"""Convergence where it can be judged: in predictions, not in weights.

Hidden units of a network may be permuted and flipped without changing what it computes, so two chains can
agree on every prediction and on no weight. The same summary serves both; only the one over predictions is a
reason for alarm.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._errors import DataError, SettingError
from ergonet.diagnostics import chains

_MOST_ROWS_SEARCHED = 20_000


@dataclass(frozen=True)
class ConvergenceSummary:
    """R-hat and effective sample sizes of many quantities, and their worst.

    Attributes:
        rhat: rank-normalised split R-hat, ``[quantity]``; NaN where it cannot be told.
        ess_bulk: effective sample size in the bulk, ``[quantity]``.
        ess_tail: effective sample size in the tails, ``[quantity]``.
        max_rhat: largest R-hat; NaN for one chain, fewer than four draws, or nothing but degenerate
            quantities.
        min_ess_bulk: smallest effective sample size in the bulk.
        median_ess_bulk: median of them.
        min_ess_tail: smallest effective sample size in the tails.
        num_degenerate: quantities that are constant or somewhere not finite; they are left out of the four
            above.
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    max_rhat: float
    min_ess_bulk: float
    median_ess_bulk: float
    min_ess_tail: float
    num_degenerate: int


def summarise(values: Any) -> ConvergenceSummary:
    """R-hat and effective sample sizes of every quantity, for monitored predictions and for weights alike.

    Args:
        values: draws, ``[chain, draw, quantity]``; read in blocks, so it may lie on disk.

    Returns:
        One number per quantity, and the worst of them with degenerate quantities left out and counted.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    _, num_draws, _ = chains.check_draws(values)
    rhat, bulk, tail = chains.rhat(values), chains.ess_bulk(values), chains.ess_tail(values)
    degenerate = int(np.isnan(bulk).sum()) if num_draws >= 4 else 0
    return ConvergenceSummary(
        rhat=rhat,
        ess_bulk=bulk,
        ess_tail=tail,
        max_rhat=_over_known(rhat, np.max),
        min_ess_bulk=_over_known(bulk, np.min),
        median_ess_bulk=_over_known(bulk, np.median),
        min_ess_tail=_over_known(tail, np.min),
        num_degenerate=degenerate,
    )


def choose_reference_rows(x: np.ndarray, count: int = 20) -> np.ndarray:
    """Rows that are spread over the inputs: farthest-point choice, columns scaled alike, no randomness.

    The first is the row nearest to the middle, each further one is the row farthest from all chosen before.
    Among more than 20 000 rows the choice is made from 20 000 at equal distances in the table.

    Args:
        x: inputs, ``[rows, ...]``; further dimensions are features.
        count: how many rows, at least 1; fewer are returned where there are fewer.

    Returns:
        Ascending indices of rows, ``[min(count, rows)]``, none twice.

    Raises:
        SettingError: ``count`` is below 1.
        DataError: there is no row, or a value that is not finite.
    """
    if count < 1:
        raise SettingError(f"`count` must be at least 1, got {count}.")
    inputs = np.asarray(x)
    if inputs.ndim == 0 or inputs.shape[0] == 0:
        raise DataError(f"Reference rows cannot be chosen from no rows: `x` has shape {inputs.shape}.")
    if inputs.shape[0] <= count:
        return np.arange(inputs.shape[0])
    num_searched = min(inputs.shape[0], max(_MOST_ROWS_SEARCHED, count))
    searched = np.arange(num_searched) * inputs.shape[0] // num_searched
    flat = np.asarray(inputs[searched], dtype=np.float64).reshape(num_searched, -1)
    if not np.isfinite(flat).all():
        row, column = np.argwhere(~np.isfinite(flat))[0]
        raise DataError(
            f"`x` has the value {flat[row, column]} in row {searched[row]}, feature {column}: "
            "reference rows need finite inputs."
        )
    scale = flat.std(axis=0)
    flat = (flat - flat.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    chosen = [int(np.argmin(np.square(flat).sum(axis=1)))]
    distance = np.full(len(flat), np.inf)
    while len(chosen) < count:
        distance = np.minimum(distance, np.square(flat - flat[chosen[-1]]).sum(axis=1))
        distance[chosen] = -1.0
        chosen.append(int(np.argmax(distance)))
    return np.sort(searched[chosen])


def _over_known(values: np.ndarray, reduce: Any) -> float:
    known = values[~np.isnan(values)]
    return float(reduce(known)) if known.size else float("nan")
