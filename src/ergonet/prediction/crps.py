"""The continuous ranked probability score in closed form (GneitingRaftery2007, Jordan2019); lower is better.

It is the integral over all values of the squared difference between the predictive distribution function and the step
at the true value, in the unit of the target. `scores.sample_crps` estimates it from draws of any distribution.
"""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import norm

from ergonet._errors import DataError

Values = Any  # numbers or arrays, of shapes that broadcast


def normal_crps(mean: Values, sd: Values, truth: Values) -> Values:
    """The score of normal distributions, elementwise.

    Args:
        mean: means.
        sd: standard deviations, above 0.
        truth: true values.

    Raises:
        DataError: a standard deviation is not above 0.
    """
    sd = _positive(sd, "sd")
    z = (np.asarray(truth, np.float64) - mean) / sd
    return sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))


def laplace_crps(location: Values, scale: Values, truth: Values) -> Values:
    """The score of Laplace distributions with mean absolute deviation `scale`, elementwise; raises as `normal_crps`."""
    scale = _positive(scale, "scale")
    away = np.abs(np.asarray(truth, np.float64) - location) / scale
    return scale * (away + np.exp(-away) - 0.75)


def logistic_crps(location: Values, scale: Values, truth: Values) -> Values:
    """The score of logistic distributions, elementwise; raises as `normal_crps`."""
    scale = _positive(scale, "scale")
    z = (np.asarray(truth, np.float64) - location) / scale
    return scale * (z + 2 * np.logaddexp(0, -z) - 1)


def mixture_crps(
    means: Float[np.ndarray, "component rows"],
    sds: Float[np.ndarray, "component rows"],
    truth: Float[np.ndarray, "rows"],
    weights: Float[np.ndarray, "component"] | None = None,
) -> Float[np.ndarray, "rows"]:
    """The score of mixtures of normal distributions, such as the predictive distribution of draws (Grimit2006).

    Memory is components times rows; time is that times components.

    Args:
        means: means of the components.
        sds: their standard deviations, above 0.
        truth: true values.
        weights: of the components, at least 0; None: all are equal.

    Raises:
        DataError: a standard deviation is not above 0.
    """
    sds = _positive(sds, "sds")
    shares = np.full(len(means), 1.0) if weights is None else np.asarray(weights, np.float64)
    shares = shares / shares.sum()
    near = shares @ _mean_distance(truth - means, sds)
    apart = np.zeros(len(truth))
    for share, mean, sd in zip(shares, means, sds, strict=True):
        apart += share * (shares @ _mean_distance(mean - means, np.hypot(sd, sds)))
    return near - apart / 2


def _mean_distance(mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Mean of the absolute value of a normal variable."""
    z = mean / sd
    return mean * (2 * norm.cdf(z) - 1) + 2 * sd * norm.pdf(z)


def _positive(values: Values, name: str) -> Values:
    found = np.asarray(values, np.float64)
    if not (found > 0).all():
        raise DataError(f"`{name}` must be above 0, got {found.min()!r}.")
    return found
