"""Likelihoods of classes: categorical and Bernoulli."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError
from ergonet._types import AnyArray, Array, PRNGKey, Scalar
from ergonet.models.checked import labels_of, positive_number, share
from ergonet.models.likelihood import NoParameters, Outputs, PerRow, Targets
from ergonet.models.network import Weights


class _Classes(NoParameters):
    """Base of likelihoods whose predicted probabilities may have a temperature (Guo2017) and label noise.

    These are no part of the density. The average p over draws, of K classes, is stated as (1 - e) p' + e / K, where p'
    is p to the power 1 / temperature, normalized, and e the label noise.
    """

    is_classification: ClassVar[bool] = True
    temperature: Any = None
    label_noise: Any = None

    def __init__(self, temperature: float | Any = None, label_noise: float | Any = None):
        """Check and keep the settings.

        Args:
            temperature: of predicted probabilities, above 0; above 1 they are less sure. None: 1.
            label_noise: share of rows whose label says nothing, in [0, 1). None: 0.

        Raises:
            SettingError: a setting is out of its range.
        """
        owner = type(self).__name__
        self.temperature = None if temperature is None else positive_number(temperature, f"{owner}(temperature=...)")
        self.label_noise = None if label_noise is None else share(label_noise, f"{owner}(label_noise=...)")

    @property
    def calibration(self) -> tuple[AnyArray, AnyArray] | None:
        if self.temperature is None and self.label_noise is None:
            return None
        temperature = np.ones(()) if self.temperature is None else self.temperature
        return temperature, np.zeros(()) if self.label_noise is None else self.label_noise


class Categorical(_Classes):
    """Classes 0..K-1 with probabilities softmax(outputs); one output per class."""

    def num_outputs(self, num_targets: int) -> int:
        return num_targets

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        if num_outputs < 2:
            raise SettingError("`Categorical()` needs a network with at least 2 outputs; use `Bernoulli()` for one.")
        labels = labels_of(y, num_outputs, "Categorical()")
        return jax.device_put((labels[None, :] == np.arange(num_outputs)[:, None]).astype(np.float32))

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        below = _below_largest(outputs)
        return jnp.sum(below * targets, axis=0) - jnp.log(jnp.sum(jnp.exp(below), axis=0))

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return jax.nn.softmax(outputs, axis=0)

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        probability = self.mean(parameters, outputs)
        return probability * (1 - probability)

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        cumulative = jnp.cumsum(self.mean(parameters, outputs), axis=0)
        index = jnp.clip(jnp.floor(value).astype(jnp.int32), 0, outputs.shape[0] - 1)
        return jnp.where(value < 0, 0.0, jnp.take_along_axis(cumulative, index, axis=0))

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        cumulative = jnp.cumsum(self.mean(parameters, outputs), axis=0)
        return jnp.sum(cumulative < probability, axis=0, keepdims=True).astype(outputs.dtype)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        return jax.random.categorical(key, outputs, axis=0)[None, :].astype(outputs.dtype)

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        below = _below_largest(outputs)
        return below - jnp.log(jnp.sum(jnp.exp(below), axis=0))


def _below_largest(outputs: Outputs) -> Outputs:
    """Subtract the largest output of each row before anything is summed, without contributing to the gradient."""
    return outputs - jax.lax.stop_gradient(jnp.max(outputs, axis=0))


class Bernoulli(_Classes):
    """Two classes, 0 and 1, with P(1) = sigmoid(output); one output."""

    def num_outputs(self, num_targets: int) -> int:
        return 1

    def prepare(self, y: Any, num_outputs: int) -> Targets:
        if num_outputs != 1:
            raise SettingError(f"`Bernoulli()` needs a network with 1 output, got {num_outputs}; or `Categorical()`.")
        return jax.device_put(labels_of(y, 2, "Bernoulli()")[None, :].astype(np.float32))

    def log_prob(self, parameters: Weights, outputs: Outputs, targets: Targets) -> PerRow:
        return -jnp.sum(jax.nn.softplus((1 - 2 * targets) * outputs), axis=0)

    def mean(self, parameters: Weights, outputs: Outputs) -> Array:
        return jnp.concatenate([jax.nn.sigmoid(-outputs), jax.nn.sigmoid(outputs)], axis=0)

    def variance(self, parameters: Weights, outputs: Outputs) -> Array:
        probability = self.mean(parameters, outputs)
        return probability * (1 - probability)

    def cdf(self, parameters: Weights, outputs: Outputs, value: Targets) -> Targets:
        return jnp.where(value < 0, 0.0, jnp.where(value < 1, jax.nn.sigmoid(-outputs), 1.0))

    def quantile(self, parameters: Weights, outputs: Outputs, probability: Scalar | float) -> Targets:
        return (jax.nn.sigmoid(-outputs) < probability).astype(outputs.dtype)

    def sample(self, key: PRNGKey, parameters: Weights, outputs: Outputs) -> Targets:
        return jax.random.bernoulli(key, jax.nn.sigmoid(outputs)).astype(outputs.dtype)

    def monitor(self, parameters: Weights, outputs: Outputs) -> Array:
        return jnp.concatenate([jax.nn.log_sigmoid(-outputs), jax.nn.log_sigmoid(outputs)], axis=0)
