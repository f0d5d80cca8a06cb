"""P-values of both tests, one for each quantity."""

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import chisquare, norm

from ergonet.checking.replicas import Values

NUM_BINS = 16

PerQuantity = Float[np.ndarray, "quantity"]


def ranks_of(values: Values, rng: np.random.Generator) -> Int[np.ndarray, "replica quantity"]:
    """The rank of the value at the first place among all, from 0; ties are broken at random."""
    first, rest = values[0], values[1:]
    ties = (rest == first).sum(axis=0)
    return (rest < first).sum(axis=0) + rng.integers(0, ties + 1)


def calibration_p_values(ranks: Int[np.ndarray, "replica quantity"], num_places: int) -> PerQuantity:
    """Chi-squared tests of the ranks, in 16 bins of the places; the number of these is a multiple of 16."""
    bins = ranks * NUM_BINS // num_places
    return np.array([chisquare(np.bincount(one, minlength=NUM_BINS)).pvalue for one in bins.T])


def joint_scores(values: Values, reference: Float[np.ndarray, "draw quantity"]) -> Float[np.ndarray, "moment quantity"]:
    """Z of the averages of each quantity, and of its square, over chains, against independent draws.

    Quantities are first shrunk into (-1, 1), as (q - median) / (range + |q - median|) with the range of the middle half
    of the draws, so that they have moments. Chains are independent, so the spread of their averages is an honest
    standard error.
    """
    values, reference = np.asarray(values, np.float64), np.asarray(reference, np.float64)
    low, median, high = np.percentile(reference, (25, 50, 75), axis=0)
    width = np.where(high > low, high - low, np.maximum(reference.std(axis=0), 1e-12))

    def shrunk(one: np.ndarray) -> np.ndarray:
        apart = (one - median) / width
        found = apart / (1 + np.abs(apart))
        return np.stack([found, found**2])

    ours, exact = shrunk(values).mean(axis=1), shrunk(reference)
    variance = ours.var(axis=1) / ours.shape[1] + exact.var(axis=1) / exact.shape[1]
    apart = ours.mean(axis=1) - exact.mean(axis=1)
    return np.where(variance > 0, apart / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


def joint_p_values(scores: Float[np.ndarray, "moment quantity"]) -> PerQuantity:
    """Two-sided, of the larger of both moments, times 2."""
    return np.minimum(1.0, 2 * len(scores) * norm.sf(np.abs(scores).max(axis=0)))


def smallest(p_values: np.ndarray) -> float:
    """Bonferroni's p-value of all: the smallest, times their number."""
    return float(min(1.0, p_values.size * p_values.min()))
