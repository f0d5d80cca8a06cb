"""Weights of models from their log predictive densities: stacking (Yao2018) and pseudo-BMA+."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize
from scipy.special import softmax

from ergonet._checks import is_integer
from ergonet._errors import SettingError

Weights = Float[np.ndarray, "model"]
_GAP = 1e-6  # nats per row by which the score of the weights may be below the best one


def stacking_weights(log_density: Any) -> Weights:
    """Compute the weights that maximize the mean log density of the weighted average of predictive distributions.

    Unlike posterior model probabilities, they ask what the average predicts, so that two models that are the same share
    their weight, and a model that is never best may have some (Yao2018).

    Args:
        log_density: log predictive densities of rows that were not used for fitting, such as those of
            `comparison.loo`, ``[model, row]``.

    Returns:
        Weights ``[model]``, at least 0, with sum 1. The problem is concave; the optimum is reached to 1e-6
        nats per row.

    Raises:
        SettingError: there is no model or row, or a value is NaN or infinite.
    """
    density = _checked(log_density)
    relative = np.exp(density - density.max(axis=0))
    found = minimize(
        lambda weights: -np.mean(np.log(weights @ relative)),
        np.full(len(relative), 1 / len(relative)),
        jac=lambda weights: -np.mean(relative / (weights @ relative), axis=1),
        method="SLSQP",
        bounds=[(1e-12, 1.0)] * len(relative),
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-12, "maxiter": 500},
    ).x
    weights = np.clip(np.where(np.isfinite(found), found, 1.0), 1e-9, None)
    weights /= weights.sum()
    while True:  # ends: the multiplicative update increases the score, and its gap bounds what is left
        slope = np.mean(relative / (weights @ relative), axis=1)
        if slope.max() - 1 < _GAP:
            return weights
        weights = weights * slope
        weights /= weights.sum()


def pseudo_bma_weights(log_density: Any, *, replicates: int = 1000, seed: int = 0) -> Weights:
    """Compute pseudo-BMA+ weights: a softmax of the sums over rows, averaged over a Bayesian bootstrap of the rows.

    Args:
        log_density: as `stacking_weights` takes it.
        replicates: number of bootstrap replicates, at least 1.
        seed: of the bootstrap.

    Returns:
        Weights ``[model]``, at least 0, with sum 1.

    Raises:
        SettingError: there is no model or row, a value is NaN or infinite, or `replicates` is out of range.
    """
    density = _checked(log_density)
    if not is_integer(replicates) or replicates < 1:
        raise SettingError(f"`replicates` must be an integer of at least 1, got {replicates!r}.")
    rng, rows = np.random.default_rng(seed), density.shape[1]
    total = np.zeros(len(density))
    for _ in range(replicates):
        shares = rng.standard_exponential(rows)
        total += softmax(rows * (density @ (shares / shares.sum())))
    return total / replicates


def _checked(log_density: Any) -> np.ndarray:
    density = np.asarray(log_density, np.float64)
    if density.ndim != 2 or density.size == 0 or not np.isfinite(density).all():
        raise SettingError(
            f"`log_density` must hold finite numbers in the shape [model, row], got shape {list(density.shape)}."
        )
    return density
