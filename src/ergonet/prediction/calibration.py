"""Calibration: accuracy against confidence for classes, coverage against nominal probability for intervals."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from ergonet._errors import DataError, SettingError

_Z_95 = 1.959964
_BAND = 0.95  # probability that no bin of calibrated probabilities leaves the band
_MEAN_SIZE = float(np.sqrt(2 / np.pi))  # of a normal variable, in units of its standard deviation


@dataclass(frozen=True)
class ReliabilityCurve:
    """Accuracy of the predicted class as a function of confidence.

    Attributes:
        edges: edges of the confidence bins, ``[bins + 1]``, from 0 to 1.
        counts: rows in each bin, ``[bins]``.
        confidence: mean probability of the predicted class, ``[bins]``; NaN in an empty bin.
        accuracy: fraction of correctly classified rows, ``[bins]``; NaN in an empty bin.
        lower: lower end of the 95 % Wilson interval of the accuracy, ``[bins]``.
        upper: upper end of the same interval, ``[bins]``.
        band_lower: lower end of a band in which the accuracies of all bins are with at least 95 % if the probabilities
            are calibrated, ``[bins]``; NaN in an empty bin.
        band_upper: upper end of the band, ``[bins]``.
        expected_calibration_error: ``|accuracy - confidence|`` averaged over bins weighted by their rows, 0 to 1
            (Guo2017, equation 3).
        expected_calibration_error_standard_error: its standard error with bins and signs held fixed; NaN for a
            single row.
        by_chance: the error to expect of calibrated probabilities in the same bins, 0 to 1.
        corrected: root mean square of ``accuracy - confidence`` over rows, without the bias of finite bins, 0 to 1:
            that of each bin is the variance of its accuracy (Kumar2019). Bins of one row are left out.
        overconfidence: mean confidence minus accuracy, -1 to 1.
        overconfidence_standard_error: its standard error; NaN for a single row.
    """

    edges: np.ndarray
    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    band_lower: np.ndarray
    band_upper: np.ndarray
    expected_calibration_error: float
    expected_calibration_error_standard_error: float
    by_chance: float
    corrected: float
    overconfidence: float
    overconfidence_standard_error: float

    @property
    def is_outside(self) -> np.ndarray:
        """Which bins leave the band, ``[bins]``."""
        return (self.accuracy < self.band_lower) | (self.accuracy > self.band_upper)


@dataclass(frozen=True)
class CoverageCurve:
    """Coverage of central predictive intervals.

    Attributes:
        nominal: nominal probabilities of the intervals, ``[interval]``, ascending, each in (0, 1).
        coverage: fraction of true values inside the interval, over all rows and targets, ``[interval]``.
        lower: lower end of the 95 % Wilson interval of the coverage, with rows as the sample, ``[interval]``.
        upper: upper end of the same interval, ``[interval]``.
        mean_gap: mean over the intervals of ``|coverage - nominal|``, 0 to 1.
        mean_gap_standard_error: its standard error over rows with signs held fixed; NaN for a single row.
        by_chance: the gap to expect of calibrated intervals on as many rows, 0 to 1.
        overconfidence: mean over the intervals of ``nominal - coverage``, -1 to 1.
        overconfidence_standard_error: its standard error over rows; NaN for a single row.
    """

    nominal: np.ndarray
    coverage: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    mean_gap: float
    mean_gap_standard_error: float
    by_chance: float
    overconfidence: float
    overconfidence_standard_error: float


def reliability_curve(probabilities: np.ndarray, truth: np.ndarray, bins: int = 10) -> ReliabilityCurve:
    """Compute accuracy against confidence in bins of equal width.

    Args:
        probabilities: predicted class probabilities, ``[rows, classes]``; each row sums to 1.
        truth: indices of the true classes, ``[rows]``.
        bins: number of bins between 0 and 1, at least 1.

    Returns:
        The curve with its counts and intervals.

    Raises:
        DataError: shapes do not match, there are no rows, or a row is not a probability distribution.
        SettingError: ``bins`` is below 1.
    """
    if bins < 1:
        raise SettingError(f"`bins` must be at least 1, got {bins}.")
    probabilities, truth = check_classification(probabilities, truth)
    rows = len(truth)
    sure = probabilities.max(axis=1)
    right = (probabilities.argmax(axis=1) == truth).astype(np.float64)
    where = np.clip(np.ceil(sure * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(where, minlength=bins)
    sum_sure = np.bincount(where, weights=sure, minlength=bins)
    sum_right = np.bincount(where, weights=right, minlength=bins)
    chance = np.bincount(where, weights=np.maximum(sure * (1 - sure), 0), minlength=bins)
    with np.errstate(invalid="ignore"):
        confidence, accuracy = sum_sure / counts, sum_right / counts
    gap = sum_right - sum_sure
    lower, upper = wilson_interval(sum_right, counts)
    band_lower, band_upper = _band(confidence, counts)
    return ReliabilityCurve(
        edges=np.linspace(0.0, 1.0, bins + 1),
        counts=counts,
        confidence=confidence,
        accuracy=accuracy,
        lower=lower,
        upper=upper,
        band_lower=band_lower,
        band_upper=band_upper,
        expected_calibration_error=float(np.abs(gap).sum() / rows),
        expected_calibration_error_standard_error=standard_error(np.sign(gap)[where] * (right - sure)),
        by_chance=_MEAN_SIZE * float(np.sqrt(chance).sum() / rows),
        corrected=_corrected(accuracy, confidence, counts),
        overconfidence=float((sure - right).mean()),
        overconfidence_standard_error=standard_error(sure - right),
    )


def _band(confidence: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the band of accuracies, ``[bins]`` each, for independent bins.

    Right rows are counted as if all of a bin had its mean confidence. Probabilities that differ have less variance, so
    the band is slightly wide.
    """
    number = np.where(counts > 0, counts, np.nan)
    tail = (1 - _BAND ** (1 / np.count_nonzero(counts))) / 2
    lower, upper = (binom.ppf(level, number, np.clip(confidence, 0.0, 1.0)) for level in (tail, 1 - tail))
    return lower / number, upper / number


