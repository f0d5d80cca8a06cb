"""Gaussian proposals fitted to draws, truncated at the walls of a box.

Everything is double precision on the host. The covariance is S^(1/2) ((1 - a) R + a I) S^(1/2), with the variances S
and correlations R of the draws. The share `a` is chosen by the density of draws that the fit has not seen, so a few
draws in many dimensions give a low rank plus a diagonal, and many draws give their covariance.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float

from ergonet._errors import EstimateError
from ergonet.hamiltonian.box import Box

MOST_TRUNCATED = 4  # coordinates whose joint probability between walls is computed
LEAST_INSIDE = 1e-3  # probability between walls below which a proposal is not truncated
SHARES = (0.0, 1e-3, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
_LOG_TWO_PI = math.log(2 * math.pi)
_SMALLEST = 1e-12

Points = Float[np.ndarray, "point dim"]


@runtime_checkable
class Region(Protocol):
    """A part of the space, such as a `Box`."""

    def contains(self, positions: Any) -> Any:
        """Whether positions `[..., dim]` are inside."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """A normal distribution whose correlations are a low rank plus a multiple of the identity.

    Attributes:
        mean: `[dim]`.
        sd: standard deviations, `[dim]`, above 0.
        axes: orthonormal principal axes of the standardized draws, `[dim, rank]`.
        variances: variances along the axes, `[rank]`.
        rest: variance in every other direction, at least 0; of no meaning if rank is dim.
    """

    mean: Float[np.ndarray, "dim"]
    sd: Float[np.ndarray, "dim"]
    axes: Float[np.ndarray, "dim rank"]
    variances: Float[np.ndarray, "rank"]
    rest: float

    def log_density(self, points: Points) -> Float[np.ndarray, "point"]:
        """Log density of points."""
        dim, rank = self.axes.shape
        standard = (points - self.mean) / self.sd
        along = standard @ self.axes
        squares = (along**2 / self.variances).sum(axis=1)
        log_det = np.log(self.variances).sum()
        if rank < dim:
            squares = squares + ((standard**2).sum(axis=1) - (along**2).sum(axis=1)) / self.rest
            log_det = log_det + (dim - rank) * math.log(self.rest)
        return -0.5 * (squares + log_det + dim * _LOG_TWO_PI) - np.log(self.sd).sum()

    def sample(self, rng: np.random.Generator, count: int) -> Points:
        """Independent points."""
        noise = rng.standard_normal((count, len(self.mean)))
        along, base = noise @ self.axes, math.sqrt(self.rest)
        return self.mean + self.sd * (base * noise + (along * (np.sqrt(self.variances) - base)) @ self.axes.T)

    def covariance(self, coordinates: np.ndarray) -> np.ndarray:
        """Covariance of some coordinates."""
        axes, sd = self.axes[coordinates], self.sd[coordinates]
        standard = (axes * (self.variances - self.rest)) @ axes.T + self.rest * np.eye(len(sd))
        return standard * np.outer(sd, sd)


def fit(early: Points, late: Points) -> Gaussian:
    """Fit to draws in two groups, of which each is scored by a fit to the other to choose the share of the identity.

    Raises:
        EstimateError: a coordinate does not vary.
    """
    scores = np.zeros(len(SHARES))
    for seen, unseen in ((early, late), (late, early)):
        parts = _decompose(seen)
        scores += [_assemble(parts, share).log_density(unseen).mean() for share in SHARES]
    best = SHARES[int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))]
    return _assemble(_decompose(np.concatenate([early, late])), best)


def _decompose(draws: Points) -> Gaussian:
    """Means, variances, and principal axes of the correlations."""
    mean, sd = draws.mean(axis=0), draws.std(axis=0)
    flat = np.flatnonzero(~(sd > 0))
    if flat.size:
        raise EstimateError(
            f"Coordinate {flat[0]} has the same value in all {len(draws)} draws that a proposal is fitted to, so there "
            f"is no proposal for bridge sampling. Look at `samples.alarms()`, and draw more."
        )
    standard = (draws - mean) / sd
    if len(draws) > draws.shape[1]:
        variances, axes = np.linalg.eigh(standard.T @ standard / len(draws))
    else:
        squares, left = np.linalg.eigh(standard @ standard.T / len(draws))
        counts = squares > _SMALLEST * squares[-1]
        variances = squares[counts]
        axes = standard.T @ (left[:, counts] / np.sqrt(len(draws) * variances))
    return Gaussian(mean, sd, axes, np.maximum(variances, _SMALLEST), 0.0)


def _assemble(parts: Gaussian, share: float) -> Gaussian:
    variances = (1 - share) * parts.variances + share
    return Gaussian(parts.mean, parts.sd, parts.axes, variances, max(share, _SMALLEST))


@dataclass(frozen=True)
class Proposal:
    """A Gaussian, truncated in the coordinates of a box that have walls where that is possible.

    Attributes:
        gaussian: the distribution without walls.
        region: where the target is; None: everywhere.
        log_inside: log probability of the box if the proposal is truncated; 0 if it is not.
        truncated: whether every point is inside the box.
    """

    gaussian: Gaussian
    region: Region | None
    log_inside: float
    truncated: bool

    @staticmethod
    def of(gaussian: Gaussian, region: Region | None) -> "Proposal":
        """Truncate at the walls of up to 4 coordinates; otherwise, the target is 0 at points outside of the region."""
        inside = 0.0
        if isinstance(region, Box):
            walled = walled_coordinates(region, len(gaussian.mean))
            if 0 < len(walled) <= MOST_TRUNCATED:
                inside = _probability(gaussian, walled, region)
        truncated = inside > LEAST_INSIDE
        return Proposal(gaussian, region, math.log(inside) if truncated else 0.0, truncated)

    def log_density(self, points: Points) -> Float[np.ndarray, "point"]:
        """Log density; for points inside the region if the proposal is truncated."""
        return self.gaussian.log_density(points) - self.log_inside

    def sample(self, rng: np.random.Generator, count: int, dtype: Any) -> tuple[Points, Bool[np.ndarray, "point"]]:
        """Independent points, in the precision of the draws, and which of them are inside the region."""
        if not self.truncated:
            points = self.gaussian.sample(rng, count).astype(dtype)
            return points, self._contains(points)
        parts, found = [], 0
        while found < count:
            missing = math.ceil(1.1 * (count - found) / math.exp(self.log_inside)) + 8
            points = self.gaussian.sample(rng, min(missing, 4 * count + 8)).astype(dtype)
            parts.append(points[self._contains(points)])
            found += len(parts[-1])
        return np.concatenate(parts)[:count], np.ones(count, bool)

    def _contains(self, points: Points) -> Bool[np.ndarray, "point"]:
        return np.ones(len(points), bool) if self.region is None else np.asarray(self.region.contains(points))


def walled_coordinates(box: Box, dim: int) -> np.ndarray:
    """Coordinates with a wall."""
    lower, upper = np.broadcast_to(box.lower, dim), np.broadcast_to(box.upper, dim)
    return np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))


def _probability(gaussian: Gaussian, coordinates: np.ndarray, box: Box) -> float:
    """Probability that these coordinates lie between their walls."""
    from scipy.stats import multivariate_normal

    dim = len(gaussian.mean)
    lower, upper = (np.broadcast_to(walls, dim)[coordinates] for walls in (box.lower, box.upper))
    law: Any = multivariate_normal
    normal = law(gaussian.mean[coordinates], gaussian.covariance(coordinates), allow_singular=True, seed=0, abseps=1e-6)
    return float(normal.cdf(upper, lower_limit=lower))
