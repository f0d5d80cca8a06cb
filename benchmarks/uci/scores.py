"""Scores of predictive distributions, the same for every contestant.

A contestant writes an NPZ file with its predictions of the test rows: `probabilities` `[rows, classes]`, or `means` and
`sds` `[component, rows]` of a mixture of normal distributions with equal weights, in the unit of the target.
"""

from collections.abc import Mapping

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from ergonet.cli.evaluation import LEVELS
from ergonet.prediction.scores import classification_scores, regression_scores

BISECTIONS = 40


def score(predictions: Mapping[str, np.ndarray], truth: np.ndarray) -> dict[str, float]:
    """Scores of the predictions of a contestant, by the names in the command's `metrics.json`.

    For a mixture of several components there is `nll_moments` besides, that of the normal distribution with the
    mixture's mean and variance.
    """
    if "probabilities" in predictions:
        return classification_scores(predictions["probabilities"], truth)
    means, sds = predictions["means"], predictions["sds"]
    mean = means.mean(axis=0)
    density = logsumexp(_log_normal(truth, means, sds), axis=0) - np.log(len(means))
    found = regression_scores(
        mean[:, None], truth[:, None], np.asarray(density), mixture_quantiles(means, sds)[:, :, None], LEVELS
    )
    if len(means) > 1:
        sd = np.sqrt((sds**2).mean(axis=0) + means.var(axis=0))
        found["nll_moments"] = float(-_log_normal(truth, mean, sd).mean())
    return found


def mixture_quantiles(means: np.ndarray, sds: np.ndarray) -> np.ndarray:
    """Quantiles `[level, rows]` at `LEVELS` of mixtures of normal distributions with equal weights."""
    levels = np.asarray(LEVELS)
    ends = means[:, None] + sds[:, None] * ndtri(levels)[:, None]  # [component, level, row]
    low, high = ends.min(axis=0), ends.max(axis=0)
    if len(means) == 1:
        return low
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        below = np.stack([ndtr((one - means) / sds).mean(axis=0) for one in middle]) < levels[:, None]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def _log_normal(values: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    return -0.5 * ((values - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi)
