"""Priors with a fixed distribution, independent for each weight."""

import abc
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._checks import is_number
from ergonet._errors import SettingError, shown
from ergonet._types import Array, PRNGKey
from ergonet.models.network import Leaf
from ergonet.models.precision import require_positive
from ergonet.models.prior.base import AbstractFixedPrior, AbstractPlainPrior, Hyperparameters
from ergonet.models.prior.density import Density

MOST_TOGETHER = 65_536  # a leaf with more weights is drawn by itself


class AbstractNormalPrior(AbstractFixedPrior):
    """A normal distribution for every weight of a leaf."""

    @abc.abstractmethod
    def moments(self, leaf: Leaf) -> tuple[float, float]:
        """Mean and standard deviation of every weight of the leaf."""

    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        mean, scale = self.moments(leaf)
        deviation = coordinates - mean if mean else coordinates
        return Density.of_normal(deviation, scale)

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self.scaled(jax.random.normal(key, leaf.shape, dtype), leaf)

    @property
    def draws_as_normal(self) -> bool:
        """Whether `scaled` may stand for `sample`, which a class of somebody else may have changed."""
        return type(self).sample is AbstractNormalPrior.sample and type(self).draw is AbstractFixedPrior.draw

    def scaled(self, noise: Array, leaf: Leaf) -> Array:
        """Weights from standard normal numbers."""
        mean, scale = self.moments(leaf)
        return mean + scale * noise


def standard_normals(keys: Sequence[PRNGKey], leaves: Sequence[Leaf], dtype: DTypeLike) -> list[Array]:
    """Standard normal numbers for each leaf, the same as those of `jax.random.normal` by its key.

    The compiler takes a tenth of a second for every call of a generator, so leaves of moderate size share one call: the
    first numbers of a longer array are those of a shorter one.
    """
    small = [index for index, leaf in enumerate(leaves) if leaf.size <= MOST_TOGETHER]
    rows: dict[int, Array] = {}
    if small:
        longest = max(leaves[index].size for index in small)
        several = jax.vmap(lambda key: jax.random.normal(key, (longest,), dtype))
        drawn = several(jnp.stack([keys[index] for index in small]))
        rows = dict(zip(small, jax.lax.optimization_barrier(drawn), strict=True))  # else every leaf would draw them all
    return [
        rows[index][: leaf.size].reshape(leaf.shape) if index in rows else jax.random.normal(key, leaf.shape, dtype)
        for index, (key, leaf) in enumerate(zip(keys, leaves, strict=True))
    ]


class Normal(AbstractNormalPrior):
    """w ~ N(mean, scale^2)."""

    scale: float = eqx.field(static=True)
    mean: float = eqx.field(static=True)

    def __init__(self, scale: float = 1.0, mean: float = 0.0):
        """Check and keep the settings.

        Args:
        scale: standard deviation, above 0.
        mean: any finite number.
        """
        self.scale = require_positive("Normal", "scale", scale)
        if not is_number(mean) or not math.isfinite(mean):
            raise SettingError(f"`Normal(mean=...)` must be a finite number, got {shown(mean)}.")
        self.mean = float(mean)

    def shares(self, path: str) -> str:
        return ""  # neighboring leaves share one inner product

    def moments(self, leaf: Leaf) -> tuple[float, float]:
        return self.mean, self.scale


class FanInNormal(AbstractNormalPrior):
    """w ~ N(0, scale^2 / fan_in), so that the variance of a layer's outputs does not depend on its width.

    Source: Neal1996, section 2.1.
    """

    scale: float = eqx.field(static=True)

    def __init__(self, scale: float = 1.0):
        """Check and keep the settings.

        Args:
        scale: standard deviation of the sum over a unit's inputs if these have variance 1, above 0.
        """
        self.scale = require_positive("FanInNormal", "scale", scale)

    def moments(self, leaf: Leaf) -> tuple[float, float]:
        return 0.0, self.scale / math.sqrt(leaf.fan_in)


class Laplace(AbstractFixedPrior):
    """w ~ Laplace(0, scale): density exp(-|w| / scale) / (2 scale)."""

    scale: float = eqx.field(static=True)

    def __init__(self, scale: float = 1.0):
        """Check and keep the settings.

        Args:
        scale: mean absolute deviation, above 0.
        """
        self.scale = require_positive("Laplace", "scale", scale)

    def _distribution(self) -> Any:
        from numpyro.distributions import Laplace as Distribution

        return Distribution(0.0, self.scale)

    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        return Density.of_terms(self._distribution().log_prob(coordinates))

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self._distribution().sample(key, leaf.shape).astype(dtype)


class StudentT(AbstractFixedPrior):
    """w = scale * t with t ~ Student-t of `degrees` degrees of freedom."""

    degrees: float = eqx.field(static=True)
    scale: float = eqx.field(static=True)

    def __init__(self, degrees: float = 4.0, scale: float = 1.0):
        """Check and keep the settings.

        Args:
        degrees: degrees of freedom, above 0.
        scale: above 0.
        """
        self.degrees = require_positive("StudentT", "degrees", degrees)
        self.scale = require_positive("StudentT", "scale", scale)

    def _distribution(self) -> Any:
        from numpyro.distributions import StudentT as Distribution

        return Distribution(self.degrees, 0.0, self.scale)

    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        return Density.of_terms(self._distribution().log_prob(coordinates))

    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self._distribution().sample(key, leaf.shape).astype(dtype)


class Uniform(AbstractPlainPrior):
    """w ~ Uniform(low, high).

    The coordinate is unconstrained: w = low + (high - low) / (1 + e^-coordinate).
    """

    low: float = eqx.field(static=True)
    high: float = eqx.field(static=True)

    def __init__(self, low: float = -1.0, high: float = 1.0):
        """Check and keep the settings.

        Args:
        low: a finite number.
        high: a finite number above `low`.
        """
        for name, value in (("low", low), ("high", high)):
            if not is_number(value) or not math.isfinite(value):
                raise SettingError(f"`Uniform({name}=...)` must be a finite number, got {shown(value)}.")
        if not low < high:
            raise SettingError(f"`Uniform(high=...)` must be above low = {low}, got {high}.")
        self.low, self.high = float(low), float(high)

    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        """Density of the coordinates, which are logistic for any bounds."""
        return Density.of_terms(self._coordinate().log_prob(coordinates))

    def weights(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        return self.low + (self.high - self.low) * jax.nn.sigmoid(coordinates)

    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self._coordinate().sample(key, leaf.shape).astype(dtype)

    def _coordinate(self) -> Any:
        from numpyro.distributions import Logistic

        return Logistic(0.0, 1.0)
