"""Whether the predictions of a surrogate can be trusted: errors beside the stated uncertainty, on held-out rows.

Relative errors and standardized residuals are those of Ask2022, section 7.2.3, where a model counts as reliable if its
residuals are within a standard normal distribution.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

from ergonet._errors import DataError
from ergonet.datasets.domain import UNUSUAL
from ergonet.prediction.calibration import finite_array, wilson_interval

COVERAGES = (0.5, 0.9, 0.99)
EXTREMES = (0.005, 0.995)
"""Probabilities of the quantiles that a 99 % interval needs."""

_BY_CHANCE = math.sqrt(math.pi / 2) * math.log(2)  # mean of Kolmogorov's distribution
Column = Float[np.ndarray, "rows"]


def relative_errors(mean: Any, truth: Any) -> Float[np.ndarray, "rows targets"]:
    """(truth - mean) / truth, the relative error of the predictive mean (Ask2022, equation 7.1).

    Args:
        mean: predictive means, `[rows, targets]`.
        truth: true values, none of them 0.

    Raises:
        DataError: shapes do not match, a value is not finite, or a true value is 0.
    """
    mean, truth = _pair(mean, truth)
    if not truth.all():
        row = int(np.argwhere(truth == 0)[0][0])
        raise DataError(f"`truth` is 0 in row {row}, where an error has no relative size. Use other scores, or `rmse`.")
    return (truth - mean) / truth


def root_mean_squares(mean: Any, truth: Any) -> Float[np.ndarray, "targets"]:
    """Root mean square error of the predictive mean of each target, in the unit of that target.

    Args:
        mean: predictive means, `[rows, targets]`.
        truth: true values.

    Raises:
        DataError: shapes do not match, there are no rows, or a value is not finite.
    """
    mean, truth = _pair(mean, truth)
    return np.sqrt(np.square(mean - truth).mean(axis=0))


def standardized_residuals(mean: Any, sd: Any, truth: Any) -> Float[np.ndarray, "rows targets"]:
    """(truth - mean) / sd, about N(0, 1) if the predictions are right and close to normal (Ask2022, equation 7.2).

    Args:
        mean: predictive means, `[rows, targets]`.
        sd: predictive standard deviations, above 0.
        truth: true values.

    Raises:
        DataError: shapes do not match, a value is not finite, or a standard deviation is not above 0.
    """
    mean, truth = _pair(mean, truth)
    sd = finite_array(sd, "sd", 2)
    if sd.shape != mean.shape or not (sd > 0).all():
        raise DataError(f"`sd` must have the shape {list(mean.shape)} and be above 0, got {list(sd.shape)}.")
    return (truth - mean) / sd


@dataclass(frozen=True)
class ResidualFigures:
    """Standardized residuals beside N(0, 1).

    Attributes:
        mean: their mean; 0 is expected.
        sd: their standard deviation; 1 is expected, and more if the stated uncertainties are too small.
        beyond_two: share beyond -2 and 2; 4.6 % are expected.
        beyond_three: share beyond -3 and 3; 0.27 % are expected.
        distance: largest difference of their distribution function from that of N(0, 1), 0 to 1.
        by_chance: the distance to expect of as many normal numbers.
    """

    mean: float
    sd: float
    beyond_two: float
    beyond_three: float
    distance: float
    by_chance: float


def residual_figures(residuals: Any) -> ResidualFigures:
    """Compare standardized residuals with N(0, 1).

    Args:
        residuals: at least two finite numbers of any shape.

    Raises:
        DataError: there are fewer, or one is not finite.
    """
    values = np.sort(finite_array(np.asarray(residuals).reshape(-1), "residuals", 1))
    if len(values) < 2:
        raise DataError(f"`residuals` has {len(values)} number; a spread needs at least two.")
    reached, steps = ndtr(values), np.arange(len(values) + 1) / len(values)
    return ResidualFigures(
        mean=float(values.mean()),
        sd=float(values.std(ddof=1)),
        beyond_two=float((np.abs(values) > 2).mean()),
        beyond_three=float((np.abs(values) > 3).mean()),
        distance=float(max(np.max(reached - steps[:-1]), np.max(steps[1:] - reached))),
        by_chance=_BY_CHANCE / math.sqrt(len(values)),
    )


@dataclass(frozen=True)
class Coverage:
    """How many true values a central interval contains.

    Attributes:
        nominal: the stated probability.
        found: the share of true values inside.
        lower: lower end of the 95 % Wilson interval of that share.
        upper: upper end.
    """

    nominal: float
    found: float
    lower: float
    upper: float


def coverages(quantiles: Any, levels: Any, truth: Any, nominal: tuple[float, ...] = COVERAGES) -> list[Coverage]:
    """Coverage of central intervals with these probabilities, those that the levels have.

    Args:
        quantiles: predictive quantiles, `[level, rows, targets]`.
        levels: their probabilities.
        truth: true values, `[rows, targets]`.
        nominal: probabilities of the intervals.

    Raises:
        DataError: shapes do not match, or a value is not finite.
    """
    quantiles, truth = finite_array(quantiles, "quantiles", 3), finite_array(truth, "truth", 2)
    levels = np.asarray(levels, np.float64)
    if quantiles.shape != (len(levels), *truth.shape):
        raise DataError(f"`quantiles` must be [level, *{list(truth.shape)}], got {list(quantiles.shape)}.")
    found: list[Coverage] = []
    for one in nominal:
        ends = [np.flatnonzero(np.abs(levels - level) < 1e-6) for level in (0.5 - one / 2, 0.5 + one / 2)]
        if all(map(len, ends)):
            low, high = (quantiles[int(index[0])] for index in ends)
            inside = ((low <= truth) & (truth <= high)).mean(axis=1)
            lower, upper = wilson_interval(np.array([inside.sum()]), np.array([len(truth)]))
            found.append(Coverage(one, float(inside.mean()), float(lower[0]), float(upper[0])))
    return found


def trust_figures(arrays: Any) -> dict[str, Any]:
    """The table `trust` of `metrics.json`, of predictions of held-out rows, where they allow it.

    Args:
        arrays: `mean`, `sd`, `truth` `[rows, targets]`, `quantiles` with `levels`, and perhaps `usual`, the score of
            each row from `ergonet.datasets.domain.Domain`.

    Returns:
        `coverage_50`, `coverage_90`, `coverage_99`; `residual_mean`, `residual_sd`, `residual_beyond_2`,
        `residual_beyond_3`, `residual_distance`, `residual_distance_by_chance`; `relative_error` and
        `relative_error_90`, the median and the 90 % quantile of its size; `outside`, the share of rows below 0.01; and
        for several targets `target_rmse`, the root mean square error of each in its own unit.
    """
    mean, sd, truth = (np.asarray(arrays[name], np.float64) for name in ("mean", "sd", "truth"))
    found: dict[str, Any] = {}
    for one in coverages(arrays["quantiles"], arrays["levels"], truth):
        found[f"coverage_{100 * one.nominal:.0f}"] = one.found
    if (sd > 0).all() and truth.size > 1:
        figures = residual_figures(standardized_residuals(mean, sd, truth))
        found |= {"residual_mean": figures.mean, "residual_sd": figures.sd}
        found |= {"residual_beyond_2": figures.beyond_two, "residual_beyond_3": figures.beyond_three}
        found |= {"residual_distance": figures.distance, "residual_distance_by_chance": figures.by_chance}
    if truth.all():
        size = np.abs(relative_errors(mean, truth))
        found |= {"relative_error": float(np.median(size)), "relative_error_90": float(np.quantile(size, 0.9))}
    if "usual" in arrays:
        found["outside"] = float(np.mean(np.asarray(arrays["usual"]) < UNUSUAL))
    if truth.shape[1] > 1:
        found["target_rmse"] = root_mean_squares(mean, truth).tolist()
    return found


def _pair(mean: Any, truth: Any) -> tuple[np.ndarray, np.ndarray]:
    mean, truth = finite_array(mean, "mean", 2), finite_array(truth, "truth", 2)
    if mean.shape != truth.shape:
        raise DataError(f"`mean` and `truth` must have the same shape, got {list(mean.shape)} and {list(truth.shape)}.")
    return mean, truth
