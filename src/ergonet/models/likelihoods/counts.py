"""Likelihoods of counts, whose log densities stay finite and accurate at extreme outputs."""

import abc
import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.special import gammaln
from numpyro.distributions import Distribution

from ergonet._types import Array
from ergonet.models.likelihood import Outputs, Targets
from ergonet.models.likelihoods.distribution import AbstractDistribution, DistributionFunction, PerTarget
from ergonet.models.likelihoods.incomplete_beta import incomplete_beta
from ergonet.models.likelihoods.learned import Values
from ergonet.models.likelihoods.reals import known_or_prior
from ergonet.models.precision import require_positive

LEAST_DISPERSION = (
    1e-5  # below, NumPyro's distribution function loses accuracy, and the Poisson distribution is as close
)
LARGEST_LOG_MEAN = 40.0  # of predictions, whose variances float32 holds
SERIES = 8.0  # where Stirling's series is accurate to float32


class _Counts(AbstractDistribution):
    """Base of likelihoods of counts whose first output is the logarithm of the mean, up to a unit."""

    unit: eqx.AbstractVar[float]

    def log_mean(self, f: PerTarget) -> Array:
        """Logarithm of the mean count, before zeros are added."""
        return f[0] + math.log(self.unit)

    def predicted_mean(self, f: PerTarget) -> Array:
        """The mean count, before zeros are added, bounded so that predictions for rows far out stay finite."""
        return jnp.exp(jnp.minimum(self.log_mean(f), LARGEST_LOG_MEAN))


class Poisson(_Counts):
    """Counts with mean and variance unit * exp(output); one output per target.

    Attributes:
        unit: mean count where the output is 0, above 0. The estimators and the command take the mean of the training
            rows.
    """

    unit: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        require_positive("Poisson", "unit", self.unit)

    def priors(self) -> Mapping[str, Distribution]:
        return {}

    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        return dist.Poisson(self.predicted_mean(f))

    def log_density(self, f: PerTarget, learned: Values, targets: Targets) -> Targets:
        return poisson_log_density(targets, self.log_mean(f))


class NegativeBinomial(_Counts):
    """Counts with mean m = unit * exp(output) and variance m + dispersion * m^2; one output per target.

    Attributes:
        dispersion: known dispersion, above 0, where 0 would be Poisson; None: learned, with the prior Exponential(1).
        unit: mean count where the output is 0, above 0. The estimators and the command take the mean of the training
            rows.
    """

    dispersion: float | None = eqx.field(static=True, default=None)
    unit: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        require_positive("NegativeBinomial", "unit", self.unit)
        self.priors()

    def priors(self) -> Mapping[str, Distribution]:
        return known_or_prior("NegativeBinomial", "dispersion", self.dispersion, dist.Exponential(1.0))

    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        dispersion = jnp.asarray(learned.get("dispersion", self.dispersion))
        return dist.NegativeBinomial2(self.predicted_mean(f), 1 / jnp.maximum(dispersion, LEAST_DISPERSION))

    def log_density(self, f: PerTarget, learned: Values, targets: Targets) -> Targets:
        dispersion = jnp.asarray(learned.get("dispersion", self.dispersion))
        return negative_binomial_log_density(targets, self.log_mean(f), dispersion)

    def distribution_function(self, found: Any, outputs: Outputs) -> DistributionFunction:
        mean, size = found.mean, found.concentration

        def function(value: Array) -> Array:
            count, share = jnp.maximum(jnp.floor(value), 0.0), mean / (size + mean)
            log_density = negative_binomial_log_density(count, jnp.log(mean), 1 / size)
            front = jnp.exp(log_density + jnp.log(share) + jnp.log(size + count))
            beyond = incomplete_beta(count + 1, size, share, rest=size / (size + mean), front=front)
            return jnp.where(value < 0, 0.0, 1 - beyond)

        return function


class _ZeroInflated(_Counts):
    """Base of counts with zeros beyond those of their distribution; the second output is the logit of their share."""

    @property
    def outputs_per_target(self) -> int:
        return 2

    @abc.abstractmethod
    def counts(self) -> _Counts:
        """The distribution of the counts that are not extra zeros."""

    def priors(self) -> Mapping[str, Distribution]:
        return self.counts().priors()

    def distribution(self, f: PerTarget, learned: Values) -> Distribution:
        return dist.ZeroInflatedDistribution(self.counts().distribution(f[:1], learned), gate_logits=f[1])

    def log_density(self, f: PerTarget, learned: Values, targets: Targets) -> Targets:
        own = self.counts().log_density(f[:1], learned, targets) + jax.nn.log_sigmoid(-f[1])
        return jnp.where(targets == 0, jnp.logaddexp(jax.nn.log_sigmoid(f[1]), own), own)

    def distribution_function(self, found: Any, outputs: Outputs) -> DistributionFunction:
        own = self.counts().distribution_function(found.base_dist, outputs)
        return lambda value: jnp.where(value < 0, 0.0, found.gate + (1 - found.gate) * own(value))


class ZeroInflatedPoisson(_ZeroInflated):
    """Poisson counts with extra zeros; two outputs per target: logarithm of the mean, logit of the extra zeros.

    Attributes:
        unit: as of `Poisson`.
    """

    unit: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        self.counts()

    def counts(self) -> _Counts:
        return Poisson(unit=self.unit)


class ZeroInflatedNegativeBinomial(_ZeroInflated):
    """Negative binomial counts with extra zeros; two outputs per target: logarithm of the mean, logit of the zeros.

    Attributes:
        dispersion: as of `NegativeBinomial`.
        unit: as of `NegativeBinomial`.
    """

    dispersion: float | None = eqx.field(static=True, default=None)
    unit: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        self.counts()

    def counts(self) -> _Counts:
        return NegativeBinomial(dispersion=self.dispersion, unit=self.unit)


def poisson_log_density(count: Array, log_mean: Array) -> Array:
    """Log probability of a count; finite wherever exp(log_mean) is."""
    return count * log_mean - jnp.exp(log_mean) - gammaln(count + 1)


def negative_binomial_log_density(count: Array, log_mean: Array, dispersion: Array) -> Array:
    """Log probability of a count; finite for every mean, and the Poisson limit is reached without cancellation.

    With r = 1 / dispersion, log Gamma(k + r) - log Gamma(r) is (r - 1/2) log(1 + k / r) + k log(r + k) - k + c(r + k) -
    c(r), where c is the rest of Stirling's series; what grows with r is combined with the other terms.
    """
    over = jax.nn.softplus(log_mean + jnp.log(dispersion))  # log(1 + mean * dispersion)
    share = jnp.log1p(count * dispersion)
    size = 1 / dispersion
    safe = jnp.maximum(size, SERIES)
    series = (safe - 0.5) * jnp.log1p(count / safe) - count + _rest(safe + count) - _rest(safe) + count * share
    plain = (
        gammaln(count + jnp.minimum(size, SERIES)) - gammaln(jnp.minimum(size, SERIES)) + count * jnp.log(dispersion)
    )
    return jnp.where(size >= SERIES, series, plain) + count * (log_mean - over) - over / dispersion - gammaln(count + 1)


def _rest(x: Array) -> Array:
    """What log Gamma(x) adds to (x - 1/2) log x - x + log(2 pi) / 2, for x of at least 8."""
    return (1 / 12 - (1 / 360 - 1 / (1260 * x * x)) / (x * x)) / x
