"""Horseshoe priors: strong shrinkage of most weights toward zero, little shrinkage of a few.

A half-Cauchy scale is sampled as a product, s = a sqrt(g) with a half-normal and g inverse gamma(1/2, 1/2); the
coordinates are the logarithms of the factors, which have light tails (Lau2018, section 3.4.1, which multiplies by g
where its square root is meant; PiironenVehtari2017, appendix C).
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._errors import CapabilityError
from ergonet._types import Array, PRNGKey
from ergonet.models.network import Leaf
from ergonet.models.precision import require_positive
from ergonet.models.prior.base import AbstractPrior, Hyperparameters
from ergonet.models.prior.density import Density
from ergonet.models.prior.groups import BY_INPUT, Group, layer_of, resolve_group
from ergonet.models.prior.parametrization import AbstractParametrization, Centered
from ergonet.models.registry import PARAMETRIZATIONS

LOCAL, GLOBAL, SLAB = "local", "global", "log_slab_variance"
HALF_NORMAL, INVERSE_GAMMA = "log_half_normal", "log_inverse_gamma"


class AbstractHorseshoe(AbstractPrior):
    """w ~ N(0, s^2), where s combines a local half-Cauchy scale of each group with a global half-Cauchy scale."""

    scale: eqx.AbstractVar[float]
    group: eqx.AbstractVar[Group]
    parametrization: eqx.AbstractVar[AbstractParametrization]

    @abc.abstractmethod
    def log_scale(self, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        """Log s, broadcasting against the weights."""

    @abc.abstractmethod
    def extra(self) -> dict[str, Any]:
        """Distributions of additional scalar hyperparameters by name; the coordinates are their logarithms."""

    def shares(self, path: str) -> str:
        return layer_of(path) if self.group.name == "layer" else path

    def hyperparameters(self, leaf: Leaf) -> dict[str, Leaf]:
        local, one = self.group.outside(leaf, type(self).__name__), Leaf(shape=(), fan_in=1)
        own = {f"{LOCAL}.{part}": local for part in (HALF_NORMAL, INVERSE_GAMMA)}
        own |= {f"{GLOBAL}.{part}": one for part in (HALF_NORMAL, INVERSE_GAMMA)}
        return own | dict.fromkeys(self.extra(), one)

    def _distributions(self) -> dict[str, Any]:
        from numpyro.distributions import HalfNormal, InverseGamma

        half = {f"{place}.{HALF_NORMAL}": HalfNormal(1.0) for place in (LOCAL, GLOBAL)}
        return half | {f"{place}.{INVERSE_GAMMA}": InverseGamma(0.5, 0.5) for place in (LOCAL, GLOBAL)} | self.extra()

    def log_half_cauchy(self, hyperparameters: Hyperparameters, place: str) -> Array:
        """Logarithm of a standard half-Cauchy scale."""
        return hyperparameters[f"{place}.{HALF_NORMAL}"] + 0.5 * hyperparameters[f"{place}.{INVERSE_GAMMA}"]

    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        log_scale = self.log_scale(hyperparameters, leaf)
        return self.parametrization.density(coordinates, log_scale, jnp.exp(log_scale))

    def own_terms(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        return [
            (distribution.log_prob(jnp.exp(hyperparameters[name])) + hyperparameters[name]).reshape(-1)
            for name, distribution in self._distributions().items()
        ]

    def weights(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        return self.parametrization.weights(coordinates, jnp.exp(self.log_scale(hyperparameters, leaf)))

    def draw_own(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        own, distributions = self.hyperparameters(leaf), self._distributions()
        keys = jax.random.split(key, len(own))
        return {
            name: jnp.log(jnp.maximum(distributions[name].sample(one, own[name].shape), jnp.finfo(dtype).tiny))
            for one, name in zip(keys, own, strict=True)
        }

    def initial_values(self, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        """All factors at 1."""
        return {name: jnp.zeros(one.shape, dtype) for name, one in self.hyperparameters(leaf).items()}

    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        scale = jnp.exp(self.log_scale(hyperparameters, leaf))
        return self.parametrization.draw(jax.random.normal(key, leaf.shape, dtype), scale)

    def __repr__(self) -> str:
        word = "centered" if isinstance(self.parametrization, Centered) else "non-centered"
        return f"{type(self).__name__}({self.scale:g}, {self.group.name!r}, {word!r})"

    def scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        log_scale = self.log_scale(hyperparameters, leaf).reshape(hyperparameters[f"{LOCAL}.{HALF_NORMAL}"].shape)
        overall = self.scale * jnp.exp(self.log_half_cauchy(hyperparameters, GLOBAL))
        return {"global": overall, self.group.name: jnp.exp(log_scale)}

    @property
    def by_input(self) -> bool:
        return self.group.name in BY_INPUT

    @property
    def lacks_conjugacy(self) -> str:
        return f"`{type(self).__name__}` has no conditional distribution in closed form"

    def gibbs(self, key: PRNGKey, weights: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        raise CapabilityError(f"{self.lacks_conjugacy}; sample it jointly, with `NUTS()`.")


class Horseshoe(AbstractHorseshoe):
    """w ~ N(0, (t l)^2), with local scales l ~ half-Cauchy(1) and a global scale t ~ half-Cauchy(scale).

    With `group="weight"` this is the plain horseshoe, with `incoming` or `outgoing` the horseshoe ARD. Source:
    CarvalhoPolsonScott2010; Lau2018, sections 3.4.1 and 3.4.2.
    """

    scale: float = eqx.field(static=True)
    group: Group
    parametrization: AbstractParametrization

    def __init__(
        self,
        scale: float = 1.0,
        group: str = "weight",
        parametrization: str | AbstractParametrization = "non-centered",
    ):
        """Check and keep the settings.

        Args:
            scale: scale of the global half-Cauchy distribution, above 0.
            group: which weights share a local scale; see `NormalGamma`.
            parametrization: `centered` or `non-centered`, or an object.

        Raises:
            SettingError: a setting is out of its range.
        """
        self.scale = require_positive("Horseshoe", "scale", scale)
        self.group = resolve_group("Horseshoe", group)
        self.parametrization = PARAMETRIZATIONS.resolve(parametrization, owner="Horseshoe")

    def extra(self) -> dict[str, Any]:
        return {}

    def log_scale(self, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        local = self.group.inside(self.log_half_cauchy(hyperparameters, LOCAL), leaf, "Horseshoe")
        return math.log(self.scale) + self.log_half_cauchy(hyperparameters, GLOBAL) + local


class RegularizedHorseshoe(AbstractHorseshoe):
    """The horseshoe with a slab: s^2 = c^2 (t l)^2 / (c^2 + (t l)^2), c^2 ~ inverse gamma.

    Weights that escape the shrinkage of the horseshoe are N(0, c^2). Source: PiironenVehtari2017; Lau2018, section
    3.4.1.
    """

    scale: float = eqx.field(static=True)
    group: Group
    parametrization: AbstractParametrization
    slab_shape: float = eqx.field(static=True)
    slab_rate: float = eqx.field(static=True)

    def __init__(
        self,
        scale: float = 1.0,
        group: str = "weight",
        parametrization: str | AbstractParametrization = "non-centered",
        *,
        slab_shape: float = 2.0,
        slab_rate: float = 8.0,
    ):
        """Check and keep the settings.

        Args:
            scale: scale of the global half-Cauchy distribution, above 0.
            group: which weights share a local scale; see `NormalGamma`.
            parametrization: `centered` or `non-centered`, or an object.
            slab_shape: shape of the inverse gamma distribution of c^2, above 0.
            slab_rate: rate of that distribution, above 0.

        Raises:
            SettingError: a setting is out of its range.
        """
        self.scale = require_positive("RegularizedHorseshoe", "scale", scale)
        self.group = resolve_group("RegularizedHorseshoe", group)
        self.parametrization = PARAMETRIZATIONS.resolve(parametrization, owner="RegularizedHorseshoe")
        self.slab_shape = require_positive("RegularizedHorseshoe", "slab_shape", slab_shape)
        self.slab_rate = require_positive("RegularizedHorseshoe", "slab_rate", slab_rate)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, slab_shape={self.slab_shape:g}, slab_rate={self.slab_rate:g})"

    def extra(self) -> dict[str, Any]:
        from numpyro.distributions import InverseGamma

        return {SLAB: InverseGamma(self.slab_shape, self.slab_rate)}

    def scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        return super().scales(hyperparameters, leaf) | {"slab": jnp.exp(0.5 * hyperparameters[SLAB])}

    def log_scale(self, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        local = self.group.inside(self.log_half_cauchy(hyperparameters, LOCAL), leaf, "RegularizedHorseshoe")
        free = 2 * (math.log(self.scale) + self.log_half_cauchy(hyperparameters, GLOBAL) + local)
        slab = hyperparameters[SLAB]
        return -0.5 * jnp.logaddexp(-slab, -free)
