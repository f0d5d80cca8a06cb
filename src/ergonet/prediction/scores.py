"""Scores of predictions, each with its standard error over rows.

The standard errors treat rows as independent and describe how the score would vary on other rows from the same
population. They do not include the Monte Carlo error of the predictions, for which see the effective sample sizes.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import xlogy

from ergonet._errors import DataError
from ergonet.prediction.calibration import (
    CoverageCurve,
    check_classification,
    coverage_curve,
    finite_array,
    reliability_curve,
    standard_error,
    transform_coverage,
)

COUNT_LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Probabilities of the quantiles by which counts are scored."""

_SMALLEST_PROBABILITY = float(np.finfo(np.float32).tiny)


def classification_scores(probabilities: np.ndarray, truth: np.ndarray, *, bins: int = 10) -> dict[str, float]:
    """Score predicted class probabilities.

    Args:
        probabilities: predicted class probabilities, ``[rows, classes]``; each row sums to 1.
        truth: indices of the true classes, ``[rows]``.
        bins: number of confidence bins for the calibration error.

    Returns:
        ``error`` (fraction of misclassified rows, 0 to 1), ``nll`` (mean negative log probability of the true
        class, in nats, at most 87.3 because probabilities are clipped at the smallest normal float32),
        ``calibration`` (expected calibration error, 0 to 1) and ``overconfidence`` (mean confidence minus accuracy, -1
        to 1), each with its ``*_standard_error``; ``calibration_by_chance`` (the calibration error to expect of
        calibrated probabilities); ``brier`` (mean squared distance to the one-hot true class, 0 to 2) with its
        ``brier_standard_error``. Standard errors are NaN for a single row.

    Raises:
        DataError: shapes do not match, there are no rows, or a row is not a probability distribution.
        SettingError: ``bins`` is below 1.
    """
    probabilities, truth = check_classification(probabilities, truth)
    of_truth = probabilities[np.arange(len(truth)), truth]
    wrong = (probabilities.argmax(axis=1) != truth).astype(np.float64)
    surprise = -np.log(np.clip(of_truth, _SMALLEST_PROBABILITY, 1.0))
    brier = np.square(probabilities).sum(axis=1) - 2 * of_truth + 1
    curve = reliability_curve(probabilities, truth, bins)
    return {
        "error": float(wrong.mean()),
        "error_standard_error": standard_error(wrong),
        "nll": float(surprise.mean()),
        "nll_standard_error": standard_error(surprise),
        "calibration": curve.expected_calibration_error,
        "calibration_standard_error": curve.expected_calibration_error_standard_error,
        "calibration_by_chance": curve.by_chance,
        "overconfidence": curve.overconfidence,
        "overconfidence_standard_error": curve.overconfidence_standard_error,
        "brier": float(brier.mean()),
        "brier_standard_error": standard_error(brier),
    }


def regression_scores(
    mean: np.ndarray,
    truth: np.ndarray,
    log_density: np.ndarray,
    quantiles: np.ndarray,
    levels: Sequence[float] | np.ndarray,
) -> dict[str, float]:
    """Score predictive distributions of real targets.

    Args:
        mean: predictive means, ``[rows, targets]``.
        truth: true values, ``[rows, targets]``.
        log_density: joint log predictive density of all targets of a row at their true values, in the unit of
            ``truth``, ``[rows]``.
        quantiles: predictive quantiles, ``[level, rows, targets]``.
        levels: their probabilities, ``[level]``, with at least one pair symmetric about 1/2.

    Returns:
        ``rmse`` (over rows and targets, in the unit of ``truth``), ``nll`` (mean negative log density),
        ``calibration`` (mean over central intervals of ``|coverage - nominal|``, 0 to 1) and ``overconfidence`` (mean
        of ``nominal - coverage``, -1 to 1), each with its ``*_standard_error``; ``calibration_by_chance`` (the value
        of ``calibration`` to expect of calibrated intervals); ``coverage_90`` (fraction of true values in the central
        90 % interval) and ``overconfidence_90`` (0.9 minus that) if the levels include 0.05 and 0.95. Standard errors
        are NaN for a single row; the standard error of ``rmse`` is 0 if every error is 0.

    Raises:
        DataError: shapes do not match, there are no rows, or a value is not finite.
        SettingError: no two levels are symmetric about 1/2.
    """
    mean, truth = finite_array(mean, "mean", 2), finite_array(truth, "truth", 2)
    log_density = finite_array(log_density, "log_density", 1)
    if mean.shape != truth.shape or log_density.shape != truth.shape[:1]:
        raise DataError(
            f"`mean` and `truth` must be [rows, targets] and `log_density` [rows], "
            f"got {mean.shape}, {truth.shape} and {log_density.shape}."
        )
    squared = np.square(mean - truth).mean(axis=1)
    rmse = float(np.sqrt(squared.mean()))
    curve = coverage_curve(quantiles, levels, truth)
    scores = {
        "rmse": rmse,
        "rmse_standard_error": standard_error(squared) / (2 * rmse) if rmse > 0 else 0.0,
        "nll": float(-log_density.mean()),
        "nll_standard_error": standard_error(log_density),
        **_calibration(curve),
    }
    for i in _ninety(curve):
        scores["coverage_90"] = float(curve.coverage[i])
    return scores


