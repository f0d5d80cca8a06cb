"""Likelihoods: the distribution of a row's target given the network's outputs for it.

Outputs are `[outputs, rows]` and prepared targets `[targets, rows]` (rows last, as inside a network). A likelihood may
have parameters of its own, such as a noise precision; they are coordinates of the position after the weights.
"""

import abc
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._checks import is_number
from ergonet._errors import SettingError, shown
from ergonet._types import AnyArray, Array, Bool, Float, PRNGKey, Scalar
from ergonet.models.checked import deviations_of, real_targets
from ergonet.models.network import Leaf, Weights
from ergonet.models.precision import GammaPrecision as GammaPrecision  # noqa: PLC0414 - a public name of this module

Outputs = Float[Array, "outputs rows"]
Targets = Float[Array, "targets rows"]
PerRow = Float[Array, "rows"]
Flags = Bool[Array, "rows"]

_LOG_TWO_PI = math.log(2 * math.pi)
_LOG_PEAK_OF_T = math.log(3 / 8)  # of the density with 4 degrees of freedom


class AbstractLikelihood(eqx.Module):
    """The distribution of the targets of a row."""

    is_classification: ClassVar[bool]

    @property
    def is_discrete(self) -> bool:
        """Whether real targets are whole numbers, each with a probability of its own."""
        return False

    @property
    def lacks_conjugacy(self) -> str:
        """Why there are no Gibbs draws of the parameters; empty if there are."""
        return ""

    @property
    def calibration(self) -> tuple[AnyArray, AnyArray] | None:
        """Temperature and label noise of predicted class probabilities; None: they are those of the posterior."""
        return None

    @abc.abstractmethod
    def num_outputs(self, num_targets: int) -> int:
        """Network outputs for this many targets (classes, for a classification)."""

    @abc.abstractmethod
    def prepare(self, y: Any, num_outputs: int) -> Targets:
        """Targets `[targets, rows]`; raises `DataError` if they do not match the likelihood or the network."""

    @abc.abstractmethod
    def leaves(self) -> dict[str, Leaf]:
        """Coordinates of the likelihood's parameters, by path."""

    @abc.abstractmethod
    def log_prior(self, parameters: Weights) -> Scalar:
        """Prior log density of these coordinates, including Jacobians."""

    @abc.abstractmethod
    def sample_prior(self, key: PRNGKey, dtype: DTypeLike) -> dict[str, Array]:
        """Draw these coordinates from their prior."""

    @abc.abstractmethod
    def initial_values(self, dtype: DTypeLike) -> dict[str, Array]:
        """Values of these coordinates around which chains start."""

    @abc.abstractmethod
    def scales(self, parameters: Weights) -> dict[str, Array]:
        """Learned standard deviations of the noise by name; for reports."""

    @abc.abstractmethod
    def gibbs(self, key: PRNGKey, outputs: Outputs, targets: Targets, is_row: Flags | None) -> dict[str, Array]:
        """Draw these coordinates given the outputs for all rows for which `is_row`; others are padding; None: all."""

    @abc.abstractmethod
    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        """Log density (or log probability) of each row, normalized."""

    @abc.abstractmethod
    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        """E[target] by row: class probabilities `[classes, rows]`, or means `[targets, rows]`."""

    @abc.abstractmethod
    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        """Var[target] given the weights, in the shape of `mean`."""

    @abc.abstractmethod
    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        """P(target <= value) by row and target, for quantiles of predictive mixtures."""

    @abc.abstractmethod
    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        """Quantile of each target at this probability, given the weights."""

    @abc.abstractmethod
    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        """Draw the targets of every row."""

    @abc.abstractmethod
    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        """Quantities on which convergence in function space is judged: log probabilities or means."""


class NoParameters(AbstractLikelihood):
    """Base of likelihoods without parameters of their own."""

    def leaves(self) -> dict[str, Leaf]:
        return {}

    def log_prior(self, parameters: Weights) -> Scalar:
        return jnp.zeros(())

    def sample_prior(self, key: PRNGKey, dtype: DTypeLike) -> dict[str, Array]:
        return {}

    def initial_values(self, dtype: DTypeLike) -> dict[str, Array]:
        return {}

    def scales(self, parameters: Weights) -> dict[str, Array]:
        return {}

    def gibbs(self, key: PRNGKey, outputs: Outputs, targets: Targets, is_row: Flags | None) -> dict[str, Array]:
        return {}


LOG_PRECISION = "likelihood.log_precision"


