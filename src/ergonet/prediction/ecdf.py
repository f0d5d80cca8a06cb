"""The distribution function of the probability integral transform, with a band for all of it at once.

If the predictive distributions are right, the transform of held-out rows is uniform. Its empirical distribution
function then stays in the band everywhere with the stated probability, so one look decides (Sailynoja2022).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import binom

from ergonet._errors import SettingError
from ergonet.prediction.calibration import finite_array

MOST_POINTS = 50
_SIMULATIONS = 10_000

PerPoint = Float[np.ndarray, "point"]


@dataclass(frozen=True, eq=False)
class TransformCurve:
    """The empirical distribution function of the transform, and a simultaneous band.

    Attributes:
        points: where it is evaluated, ``[point]``, in (0, 1).
        fraction: fraction of rows with a transform of at most the point, ``[point]``.
        lower: lower end of the band, ``[point]``.
        upper: upper end, ``[point]``.
        probability: that a uniform sample stays in the band at all points.
    """

    points: PerPoint
    fraction: PerPoint
    lower: PerPoint
    upper: PerPoint
    probability: float

    @property
    def is_outside(self) -> Bool[np.ndarray, "point"]:
        """Where the function leaves the band."""
        return (self.fraction < self.lower) | (self.fraction > self.upper)

    @property
    def is_calibrated(self) -> bool:
        """Whether the function is in the band everywhere."""
        return not self.is_outside.any()


def transform_curve(transform: np.ndarray, *, probability: float = 0.95) -> TransformCurve:
    """Compute the distribution function of the transform with its simultaneous band.

    Args:
        transform: of independent rows, ``[rows]`` or ``[rows, 1]``, in [0, 1], from
            `ergonet.prediction.pit.probability_transform`; of several targets, pass one at a time.
        probability: of the band, in (0, 1).

    Raises:
        DataError: there are no rows, or a value is not finite.
        SettingError: there are several targets, or `probability` is out of range.
    """
    values = np.asarray(transform)
    if values.ndim == 2 and values.shape[1] != 1:
        raise SettingError(f"`transform` has {values.shape[1]} targets: pass `transform[:, target]`, one at a time.")
    if not 0 < probability < 1:
        raise SettingError(f"`probability` must lie strictly between 0 and 1, got {probability!r}.")
    values = finite_array(values.reshape(-1), "transform", 1)
    count = min(MOST_POINTS, max(len(values), 2))
    points = np.arange(1, count) / count
    fraction = np.searchsorted(np.sort(values), points, side="right") / len(values)
    tail = _tail(len(values), count, probability)
    lower, upper = binom.ppf(np.array([[tail / 2], [1 - tail / 2]]), len(values), points) / len(values)
    return TransformCurve(points, fraction, lower, upper, probability)


@lru_cache(maxsize=32)
def _tail(rows: int, count: int, probability: float) -> float:
    """Probability of the tails at each point, so that all points together are in the band, by simulation."""
    points = np.arange(1, count) / count
    rng = np.random.default_rng(0)
    inside = rng.multinomial(rows, np.full(count, 1 / count), _SIMULATIONS).cumsum(axis=1)[:, :-1]
    beyond = np.minimum(binom.cdf(inside, rows, points), binom.sf(inside - 1, rows, points))
    return float(2 * np.quantile(beyond.min(axis=1), 1 - probability))
