"""Small models whose posterior moments are known without a sampler.

Three of them are Gaussian given one scale, so that a sum over a fine grid of that scale gives all moments; the moments
of the logistic regression are averages over two million draws of importance sampling; those of the Gaussian are given.
Models and priors are those of posteriordb with the same name, except that data are simulated where it has larger files.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from scipy.special import expit
from scipy.stats import multivariate_t

GRID = np.linspace(-12.0, 12.0, 20001)  # logarithms of a scale
SCHOOLS_Y = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
SCHOOLS_SD = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


@dataclass(frozen=True)
class Moments:
    """Means of quantities and of their squares, with the standard errors of these numbers."""

    mean: np.ndarray
    square: np.ndarray
    mean_error: np.ndarray
    square_error: np.ndarray

    @classmethod
    def exact(cls, mean: np.ndarray, square: np.ndarray) -> "Moments":
        """Moments without error."""
        return cls(mean, square, np.zeros_like(mean), np.zeros_like(mean))


@dataclass(frozen=True)
class Model:
    """A model with known moments.

    Attributes:
        log_density: of an unconstrained position.
        dim: number of coordinates.
        moments: of the quantities.
        quantities: of positions `[..., dim]`; None: the positions.
        is_judged: False where samplers are known to fail, and the row is there to be seen.
    """

    log_density: Any
    dim: int
    moments: Moments
    quantities: Callable[[np.ndarray], np.ndarray] | None = None
    is_judged: bool = True


def _over_grid(log_weights: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Moments:
    """Moments of a mixture over the grid, of which the last quantity is the grid itself; `[grid, quantity]`."""
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = np.column_stack([mean, GRID])
    variance = np.column_stack([variance, np.zeros_like(GRID)])
    return Moments.exact(weights @ mean, weights @ (variance + mean**2))


def _half_cauchy(log_scale: Any, width: float, log: Callable[[Any], Any], exp: Callable[[Any], Any]) -> Any:
    """Log density of a scale's logarithm under a half-Cauchy distribution of the scale."""
    return log_scale - log(1 + exp(2 * log_scale) / width**2)


class Schools(eqx.Module):
    """Eight schools: effects theta ~ N(mu, tau); position theta or its standardized form, mu / 5, log tau."""

    y: Any
    sd: Any
    is_centered: bool = eqx.field(static=True)

    def __call__(self, q: Any) -> Any:
        first, mu, log_tau = q[:8], q[8], q[9]
        theta = first if self.is_centered else mu + jnp.exp(log_tau) * first
        standard = (first - mu) * jnp.exp(-log_tau) if self.is_centered else first
        prior = -0.5 * jnp.sum(standard**2) - (8 * log_tau if self.is_centered else 0.0)
        prior += -0.5 * (mu / 5) ** 2 + _half_cauchy(log_tau, 5.0, jnp.log, jnp.exp)
        return prior - 0.5 * jnp.sum(((self.y - theta) / self.sd) ** 2)


def _schools(*, is_centered: bool) -> Model:
    tau2 = np.exp(2 * GRID)[:, None]
    total = SCHOOLS_SD**2 + tau2
    precision = (1 / total).sum(1) + 1 / 25
    mu, mu_variance = (SCHOOLS_Y / total).sum(1) / precision, 1 / precision
    log_weights = -0.5 * np.log(total).sum(1) - 0.5 * np.log(precision) + 0.5 * mu**2 * precision
    log_weights += -0.5 * (SCHOOLS_Y**2 / total).sum(1) + _half_cauchy(GRID, 5.0, np.log, np.exp)
    pull = SCHOOLS_SD**2 / total  # of theta towards mu
    theta = (1 - pull) * SCHOOLS_Y + pull * mu[:, None]
    variance = pull * tau2 + pull**2 * mu_variance[:, None]
    moments = _over_grid(log_weights, np.column_stack([theta, mu]), np.column_stack([variance, mu_variance]))
    density = Schools(jnp.asarray(SCHOOLS_Y), jnp.asarray(SCHOOLS_SD), is_centered)

    def quantities(q: np.ndarray) -> np.ndarray:
        return np.concatenate([q[..., 8:9] + np.exp(q[..., 9:]) * q[..., :8], q[..., 8:]], axis=-1)

    return Model(density, 10, moments, None if is_centered else quantities, is_judged=not is_centered)


class Linear(eqx.Module):
    """Linear regression: coefficients ~ N(0, width), noise half-Cauchy; position coefficients, log noise."""

    x: Any
    y: Any
    width: Any
    noise_width: float = eqx.field(static=True)

    def __call__(self, q: Any) -> Any:
        residuals = (self.y - self.x @ q[:-1]) * jnp.exp(-q[-1])
        prior = -0.5 * jnp.sum((q[:-1] / self.width) ** 2) + _half_cauchy(q[-1], self.noise_width, jnp.log, jnp.exp)
        return prior - 0.5 * jnp.sum(residuals**2) - self.y.size * q[-1]


