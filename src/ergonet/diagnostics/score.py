"""The Monte Carlo error of a score of predictions: of the mean log predictive density of rows."""

from typing import Any

import numpy as np

from ergonet.diagnostics.chains import check_draws, mcse_mean


def mcse_score(log_density: Any, weights: Any = None) -> float:
    """Compute the Monte Carlo standard error of the mean log predictive density of rows, in nats per row.

    The score is the mean over rows of log p(y), where p(y) is the mean over draws of the densities given a draw. To
    first order its error is that of the mean over draws of the influences h, the mean over rows of p(y | draw) / p(y)
    (Owen2013, section 9.2, with dependent draws). Where a few draws give nearly all of the density of a row, the error
    is larger than it says.

    Args:
        log_density: log density of each row given each draw, ``[chain, draw, row]``; may be minus infinity.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        The standard error, above 0; NaN with fewer than four draws, without rows, if a density is not a number or
        infinite, if no draw gives a row any density, and if the influences are constant.

    Raises:
        SettingError: ``log_density`` does not have three dimensions, or ``weights`` do not match them.
    """
    chains, draws, rows = check_draws(log_density)
    values = np.asarray(log_density, np.float64)
    if not rows or np.isnan(values).any() or np.isposinf(values).any():
        return float("nan")
    shares = np.ones((chains, draws)) if weights is None else np.asarray(weights, np.float64)
    top = values.max(axis=(0, 1))
    if np.isneginf(top).any():
        return float("nan")
    densities = np.exp(values - top)
    influences = np.mean(densities / (np.einsum("cd,cdr->r", shares, densities) / shares.sum()), axis=2)
    return float(mcse_mean(influences[:, :, None], weights)[0])
