"""Class probabilities as arrays: how they are stated under a temperature and label noise, and their entropy."""

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, xlogy

Probabilities = Float[np.ndarray, "rows classes"]


def logs_of(probabilities: Probabilities) -> Probabilities:
    """Logarithms, of the smallest number of single precision where a probability is 0."""
    return np.log(np.maximum(probabilities, np.finfo(np.float32).tiny))


def power(probabilities: Probabilities, exponent: float) -> tuple[Probabilities, Float[np.ndarray, "rows"]]:
    """Probabilities to a power, normalized, and the log of the sum by which they were divided."""
    raised = exponent * logs_of(probabilities)
    log_sum = logsumexp(raised, axis=1)
    return np.exp(raised - log_sum[:, None]), log_sum


def with_label_noise(probabilities: Probabilities, label_noise: float) -> Probabilities:
    """Probabilities of labels, of which such a share says nothing."""
    return (1 - label_noise) * probabilities + label_noise / probabilities.shape[1]


def log_with_label_noise(
    log_probability: Float[np.ndarray, "rows"], label_noise: float, num_classes: int
) -> Float[np.ndarray, "rows"]:
    """The logarithm of `with_label_noise` of one class of each row, from that of its probability."""
    if label_noise == 0:
        return log_probability
    return np.logaddexp(np.log1p(-label_noise) + log_probability, np.log(label_noise / num_classes))


def calibrated(
    probabilities: Probabilities, log_density: Float[np.ndarray, "rows"] | None, calibration: tuple[Any, Any]
) -> tuple[Probabilities, Float[np.ndarray, "rows"] | None]:
    """Averages over draws as they are stated.

    Args:
        probabilities: averages over draws.
        log_density: logarithm of the average probability of the class of each row; None: it is not known.
        calibration: temperature and label noise.
    """
    temperature, label_noise = map(float, calibration)
    powers, log_sum = power(probabilities, 1 / temperature)
    if log_density is not None:
        classes = probabilities.shape[1]
        log_density = log_with_label_noise(log_density / temperature - log_sum, label_noise, classes)
    return with_label_noise(powers, label_noise), log_density


def entropy_of(probabilities: Probabilities) -> Float[np.ndarray, "rows"]:
    """The entropy of each row, in nats."""
    return -np.sum(xlogy(probabilities, probabilities), axis=1)
