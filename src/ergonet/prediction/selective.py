"""Sharpness of intervals, and the risk on the rows of which a model is surest."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from ergonet._errors import DataError, SettingError
from ergonet.prediction.calibration import finite_array, standard_error, symmetric_pairs


@dataclass(frozen=True, eq=False)
class RiskCurve:
    """Mean loss of the rows of which a model is surest, by their share (Geifman2017).

    Attributes:
        coverage: share of the rows that are predicted, ``[rows]``, from 1 / rows to 1.
        risk: mean loss of these, ``[rows]``.
        area: mean of `risk`, the area under the curve; lower is better.
        excess: `area` minus that of an order by the loss itself, at least 0; 0 if the surest rows have the least loss.
    """

    coverage: Float[np.ndarray, "rows"]
    risk: Float[np.ndarray, "rows"]
    area: float
    excess: float

    def at(self, coverage: float) -> float:
        """Risk if this share of the rows is predicted, in (0, 1].

        Raises:
            SettingError: the share is out of range.
        """
        if not 0 < coverage <= 1:
            raise SettingError(f"`coverage` must be above 0 and at most 1, got {coverage!r}.")
        return float(self.risk[max(int(np.ceil(coverage * len(self.risk) - 1e-9)), 1) - 1])


def risk_coverage(uncertainty: np.ndarray, loss: np.ndarray) -> RiskCurve:
    """Compute the mean loss of the surest rows, whatever their share.

    Args:
        uncertainty: ``[rows]``; rows with low values are predicted first. Such as one minus the largest class
            probability, an entropy, or a predictive standard deviation. Rows of equal uncertainty have their mean loss.
        loss: of each row, ``[rows]``: 0 or 1 for errors of classes, squared or absolute errors of numbers.

    Raises:
        DataError: the lengths differ, there are no rows, or a value is not finite.
    """
    uncertainty, loss = finite_array(uncertainty, "uncertainty", 1), finite_array(loss, "loss", 1)
    if len(uncertainty) != len(loss):
        raise DataError(f"`uncertainty` has {len(uncertainty)} rows, but `loss` has {len(loss)}. They must match.")
    _, group, counts = np.unique(uncertainty, return_inverse=True, return_counts=True)
    tied = (np.bincount(group, weights=loss) / counts)[np.sort(group)]
    number = np.arange(1, len(loss) + 1)
    risk = np.cumsum(tied) / number
    best = np.cumsum(np.sort(loss)) / number
    return RiskCurve(number / len(loss), risk, float(risk.mean()), float(risk.mean() - best.mean()))


def sharpness(
    quantiles: np.ndarray, levels: Sequence[float] | np.ndarray, truth: np.ndarray | None = None
) -> dict[float, dict[str, float]]:
    """Widths of central intervals, and their interval scores (GneitingRaftery2007, section 6.2); lower is better.

    Widths compare models whose intervals have the stated coverage: of these, the sharper one is better. The interval
    score adds to the width 2 / (1 - p) times the distance of true values outside.

    Args:
        quantiles: predictive quantiles, ``[level, rows, targets]``.
        levels: their probabilities, ``[level]``; pairs that are symmetric about 1/2 make intervals.
        truth: true values, ``[rows, targets]``; None: no scores.

    Returns:
        For the probability p of each interval: ``width`` and, with `truth`, ``score``, means over rows and targets in
        the unit of the target, each with its ``*_standard_error`` over rows.

    Raises:
        DataError: shapes do not match, or a value is not finite.
        SettingError: no two levels are symmetric about 1/2.
    """
    quantiles, known = finite_array(quantiles, "quantiles", 3), np.asarray(levels, np.float64)
    pairs = symmetric_pairs(known)
    if not pairs:
        raise SettingError(f"Intervals need levels that are symmetric about 1/2, such as 0.05 and 0.95; got {levels}.")
    if truth is not None and np.shape(truth) != quantiles.shape[1:]:
        raise DataError(f"`truth` must have shape {list(quantiles.shape[1:])}, got {list(np.shape(truth))}.")
    found: dict[float, dict[str, float]] = {}
    for low, high in pairs:
        probability = round(float(known[high] - known[low]), 10)
        width = quantiles[high] - quantiles[low]
        rows = {"width": width.mean(axis=1)}
        if truth is not None:
            outside = np.maximum(quantiles[low] - truth, 0) + np.maximum(truth - quantiles[high], 0)
            rows["score"] = (width + 2 / (1 - probability) * outside).mean(axis=1)
        found[probability] = {
            key: value
            for name, values in rows.items()
            for key, value in ((name, float(values.mean())), (f"{name}_standard_error", standard_error(values)))
        }
    return found
