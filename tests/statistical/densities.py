"""Densities with known moments, and the statistic that tests compare them by.

False alarm: with 20 quantities and |z| < 4 about 1e-3 for each run; seeds are fixed.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from arviz_stats.base.array import array_stats

from ergonet import AbstractTarget, Target


class CorrelatedGaussian(eqx.Module):
    precision: Any

    def __call__(self, q):
        return -0.5 * q @ (self.precision @ q)


class Bananas(eqx.Module):
    """Pairs (x, y): x ~ N(0, 1), y ~ N(bend (x^2 - 1), 1)."""

    bend: Any

    def __call__(self, q):
        x, y = q[0::2], q[1::2]
        return -0.5 * jnp.sum(x**2 + (y - self.bend * (x**2 - 1)) ** 2)


class StudentT(eqx.Module):
    """Independent Student-t coordinates."""

    degrees: Any
    scale: Any

    def __call__(self, q):
        return -0.5 * (self.degrees + 1) * jnp.sum(jnp.log1p((q / self.scale) ** 2 / self.degrees))


class Logistic(eqx.Module):
    """Logistic regression with N(0, 1) weights."""

    x: Any
    y: Any

    def __call__(self, w):
        outputs = self.x @ w
        return jnp.sum(self.y * outputs - jnp.logaddexp(0.0, outputs)) - 0.5 * w @ w


@dataclass(frozen=True)
class Problem:
    """A density on R^dim and the exact means of its coordinates and of their squares."""

    logdensity: Any
    dim: int
    mean: np.ndarray
    square: np.ndarray

    @property
    def target(self) -> AbstractTarget:
        return Target.from_logdensity(self.logdensity, jnp.zeros(self.dim))


def correlated() -> Problem:
    """Ten dimensions, condition number 1e4, axes turned at random."""
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    variances = np.geomspace(1e-2, 1e2, 10)
    covariance = axes @ np.diag(variances) @ axes.T
    precision = jnp.asarray(axes @ np.diag(1 / variances) @ axes.T, jnp.float32)
    return Problem(CorrelatedGaussian(precision), 10, np.zeros(10), np.diag(covariance))


def badly_scaled() -> Problem:
    """Ten independent normals with standard deviations from 0.1 to 10."""
    variances = np.geomspace(1e-2, 1e2, 10)
    return Problem(CorrelatedGaussian(jnp.asarray(np.diag(1 / variances), jnp.float32)), 10, np.zeros(10), variances)


def bananas() -> Problem:
    bend = 0.5
    square = np.array([1.0, 2.0 * bend**2 + 1.0] * 5)
    return Problem(Bananas(jnp.asarray(bend)), 10, np.zeros(10), square)


def student_t() -> Problem:
    degrees, scale = 12.0, np.geomspace(0.5, 4.0, 10)
    density = StudentT(jnp.asarray(degrees), jnp.asarray(scale, jnp.float32))
    return Problem(density, 10, np.zeros(10), scale**2 * degrees / (degrees - 2))


def logistic() -> Logistic:
    """Sixty rows of ten correlated inputs; its moments come from other libraries."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 10)) + 0.8 * rng.normal(size=(60, 1))
    truth = rng.normal(size=10)
    y = rng.random(60) < 1 / (1 + np.exp(-x @ truth))
    return Logistic(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32))


PROBLEMS = {
    "correlated": correlated,
    "badly scaled": badly_scaled,
    "bananas": bananas,
    "student-t": student_t,
}


def moments(draws: Any) -> tuple[np.ndarray, np.ndarray]:
    """Means of the coordinates and of their squares over `[chain, draw, dim]`, and their standard errors."""
    draws = np.asarray(draws, np.float64)
    quantities = np.concatenate([draws, draws**2], axis=2)
    error = array_stats.mcse(quantities, chain_axis=0, draw_axis=1, method="mean")
    return quantities.mean(axis=(0, 1)), np.asarray(error)


def z_scores(draws: Any, mean: np.ndarray, square: np.ndarray) -> np.ndarray:
    """(estimate - truth) / MCSE for every mean and every mean square."""
    estimate, error = moments(draws)
    return (estimate - np.concatenate([mean, square])) / error


def z_between(first: Any, second: Any) -> np.ndarray:
    """The same for two sets of draws."""
    (one, one_error), (other, other_error) = moments(first), moments(second)
    return (one - other) / np.hypot(one_error, other_error)