class Gaussian(AbstractLikelihood):
    """Real targets with constant noise: y ~ N(output, noise^2), one output per target."""

    is_classification: ClassVar[bool] = False
    noise: float | GammaPrecision

    def __init__(self, noise: float | GammaPrecision | None = None):
        """Check and keep the settings.

        Args:
            noise: the known noise standard deviation, above 0, in the units of y; or the prior of learned noise (None:
                `GammaPrecision()`), which is sampled as the coordinate `likelihood.log_precision`.
        """
        noise = GammaPrecision() if noise is None else noise
        if not isinstance(noise, GammaPrecision) and not (is_number(noise) and 0 < noise < math.inf):
            raise SettingError(
                f"`Gaussian(noise=...)` must be a standard deviation above 0 or a `GammaPrecision`, got {shown(noise)}."
            )
        self.noise = noise if isinstance(noise, GammaPrecision) else float(noise)

    def num_outputs(self, num_targets: int) -> int:
        return num_targets

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        return real_targets(y, num_outputs, "Gaussian()")

    def leaves(self) -> dict[str, Leaf]:
        return {LOG_PRECISION: Leaf(shape=(), fan_in=1)} if isinstance(self.noise, GammaPrecision) else {}

    def log_prior(self, parameters: Weights) -> Scalar:
        if isinstance(self.noise, GammaPrecision):
            return self.noise.log_prob(parameters[LOG_PRECISION])
        return jnp.zeros(())

    def sample_prior(self, key: PRNGKey, dtype: DTypeLike) -> dict[str, Array]:
        return {LOG_PRECISION: self.noise.sample(key, dtype)} if isinstance(self.noise, GammaPrecision) else {}

    def initial_values(self, dtype: DTypeLike) -> dict[str, Array]:
        """The noise at its prior mean precision."""
        if isinstance(self.noise, GammaPrecision):
            return {LOG_PRECISION: jnp.full((), self.noise.log_mean, dtype)}
        return {}

    def gibbs(self, key: PRNGKey, outputs: Outputs, targets: Targets, is_row: Flags | None) -> dict[str, Array]:
        if isinstance(self.noise, GammaPrecision):
            errors, count = targets - outputs, targets.size
            if is_row is not None:
                errors, count = jnp.where(is_row, errors, 0), targets.shape[0] * jnp.sum(is_row, dtype=errors.dtype)
            squares = jnp.sum(errors**2)
            return {LOG_PRECISION: self.noise.conditional(key, count, squares)}
        return {}

    def scales(self, parameters: Weights) -> dict[str, Array]:
        return {"noise": self.scale(parameters)} if isinstance(self.noise, GammaPrecision) else {}

    def scale(self, parameters: Weights) -> Array:
        """The noise standard deviation."""
        if isinstance(self.noise, GammaPrecision):
            return jnp.exp(-0.5 * parameters[LOG_PRECISION])
        return jnp.asarray(self.noise)

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        scale = self.scale(parameters)
        residual = (targets - outputs) / scale
        return -0.5 * jnp.sum(residual**2, axis=0) - outputs.shape[0] * (jnp.log(scale) + 0.5 * _LOG_TWO_PI)

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return outputs

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        return jnp.broadcast_to(self.scale(parameters) ** 2, outputs.shape)

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        return jax.scipy.stats.norm.cdf(value, outputs, self.scale(parameters))

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        return outputs + self.scale(parameters) * jax.scipy.stats.norm.ppf(probability)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        return outputs + self.scale(parameters) * jax.random.normal(key, outputs.shape, outputs.dtype)

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        return outputs