def _corrected(accuracy: np.ndarray, confidence: np.ndarray, counts: np.ndarray) -> float:
    used = counts > 1
    if not used.any():
        return float("nan")
    accuracy, confidence, counts = accuracy[used], confidence[used], counts[used]
    squares = np.square(accuracy - confidence) - accuracy * (1 - accuracy) / (counts - 1)
    return float(np.sqrt(max(np.average(squares, weights=counts), 0.0)))


def coverage_curve(quantiles: np.ndarray, levels: Sequence[float] | np.ndarray, truth: np.ndarray) -> CoverageCurve:
    """Compute the coverage of the central intervals between the quantiles at ``a`` and at ``1 - a``.

    Args:
        quantiles: predictive quantiles, ``[level, rows, targets]``.
        levels: their probabilities, ``[level]``, each between 0 and 1; levels without a symmetric counterpart are
            ignored.
        truth: true values, ``[rows, targets]``.

    Returns:
        The curve, narrow intervals first.

    Raises:
        DataError: shapes do not match, there are no rows, or a value is not finite.
        SettingError: no two levels are symmetric about 1/2.
    """
    probabilities = np.asarray(levels, dtype=np.float64)
    truth = finite_array(truth, "truth", 2)
    quantiles = finite_array(quantiles, "quantiles", 3)
    if quantiles.shape != (len(probabilities), *truth.shape):
        raise DataError(
            f"`quantiles` must have shape [level, rows, targets] = {(len(probabilities), *truth.shape)}, "
            f"got {quantiles.shape}."
        )
    pairs = symmetric_pairs(probabilities)
    if not pairs:
        raise SettingError(
            f"Coverage needs levels that are symmetric about 1/2, such as 0.05 and 0.95; got {list(levels)}."
        )
    nominal = np.asarray([probabilities[high] - probabilities[low] for low, high in pairs])
    inside = np.stack([(quantiles[low] <= truth) & (truth <= quantiles[high]) for low, high in pairs])
    return _coverage(nominal, inside)


def rounding_of(values: np.ndarray) -> float:
    """The step to which values ``[rows]`` were rounded: the smallest distance of different ones; 0 if none repeats."""
    different = np.unique(values)
    return float(np.diff(different).min()) if 2 <= len(different) < len(values) else 0.0


def rounding_steps(targets: np.ndarray) -> np.ndarray:
    """`rounding_of` each column of targets ``[rows]`` or ``[rows, targets]``."""
    columns = np.asarray(targets).reshape(len(targets), -1).T
    return np.array([rounding_of(column) for column in columns], columns.dtype)


