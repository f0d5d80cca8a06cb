"""Averages over draws and their precision, of draws that count equally or by weight.

The mean of f over draws with weights w is sum w f / sum w. To first order its error is the mean of the influences
h = w (f - mean) / mean(w), so its Monte Carlo variance is that of the plain mean of h, a chain whose autocorrelation
ArviZ estimates as it does for any other (Owen2013, section 9.2, with dependent draws). The effective sample size is
the number of independent draws with equal weights that would give the same error,

    ESS = ESS(h) var_w(f) / var(h),

which is (sum w)^2 / sum w^2 (Kish1965) for independent draws, and the usual ESS for equal weights. Draws of weight 0
have no influence, but they are part of the chain, so that those around them are as far apart as they were drawn.
"""

import abc
from typing import Any

import numpy as np
from jaxtyping import Float

from ergonet._arviz import array_stats
from ergonet._errors import SettingError

Draws = Float[np.ndarray, "chain draw quantity"]
PerQuantity = Float[np.ndarray, "quantity"]
TAILS = (0.05, 0.95)


class AbstractEstimates(abc.ABC):
    """Estimates from draws `[chain, draw, quantity]` in float64; each gives one number for every quantity."""

    @abc.abstractmethod
    def mean(self, values: Draws) -> PerQuantity:
        """The mean."""

    @abc.abstractmethod
    def sd(self, values: Draws) -> PerQuantity:
        """The standard deviation; its divisor is the number of draws, or the sum of the weights."""

    @abc.abstractmethod
    def quantile(self, values: Draws, level: float) -> PerQuantity:
        """The quantile of a level in (0, 1)."""

    @abc.abstractmethod
    def mcse_mean(self, values: Draws) -> PerQuantity:
        """The Monte Carlo standard error of the mean."""

    @abc.abstractmethod
    def ess_bulk(self, values: Draws) -> PerQuantity:
        """The effective sample size for the mean of the normal scores of the ranks (Vehtari2021)."""

    @abc.abstractmethod
    def ess_tail(self, values: Draws) -> PerQuantity:
        """The smaller effective sample size for the shares below the 5 % and 95 % quantiles (Vehtari2021)."""

    @abc.abstractmethod
    def rhat(self, values: Draws) -> PerQuantity:
        """Rank-normalized split R-hat (Vehtari2021); needs at least two chains."""


def estimates(weights: Any = None) -> AbstractEstimates:
    """Estimates from draws of these weights.

    Args:
        weights: weight of each draw, `[chain, draw]`, at least 0; their scale has no meaning. None: all are equal.

    Raises:
        SettingError: a weight is negative or not finite, or the array has another number of dimensions.
    """
    if weights is None:
        return EqualDraws()
    found = np.asarray(weights, np.float64)
    if found.ndim != 2 or not (np.isfinite(found).all() and (found >= 0).all()):
        raise SettingError(
            f"`weights` must be numbers of at least 0 in the shape [chain, draw], got shape {list(found.shape)} "
            f"and values such as {found.reshape(-1)[:3].tolist()}."
        )
    return EqualDraws() if found.size == 0 or np.ptp(found) == 0 else WeightedDraws(found)


class EqualDraws(AbstractEstimates):
    """Draws that count equally: estimates of NumPy and ArviZ."""

    def mean(self, values: Draws) -> PerQuantity:
        return values.mean(axis=(0, 1))

    def sd(self, values: Draws) -> PerQuantity:
        return values.std(axis=(0, 1))

    def quantile(self, values: Draws, level: float) -> PerQuantity:
        return np.quantile(values, level, axis=(0, 1))

    def mcse_mean(self, values: Draws) -> PerQuantity:
        return array_stats().mcse(values, method="mean", chain_axis=0, draw_axis=1)

    def ess_bulk(self, values: Draws) -> PerQuantity:
        return array_stats().ess(values, method="bulk", chain_axis=0, draw_axis=1)

    def ess_tail(self, values: Draws) -> PerQuantity:
        return array_stats().ess(values, method="tail", prob=TAILS, chain_axis=0, draw_axis=1)

    def rhat(self, values: Draws) -> PerQuantity:
        return array_stats().rhat(values, chain_axis=0, draw_axis=1)