class AbstractHeteroscedastic(NoParameters):
    """Real targets with noise that depends on the inputs.

    There are two outputs per target: first the locations, then the log precisions. The squared scale is
    floor^2 + 1 / (exp(output) + ceiling^-2), so that the density of a row never exceeds that of the floor. Without a
    floor it has no bound: where targets repeat exactly, such as grades, a network can state them with a vanishing
    scale. Without a ceiling a few draws may state noise of a million scales for rows that are unlike the training rows,
    and locations as far off without a reach: those beyond it, m, become sign(m) (2 - reach / |m|) reach.
    """

    is_classification: ClassVar[bool] = False
    floor: Any = None
    ceiling: Any = None
    reach: Any = None

    def __init__(
        self,
        floor: float | Sequence[float] | None = None,
        ceiling: float | Sequence[float] | None = None,
        reach: float | Sequence[float] | None = None,
    ):
        """Check and keep the settings.

        Args:
            floor: the smallest scale of the noise, above 0, in the units of y: a number, or one for each target; None:
                no bound. Values that are rounded to multiples of r differ from the true ones by about r / sqrt(12).
            ceiling: the largest scale, but for the floor, in the same form; None: no bound.
            reach: distance from 0 up to which locations are the outputs, in the same form; no location is twice as
                far. None: no bound.

        Raises:
            SettingError: one of them is neither.
        """
        owner = type(self).__name__
        self.floor = None if floor is None else deviations_of(floor, f"{owner}(floor=...)")
        self.ceiling = None if ceiling is None else deviations_of(ceiling, f"{owner}(ceiling=...)")
        self.reach = None if reach is None else deviations_of(reach, f"{owner}(reach=...)")

    def num_outputs(self, num_targets: int) -> int:
        return 2 * num_targets

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        owner = type(self).__name__
        if num_outputs % 2:
            raise SettingError(f"`{owner}()` needs two outputs per target (mean, log precision), got {num_outputs}.")
        for name, bound in (("floor", self.floor), ("ceiling", self.ceiling), ("reach", self.reach)):
            if bound is not None and bound.ndim and len(bound) != num_outputs // 2:
                raise SettingError(f"`{owner}({name}=...)` has {len(bound)} numbers for {num_outputs // 2} targets.")
        return real_targets(y, num_outputs // 2, f"{owner}()")

    def split(self, outputs: Outputs) -> tuple[Array, Array]:
        """Locations within twice the reach, and log precisions between those of the ceiling and the floor."""
        half = outputs.shape[0] // 2
        mean, log_precision = outputs[:half], outputs[half:]

        def of_targets(bound: Any) -> Array:
            return jnp.reshape(jnp.asarray(bound, outputs.dtype), (-1, 1))

        if self.ceiling is not None:
            log_precision = jnp.logaddexp(log_precision, -2 * jnp.log(of_targets(self.ceiling)))
        if self.floor is not None:
            log_precision -= jax.nn.softplus(log_precision + 2 * jnp.log(of_targets(self.floor)))
        if self.reach is not None:
            reach = of_targets(self.reach)
            mean = jnp.clip(mean, -reach, reach) * (2 - reach / jnp.maximum(jnp.abs(mean), reach))
        return mean, log_precision

    def standardized(self, outputs: Outputs, value: Targets) -> Targets:
        """Values minus the locations, in scales."""
        mean, log_precision = self.split(outputs)
        return (value - mean) * jnp.exp(0.5 * log_precision)

    def at(self, outputs: Outputs, standardized: Targets | Scalar) -> Targets:
        """The values that are so many scales above the locations."""
        mean, log_precision = self.split(outputs)
        return mean + jnp.exp(-0.5 * log_precision) * standardized

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return self.split(outputs)[0]

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        return jnp.concatenate(self.split(outputs), axis=0)


class HeteroscedasticGaussian(AbstractHeteroscedastic):
    """Real targets with normal noise whose standard deviation, the scale, depends on the inputs."""

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        mean, log_precision = self.split(outputs)
        squared = (targets - mean) ** 2 * jnp.exp(log_precision)
        return 0.5 * jnp.sum(log_precision - squared - _LOG_TWO_PI, axis=0)

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        return jnp.exp(-self.split(outputs)[1])

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        return jax.scipy.stats.norm.cdf(self.standardized(outputs, value))

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        return self.at(outputs, jax.scipy.stats.norm.ppf(probability))

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        mean = self.mean(parameters, outputs)
        return self.at(outputs, jax.random.normal(key, mean.shape, mean.dtype))


class HeteroscedasticStudentT(AbstractHeteroscedastic):
    """Real targets with Student-t noise of 4 degrees of freedom, whose scale depends on the inputs.

    A row far off costs the logarithm of its distance and not its square (Lange1989), both in the fit and in the score.
    The variance is twice the squared scale. With 4 degrees, distribution function and quantiles have closed forms
    (Shaw2006).
    """

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        mean, log_precision = self.split(outputs)
        squared = (targets - mean) ** 2 * jnp.exp(log_precision)
        return jnp.sum(0.5 * log_precision - 2.5 * jnp.log1p(0.25 * squared) + _LOG_PEAK_OF_T, axis=0)

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        return 2 * jnp.exp(-self.split(outputs)[1])

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        half = 0.5 * self.standardized(outputs, value)
        sine = half * jax.lax.rsqrt(1 + half**2)
        return 0.5 + 0.25 * sine * (3 - sine**2)

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        probability = jnp.asarray(probability, outputs.dtype)
        root = jnp.sqrt(4 * probability * (1 - probability))
        distance = 2 * jnp.sqrt(jnp.cos(jnp.arccos(root) / 3) / root - 1)
        return self.at(outputs, jnp.sign(probability - 0.5) * distance)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        mean = self.mean(parameters, outputs)
        return self.at(outputs, jax.random.t(key, 4.0, mean.shape, mean.dtype))


def gaussian(noise: float | None = None, width: float | None = None, alpha: float | None = None) -> Gaussian:
    """Make a `Gaussian` likelihood from settings that can be written in text.

    Args:
        noise: the known standard deviation, above 0; None: learned.
        width: width of the prior of learned noise; see `GammaPrecision`.
        alpha: alpha of the same prior.

    Raises:
        SettingError: prior settings are given for known noise, or a value is out of range.
    """
    given = {key: value for key, value in {"width": width, "alpha": alpha}.items() if value is not None}
    if noise is not None and given:
        raise SettingError(
            f"`likelihood`: known `noise` has no prior, so it cannot be combined with {', '.join(map(repr, given))}. "
            f"Give one or the other."
        )
    return Gaussian(noise=GammaPrecision(**given) if given else noise)