def _linear(x: np.ndarray, y: np.ndarray, width: float, noise_width: float) -> Model:
    x, y = x.astype(np.float32).astype(float), y.astype(np.float32).astype(float)
    squares, products = x.T @ x, x.T @ y
    values, axes = np.linalg.eigh(squares)
    noise2 = np.exp(2 * GRID)[:, None]
    precision = values / noise2 + 1 / width**2
    rotated = (axes.T @ products) / noise2 / precision
    log_weights = 0.5 * (rotated**2 * precision).sum(1) - 0.5 * np.log(precision).sum(1)
    log_weights += -0.5 * (y @ y) / noise2[:, 0] - y.size * GRID + _half_cauchy(GRID, noise_width, np.log, np.exp)
    moments = _over_grid(log_weights, rotated @ axes.T, (1 / precision) @ (axes.T**2))
    density = Linear(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(width), noise_width)
    return Model(density, x.shape[1] + 1, moments)


def _kidscore() -> Model:
    rng = np.random.default_rng(1)
    finished, intelligence = rng.random(434) < 0.79, rng.normal(100, 15, 434)
    x = np.column_stack([np.ones(434), finished, intelligence])
    return _linear(x, x @ [25.7, 5.9, 0.56] + rng.normal(0, 18, 434), 100.0, 2.5)


def _autoregression() -> Model:
    rng = np.random.default_rng(2)
    y = list(rng.normal(0, 0.3, 5))
    for _ in range(195):
        y.append(float(np.dot([0.5, -0.3, 0.2, 0.1, -0.2], y[:-6:-1]) + rng.normal(0, 0.3)))
    series = np.array(y)
    x = np.column_stack([np.ones(195), *(series[5 - lag : 200 - lag] for lag in range(1, 6))])
    return _linear(x, series[5:], 10.0, 2.5)


class Logistic(eqx.Module):
    """Logistic regression with N(0, 2.5) coefficients."""

    x: Any
    y: Any

    def __call__(self, q: Any) -> Any:
        outputs = self.x @ q
        return jnp.sum(self.y * outputs - jnp.logaddexp(0.0, outputs)) - 0.5 * jnp.sum((q / 2.5) ** 2)


def _logistic(draws: int = 2_000_000) -> Model:
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(300), rng.normal(size=(300, 4)) + 0.7 * rng.normal(size=(300, 1))])
    x = x.astype(np.float32).astype(float)
    y = (rng.random(300) < expit(x @ [-0.5, 1.0, -0.7, 0.3, 0.0])).astype(float)
    mode = np.zeros(5)
    hessian = np.eye(5)
    for _ in range(50):  # Newton's method
        p = expit(x @ mode)
        hessian = (x.T * (p * (1 - p))) @ x + np.eye(5) / 6.25
        mode = mode - np.linalg.solve(hessian, x.T @ (p - y) + mode / 6.25)
    proposal: Any = cast(Any, multivariate_t)(loc=mode, shape=np.linalg.inv(hessian), df=10, seed=rng)
    batches: list[tuple[np.ndarray, np.ndarray]] = []
    for _ in range(draws // 20000):
        q = np.asarray(proposal.rvs(20000))
        outputs = q @ x.T
        log = (y * outputs - np.logaddexp(0, outputs)).sum(1) - 0.5 * (q**2).sum(1) / 6.25
        batches.append((log - np.asarray(proposal.logpdf(q)), np.column_stack([q, q**2])))
    log_weights = np.concatenate([one for one, _ in batches])
    values = np.concatenate([one for _, one in batches])
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    mean = weights @ values
    error = np.sqrt(weights**2 @ (values - mean) ** 2)
    moments = Moments(mean[:5], mean[5:], error[:5], error[5:])
    return Model(Logistic(jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)), 5, moments)


class Gaussian(eqx.Module):
    """A normal density with a precision matrix."""

    precision: Any
    mean: Any

    def __call__(self, q: Any) -> Any:
        return -0.5 * (q - self.mean) @ (self.precision @ (q - self.mean))


def _gaussian() -> Model:
    rng = np.random.default_rng(4)
    axes = np.linalg.qr(rng.normal(size=(20, 20)))[0]
    variances, mean = np.geomspace(0.1, 10, 20), rng.normal(size=20)
    precision = jnp.asarray(axes @ np.diag(1 / variances) @ axes.T, jnp.float32)
    square = np.diag(axes @ np.diag(variances) @ axes.T) + mean**2
    return Model(Gaussian(precision, jnp.asarray(mean, jnp.float32)), 20, Moments.exact(mean, square))


MODELS: dict[str, Callable[[], Model]] = {
    "eight schools, centered": lambda: _schools(is_centered=True),
    "eight schools, non-centered": lambda: _schools(is_centered=False),
    "arK": _autoregression,
    "kidscore": _kidscore,
    "logistic regression": _logistic,
    "correlated Gaussian": _gaussian,
}
