"""Likelihoods of real targets: with heavy tails, above 0, or between 0 and 1."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.transforms import AffineTransform

from ergonet._errors import SettingError
from ergonet._types import Array
from ergonet.models.likelihood import Outputs
from ergonet.models.likelihoods.distribution import AbstractDistribution, DistributionFunction, PerTarget
from ergonet.models.likelihoods.incomplete_beta import incomplete_beta
from ergonet.models.likelihoods.learned import Values
from ergonet.models.precision import require_positive

LEAST_DEGREES = 2.0  # where the variance is still infinite
_EDGE = 1e-7


def known_or_prior(owner: str, name: str, value: float | None, prior: Distribution) -> dict[str, Distribution]:
    """The prior of a parameter by name, or nothing if its value, which must be above 0, is known."""
    if value is None:
        return {name: prior}
    require_positive(owner, name, value)
    return {}


class StudentT(AbstractDistribution):
    """Real targets with heavy tails: y ~ output + scale * t(degrees), robust against outliers; one output per target.

    Attributes:
        scale: known scale, above 0, in the units of y; None: learned, with the prior LogNormal(log 0.3, 1.5).
        degrees: known degrees of freedom, above 2; None: learned, 2 plus Gamma(2, 0.1), so that variances exist.
    """

    scale: float | None = eqx.field(static=True, default=None)
    degrees: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        self.priors()
        if self.degrees is not None and self.degrees <= LEAST_DEGREES:
            raise SettingError(
                f"`StudentT(degrees=...)` must be above 2, or variances are infinite, got {self.degrees}."
            )

    def priors(self) -> Mapping[str, Distribution]:
        above = AffineTransform(LEAST_DEGREES, 1.0, domain=constraints.positive)
        degrees = dist.TransformedDistribution(dist.Gamma(2.0, 0.1), above)
        scale = known_or_prior("StudentT", "scale", self.scale, dist.LogNormal(math.log(0.3), 1.5))
        return scale | known_or_prior("StudentT", "degrees", self.degrees, degrees)

    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        scale, degrees = learned.get("scale", self.scale), learned.get("degrees", self.degrees)
        return dist.StudentT(degrees, f[0], scale)

    def distribution_function(self, found: Any, outputs: Outputs) -> DistributionFunction:
        def function(value: Array) -> Array:
            error = (value - found.loc) / found.scale
            degrees = jnp.broadcast_to(found.df, error.shape)
            front = jnp.exp(found.log_prob(value)) * found.scale * jnp.abs(error)
            squares, half = degrees + error**2, jnp.full_like(error, 0.5)
            rest = error**2 / squares
            tail = 0.5 * incomplete_beta(0.5 * degrees, half, degrees / squares, rest=rest, front=front)
            return jnp.where(error > 0, 1 - tail, tail)

        return function


class LogNormal(AbstractDistribution):
    """Targets above 0 with errors in proportion to their size: log y ~ N(output, scale^2); one output per target.

    Attributes:
        scale: known standard deviation of log y, above 0; None: learned, with the prior LogNormal(log 0.3, 1.5).
    """

    scale: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        self.priors()

    def priors(self) -> Mapping[str, Distribution]:
        return known_or_prior("LogNormal", "scale", self.scale, dist.LogNormal(math.log(0.3), 1.5))

    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        return dist.LogNormal(f[0], learned.get("scale", self.scale))


class Beta(AbstractDistribution):
    """Targets strictly between 0 and 1, such as shares: Beta with mean sigmoid(output); one output per target.

    Float32 cannot tell shares above 1 - 1e-7 apart. Where the concentration is below 1, simulated shares often lie
    there and are rounded, which `ergonet.checking.check` sees with thousands of replicas: give it a known
    concentration.

    Attributes:
        concentration: known sum of the two parameters of the Beta, above 0: the variance is m (1 - m) / (1 +
            concentration) for the mean m; None: learned, with the prior LogNormal(log 10, 1.5).
    """

    concentration: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        self.priors()

    def priors(self) -> Mapping[str, Distribution]:
        prior = dist.LogNormal(math.log(10.0), 1.5)
        return known_or_prior("Beta", "concentration", self.concentration, prior)

    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        concentration = jnp.asarray(learned.get("concentration", self.concentration))
        return dist.Beta(concentration * jax.nn.sigmoid(f[0]), concentration * jax.nn.sigmoid(-f[0]))

    def distribution_function(self, found: Any, outputs: Outputs) -> DistributionFunction:
        def function(value: Array) -> Array:
            inside = jnp.clip(value, _EDGE, 1 - _EDGE)
            front = jnp.exp(found.log_prob(inside)) * inside * (1 - inside)
            between = incomplete_beta(found.concentration1, found.concentration0, inside, rest=1 - inside, front=front)
            return jnp.where(value <= 0, 0.0, jnp.where(value >= 1, 1.0, between))

        return function