def _calibration(curve: CoverageCurve) -> dict[str, float]:
    scores = {
        "calibration": curve.mean_gap,
        "calibration_standard_error": curve.mean_gap_standard_error,
        "calibration_by_chance": curve.by_chance,
        "overconfidence": curve.overconfidence,
        "overconfidence_standard_error": curve.overconfidence_standard_error,
    }
    for i in _ninety(curve):
        scores["overconfidence_90"] = float(curve.nominal[i] - curve.coverage[i])
    return scores


def _ninety(curve: CoverageCurve) -> np.ndarray:
    """Index of the 90 % interval; empty if it is not known."""
    return np.flatnonzero(np.abs(curve.nominal - 0.9) < 1e-6)


def transform_scores(transform: np.ndarray) -> dict[str, float]:
    """Calibration by the probability integral transform, for targets that are whole numbers or rounded.

    Intervals of values that repeat cannot have every coverage: the narrowest around a value contains it.

    Args:
        transform: randomized where values repeat, ``[rows, targets]``.

    Returns:
        ``calibration`` and ``overconfidence`` with their ``*_standard_error``, ``calibration_by_chance`` and
        ``overconfidence_90``, as of `regression_scores`.
    """
    return _calibration(transform_coverage(transform))


def count_scores(
    mean: np.ndarray, truth: np.ndarray, log_density: np.ndarray, quantiles: np.ndarray, *, transform: np.ndarray
) -> dict[str, float]:
    """Score predictive distributions of counts.

    Args:
        mean: predictive means, above 0, ``[rows, targets]``.
        truth: true counts, ``[rows, targets]``.
        log_density: joint log predictive probability of all targets of a row, ``[rows]``.
        quantiles: predictive quantiles at ``COUNT_LEVELS``, ``[level, rows, targets]``.
        transform: randomized probability integral transform, ``[rows, targets]``.

    Returns:
        As of `regression_scores`, where ``calibration`` and ``overconfidence`` are those of the transform, because
        intervals of whole numbers cannot have every coverage; and ``mae``, the mean error of the median, and
        ``deviance``, the mean Poisson deviance of the mean, both with their ``*_standard_error``.
    """
    scores = regression_scores(mean, truth, log_density, quantiles, COUNT_LEVELS) | transform_scores(transform)
    absolute = np.abs(quantiles[COUNT_LEVELS.index(0.5)] - truth).mean(axis=1)
    deviance = 2 * (xlogy(truth, truth) - xlogy(truth, mean) - truth + mean).mean(axis=1)
    return scores | {
        "mae": float(absolute.mean()),
        "mae_standard_error": standard_error(absolute),
        "deviance": float(deviance.mean()),
        "deviance_standard_error": standard_error(deviance),
    }


def sample_crps(draws: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """The continuous ranked probability score of predictive draws, in the unit of the target; lower is better.

    It is E|X - y| - E|X - X'| / 2, estimated without bias (GneitingRaftery2007, equation 21).

    Args:
        draws: independent draws of each target, at least two, ``[draw, rows, targets]``.
        truth: true values, ``[rows, targets]``.

    Returns:
        ``crps``, the mean over rows and targets, and ``crps_standard_error``.

    Raises:
        DataError: shapes do not match, or a value is not finite.
    """
    draws, truth = finite_array(draws, "draws", 3), finite_array(truth, "truth", 2)
    count = len(draws)
    if draws.shape[1:] != truth.shape or count < 2:
        raise DataError(f"`draws` must be [draw, *{list(truth.shape)}] with at least 2 draws, got {draws.shape}.")
    ranks = (2 * np.arange(1, count + 1) - count - 1)[:, None, None]
    spread = (ranks * np.sort(draws, axis=0)).sum(axis=0) / (count * (count - 1))
    rows = (np.abs(draws - truth).mean(axis=0) - spread).mean(axis=1)
    return {"crps": float(rows.mean()), "crps_standard_error": standard_error(rows)}
