"""Convergence in function space: judged on predictions, not on weights.

Permuting the hidden units of a network or flipping their signs does not change the function that it computes, so two
chains can agree on every prediction and on no weight. The same summary is computed for both, but only the one over
predictions decides whether a run is trusted.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._errors import DataError, SettingError
from ergonet.diagnostics import chains

_MOST_ROWS_SEARCHED = 20_000
_NUMBERS_AT_ONCE = 2**26  # of draws that are read together


@dataclass(frozen=True)
class ConvergenceSummary:
    """R-hat, effective sample sizes (ESS) and Monte Carlo errors of many quantities, and the worst of each.

    Attributes:
        rhat: rank-normalized split R-hat, ``[quantity]``; NaN where it cannot be computed.
        ess_bulk: bulk ESS, ``[quantity]``.
        ess_tail: tail ESS, ``[quantity]``.
        max_rhat: largest R-hat; NaN for a single chain, fewer than four draws, or if all quantities are degenerate.
        min_ess_bulk: smallest bulk ESS.
        median_ess_bulk: median bulk ESS.
        min_ess_tail: smallest tail ESS.
        num_degenerate: number of quantities that are constant or contain a value that is not finite; they do not
            enter the figures of the worst.
        mcse: Monte Carlo standard error of the mean, ``[quantity]``, in the unit of the quantity.
        max_mcse: largest of these in standard deviations of the quantity over the draws.
    """

    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    max_rhat: float
    min_ess_bulk: float
    median_ess_bulk: float
    min_ess_tail: float
    num_degenerate: int
    mcse: np.ndarray
    max_mcse: float

    def worst(self, count: int, groups: Any = None) -> np.ndarray:
        """The quantities with the largest R-hat, or without one with the smallest ESS, the worst first.

        Args:
            count: how many at most.
            groups: the group of each quantity, ``[quantity]``, such as its row, of which the worst counts; None: each
                quantity is a group of its own.

        Returns:
            Indices of quantities that are not degenerate.
        """
        ess = np.fmin(self.ess_bulk, self.ess_tail)
        order = np.lexsort((ess, np.where(np.isnan(self.rhat), np.inf, -self.rhat)))
        known = order[~np.isnan(ess[order])]
        if groups is not None:
            _, first = np.unique(np.asarray(groups)[known], return_index=True)
            known = known[np.sort(first)]
        return known[:count]


def summarize(values: Any, weights: Any = None) -> ConvergenceSummary:
    """Compute R-hat, ESS and MCSE of every quantity, such as monitored predictions or weights.

    Args:
        values: draws, ``[chain, draw, quantity]``; read in chunks, so the array may be on disk.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        The figures per quantity, and the worst of them over quantities that are not degenerate.

    Raises:
        SettingError: ``values`` does not have three dimensions, or ``weights`` do not match them.
    """
    num_chains, num_draws, num_quantities = chains.check_draws(values)
    width = max(1, _NUMBERS_AT_ONCE // max(1, num_chains * num_draws))
    blocks = [_figures(values[:, :, start : start + width], weights) for start in range(0, num_quantities or 1, width)]
    rhat, bulk, tail, mcse, sd = map(np.concatenate, zip(*blocks, strict=True))
    with np.errstate(invalid="ignore", divide="ignore"):
        relative = mcse / sd
    degenerate = int(np.isnan(bulk).sum()) if num_draws >= 4 else 0
    return ConvergenceSummary(
        rhat=rhat,
        ess_bulk=bulk,
        ess_tail=tail,
        max_rhat=chains.over_known(np.max, rhat),
        min_ess_bulk=chains.over_known(np.min, bulk),
        median_ess_bulk=chains.over_known(np.median, bulk),
        min_ess_tail=chains.over_known(np.min, tail),
        num_degenerate=degenerate,
        mcse=mcse,
        max_mcse=chains.over_known(np.max, relative),
    )


def _figures(values: Any, weights: Any) -> tuple[np.ndarray, ...]:
    """R-hat, bulk and tail ESS, MCSE and standard deviation of quantities, which are read once, `[quantity]` each."""
    read = np.asarray(values)
    figures = chains.rhat, chains.ess_bulk, chains.ess_tail, chains.mcse_mean, chains.sd
    return tuple(of(read, weights) for of in figures)


def choose_reference_rows(x: np.ndarray, count: int = 20) -> np.ndarray:
    """Choose rows that are spread over the inputs by deterministic farthest-point sampling on standardized columns.

    The first row chosen is the one closest to the center; each further row is the one farthest from all rows already
    chosen. With more than 20 000 rows, the choice is made among 20 000 evenly spaced ones.

    Args:
        x: inputs, ``[rows, ...]``; further dimensions are features.
        count: number of rows to choose, at least 1.

    Returns:
        Ascending indices of distinct rows, ``[min(count, rows)]``.

    Raises:
        SettingError: ``count`` is below 1.
        DataError: there are no rows, or a value is not finite.
    """
    if count < 1:
        raise SettingError(f"`count` must be at least 1, got {count}.")
    inputs = np.asarray(x)
    if inputs.ndim == 0 or inputs.shape[0] == 0:
        raise DataError(f"Reference rows cannot be chosen: `x` has no rows, shape {inputs.shape}.")
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