def transform_coverage(transform: np.ndarray) -> CoverageCurve:
    """Compute the coverage of central intervals from the probability integral transform; also right for counts.

    Args:
        transform: probability integral transform of the true values, randomized for counts, ``[rows, targets]``.

    Returns:
        The curve at the nominal probabilities 0.1 to 0.9.

    Raises:
        DataError: there are no rows, or a value is not finite.
    """
    away = 2 * np.abs(finite_array(transform, "transform", 2) - 0.5)
    nominal = np.arange(1, 10) / 10
    return _coverage(nominal, away[None] <= nominal[:, None, None])


def _coverage(nominal: np.ndarray, inside: np.ndarray) -> CoverageCurve:
    """The curve, from which true values are inside each interval, ``[interval, rows, targets]``."""
    by_row = inside.mean(axis=2)
    coverage, rows = by_row.mean(axis=1), by_row.shape[1]
    lower, upper = wilson_interval(by_row.sum(axis=1), np.full(len(nominal), rows))
    gap = coverage - nominal
    return CoverageCurve(
        nominal=nominal,
        coverage=coverage,
        lower=lower,
        upper=upper,
        mean_gap=float(np.abs(gap).mean()),
        mean_gap_standard_error=standard_error((np.sign(gap)[:, None] * by_row).mean(axis=0)),
        by_chance=_MEAN_SIZE * float(np.sqrt(nominal * (1 - nominal) / rows).mean()),
        overconfidence=float(-gap.mean()),
        overconfidence_standard_error=standard_error(by_row.mean(axis=0)),
    )


def wilson_interval(successes: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute Wilson's 95 % interval of a proportion (Wilson1927); NaN where the count is 0.

    Args:
        successes: number of successes, ``[bins]``; need not be whole numbers.
        counts: number of trials, ``[bins]``.

    Returns:
        Lower and upper ends, ``[bins]`` each, in [0, 1].
    """
    number = np.where(counts > 0, counts, np.nan).astype(np.float64)
    fraction, z2 = successes / number, _Z_95**2
    middle = (fraction + z2 / (2 * number)) / (1 + z2 / number)
    half = _Z_95 * np.sqrt(fraction * (1 - fraction) / number + z2 / (4 * number**2)) / (1 + z2 / number)
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def standard_error(values: np.ndarray) -> float:
    """Standard error of the mean of independent ``values``, ``[rows]``; NaN for fewer than two."""
    if len(values) < 2:
        return float("nan")
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def check_classification(probabilities: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Validate predicted distributions and true classes, and return them as float64 and integers.

    Raises:
        DataError: shapes do not match, there are no rows, a row is not a probability distribution, or a class index
            is out of range.
    """
    probabilities = finite_array(probabilities, "probabilities", 2)
    truth = np.asarray(truth)
    rows, classes = probabilities.shape
    if truth.shape != (rows,) or not np.issubdtype(truth.dtype, np.integer):
        raise DataError(
            f"`truth` must hold one class index for each of the {rows} rows of `probabilities`, "
            f"got {truth.dtype} of shape {truth.shape}."
        )
    wrong = (probabilities < 0).any(axis=1) | (np.abs(probabilities.sum(axis=1) - 1) > 1e-3)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"`probabilities` is not a distribution in row {row}: {probabilities[row].tolist()}. "
            "The entries of each row must be at least 0 and sum to 1."
        )
    outside = (truth < 0) | (truth >= classes)
    if outside.any():
        row = int(np.argmax(outside))
        raise DataError(f"`truth` has class {truth[row]} in row {row}; classes run from 0 to {classes - 1}.")
    return probabilities, truth


def finite_array(values: np.ndarray, name: str, dimensions: int) -> np.ndarray:
    """Validate an array and return it as float64.

    Raises:
        DataError: the number of dimensions is not `dimensions`, the array is empty, or a value is not finite.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != dimensions:
        raise DataError(f"`{name}` must have {dimensions} dimensions, got shape {values.shape}.")
    if values.size == 0:
        raise DataError(f"`{name}` is empty (shape {values.shape}): scores need at least one row.")
    if not np.isfinite(values).all():
        where = tuple(int(index) for index in np.argwhere(~np.isfinite(values))[0])
        raise DataError(f"`{name}` has the value {values[where]} at index {where}; scores need finite values.")
    return values


def symmetric_pairs(levels: np.ndarray) -> list[tuple[int, int]]:
    """Indices of the levels of each central interval, narrow ones first."""
    pairs = []
    for low in np.argsort(-levels):
        if levels[low] < 0.5 - 1e-9:
            matches = np.flatnonzero(np.abs(levels - (1 - levels[low])) < 1e-6)
            pairs.extend((int(low), int(high)) for high in matches[:1])
    return pairs