class WeightedDraws(AbstractEstimates):
    """Draws that count by weight: the estimates of the module's docstring, on ranks that count weights.

    A rank is the weight below a draw plus half of its own, in units in which all weights sum to the number of draws.
    R-hat compares weighted means and variances of half chains; a half with fewer than two draws of positive weight is
    left out. Quantiles are values of draws, at which the weight below reaches the level.
    """

    def __init__(self, weights: Float[np.ndarray, "chain draw"]):
        """Keep the weights, of which at least one must be above 0; their scale has no meaning."""
        self._weights = weights

    def mean(self, values: Draws) -> PerQuantity:
        return np.einsum("cd,cdq->q", self._weights, values) / self._weights.sum()

    def sd(self, values: Draws) -> PerQuantity:
        return np.sqrt(self.mean((values - self.mean(values)) ** 2))

    def quantile(self, values: Draws, level: float) -> PerQuantity:
        counts = self._weights > 0
        return np.quantile(values[counts], level, axis=0, weights=self._weights[counts], method="inverted_cdf")

    def mcse_mean(self, values: Draws) -> PerQuantity:
        return EqualDraws().mcse_mean(self._influences(values))

    def ess_bulk(self, values: Draws) -> PerQuantity:
        return self.ess_mean(_normal_scores(values, self._weights))

    def ess_tail(self, values: Draws) -> PerQuantity:
        return np.minimum(*(self.ess_mean((values <= self.quantile(values, level)).astype(float)) for level in TAILS))

    def rhat(self, values: Draws) -> PerQuantity:
        halves, weights = _halves(values), _halves(self._weights)
        folded = np.abs(halves - WeightedDraws(weights).quantile(halves, 0.5))
        return np.maximum(*(_rhat(_normal_scores(one, weights), weights) for one in (halves, folded)))

    def ess_mean(self, values: Draws) -> PerQuantity:
        """The effective sample size for the mean."""
        influences = self._influences(values)
        effective = array_stats().ess(influences, method="mean", chain_axis=0, draw_axis=1)
        return effective * self.sd(values) ** 2 / np.mean(influences**2, axis=(0, 1))

    def _influences(self, values: Draws) -> Draws:
        return (self._weights / self._weights.mean())[:, :, None] * (values - self.mean(values))


def _rhat(values: Draws, weights: Float[np.ndarray, "chain draw"]) -> PerQuantity:
    """R-hat of chains by their weighted means and variances."""
    counts = (weights > 0).sum(axis=1) > 1
    if counts.sum() < 2:
        return np.full(values.shape[2], np.nan)
    values, shares = values[counts], weights[counts] / weights[counts].sum(axis=1, keepdims=True)
    effective = 1 / np.sum(shares**2, axis=1)  # Kish1965
    means = np.einsum("cd,cdq->cq", shares, values)
    squares = np.einsum("cd,cdq->cq", shares, (values - means[:, None]) ** 2)
    within = np.mean(squares * (effective / (effective - 1))[:, None], axis=0)
    return np.sqrt(1 - 1 / effective.mean() + means.var(axis=0, ddof=1) / within)


def _normal_scores(values: Draws, weights: Float[np.ndarray, "chain draw"]) -> Draws:
    """Normal quantiles of Blom's shares (rank - 3/8) / (number of draws + 1/4), with ranks that count weights."""
    from scipy.special import ndtri

    size, flat = weights.size, weights.reshape(-1) * (weights.size / weights.sum())
    scores = np.empty((size, values.shape[2]))
    for quantity, column in enumerate(values.reshape(size, -1).T):
        _, place = np.unique(column, return_inverse=True)  # equal values share a rank
        mass = np.bincount(place, weights=flat)
        rank = np.cumsum(mass) - mass / 2 + 0.5
        scores[:, quantity] = ndtri((rank[place] - 0.375) / (size + 0.25))
    return scores.reshape(values.shape)


def _halves(values: np.ndarray) -> np.ndarray:
    """Chains split in the middle; the draw in the middle of an odd number is left out."""
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])
