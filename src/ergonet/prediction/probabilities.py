"""Class probabilities as arrays: their powers and their entropy."""

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


def entropy_of(probabilities: Probabilities) -> Float[np.ndarray, "rows"]:
    """The entropy of each row, in nats."""
    return -np.sum(xlogy(probabilities, probabilities), axis=1)
