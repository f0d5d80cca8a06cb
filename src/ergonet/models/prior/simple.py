"""Priors that are one fixed distribution for each weight."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._errors import SettingError
from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.network import Leaf


class AbstractPrior(eqx.Module):
    """The distribution of all weights of a leaf."""

    @abc.abstractmethod
    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        """Summed log density of a leaf's weights, normalised."""

    @abc.abstractmethod
    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        """A draw of a leaf's weights."""


def _positive(owner: str, name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise SettingError(f"`{owner}({name}=...)` must be a finite number above 0, got {value!r}.")
    return float(value)


def _normal_log_prob(weights: Array, mean: float, scale: float) -> Scalar:
    """Summed log density of N(mean, scale^2), as one inner product (cheaper than a sum of terms)."""
    flat = weights.reshape(-1)
    deviation = flat - mean if mean else flat
    constant = weights.size * (0.5 * math.log(2 * math.pi) + math.log(scale))
    return -0.5 / scale**2 * jnp.dot(deviation, deviation) - constant


class Normal(AbstractPrior):
    """w ~ N(mean, scale^2)."""

    scale: float = eqx.field(static=True)
    mean: float = eqx.field(static=True)

    def __init__(self, scale: float = 1.0, mean: float = 0.0):
        """Check and keep the settings.

        Args:
        scale: standard deviation, above 0.
        mean: any finite number.
        """
        self.scale = _positive("Normal", "scale", scale)
        if isinstance(mean, bool) or not isinstance(mean, int | float) or not math.isfinite(mean):
            raise SettingError(f"`Normal(mean=...)` must be a finite number, got {mean!r}.")
        self.mean = float(mean)

    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        return _normal_log_prob(weights, self.mean, self.scale)

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self.mean + self.scale * jax.random.normal(key, leaf.shape, dtype)


class FanInNormal(AbstractPrior):
    """w ~ N(0, scale^2 / fan_in), which keeps the variance of a layer's outputs whatever its width."""

    scale: float = eqx.field(static=True)

    def __init__(self, scale: float = 1.0):
        """Check and keep the settings.

        Args:
        scale: standard deviation of the sum over a unit's inputs, above 0.
        """
        self.scale = _positive("FanInNormal", "scale", scale)

    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        return _normal_log_prob(weights, 0.0, self.scale / math.sqrt(leaf.fan_in))

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self.scale / math.sqrt(leaf.fan_in) * jax.random.normal(key, leaf.shape, dtype)


class Laplace(AbstractPrior):
    """w ~ Laplace(0, scale): density exp(-|w| / scale) / (2 scale)."""

    scale: float = eqx.field(static=True)

    def __init__(self, scale: float = 1.0):
        """Check and keep the settings.

        Args:
        scale: mean absolute deviation, above 0.
        """
        self.scale = _positive("Laplace", "scale", scale)

    def _distribution(self) -> Any:
        from numpyro.distributions import Laplace as Distribution

        return Distribution(0.0, self.scale)

    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        return jnp.sum(self._distribution().log_prob(weights))

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self._distribution().sample(key, leaf.shape).astype(dtype)


class StudentT(AbstractPrior):
    """w = scale * t with t ~ Student-t of `degrees` degrees of freedom."""

    degrees: float = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(self, degrees: float = 4.0, scale: float = 1.0):
        """Check and keep the settings.

        Args:
        degrees: degrees of freedom, above 0.
        scale: above 0.
        """
        self.degrees = _positive("StudentT", "degrees", degrees)
        self.scale = _positive("StudentT", "scale", scale)

    def _distribution(self) -> Any:
        from numpyro.distributions import StudentT as Distribution

        return Distribution(self.degrees, 0.0, self.scale)

    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        return jnp.sum(self._distribution().log_prob(weights))

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self._distribution().sample(key, leaf.shape).astype(dtype)
