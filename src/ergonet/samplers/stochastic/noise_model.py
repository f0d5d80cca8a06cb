"""What a kernel knows of the noise that minibatches bring: the variance of the gradient by coordinate.

It is that of one minibatch. An epoch has each row once, so the noises of its minibatches cancel in part; where an epoch
is short beside the time in which the chain forgets, a correction by this variance is too large.
"""

import abc
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet import _named
from ergonet._errors import SettingError
from ergonet._types import Array, Count, Float, Position, Scalar
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import gradient_noise


class AbstractNoiseModel(eqx.Module):
    """The variance of the minibatch gradient, as known while running."""

    @abc.abstractmethod
    def begin(self, position: Position) -> Any:
        """What is known before the first step."""

    @abc.abstractmethod
    def update(self, known: Any, target: Target, position: Position, rows: Any, number: Count) -> Any:
        """What is known at step `number`."""

    @abc.abstractmethod
    def variance(self, known: Any) -> Scalar | Position:
        """V by coordinate, at least 0."""


class NoNoise(AbstractNoiseModel):
    """The gradient's noise is left out of account: all of the friction is paid back as noise."""

    def begin(self, position: Position) -> Array:
        return jnp.zeros((), position.dtype)

    def update(self, known: Any, target: Target, position: Position, rows: Any, number: Count) -> Any:
        return known

    def variance(self, known: Any) -> Scalar | Position:
        return known


class GivenNoise(AbstractNoiseModel):
    """A known variance, one for all coordinates or one for each."""

    given: Float[Array, "..."]

    def __init__(self, variance: Any):
        """Check and keep the variance: a number, or `[dim]`; at least 0.

        Raises:
            SettingError: it is negative or not finite, or has more than one axis.
        """
        values = np.asarray(variance, float)
        if values.ndim > 1 or not np.all(np.isfinite(values)) or np.any(values < 0):
            raise SettingError(
                f"`GivenNoise(variance=...)` must be a number, or an array [dim] of numbers, of at least 0, "
                f"got {variance!r}."
            )
        self.given = jnp.asarray(values)

    def begin(self, position: Position) -> Array:
        if self.given.ndim == 1 and self.given.shape != position.shape:
            raise SettingError(
                f"`GivenNoise(variance=...)` has {self.given.size} entries, but positions have {position.size}."
            )
        return self.given.astype(position.dtype)

    def update(self, known: Any, target: Target, position: Position, rows: Any, number: Count) -> Any:
        return known

    def variance(self, known: Any) -> Scalar | Position:
        return known


class EstimatedNoise(AbstractNoiseModel):
    """Estimated from the per-example gradients of every so many minibatches: the diagonal empirical Fisher matrix.

    002, sections 2.3 and 3 (it calls the estimate V^); algorithms.md, section 6, for its scale.
    """

    every: int = eqx.field(static=True)
    decay: float = eqx.field(static=True)

    def __init__(self, *, every: int = 100, decay: float = 0.9):
        """Check and keep the settings.

        Args:
            every: steps between two estimates, at least 1; each costs about a gradient per row of a minibatch.
            decay: weight of what was known before in the running mean, in [0, 1).
        """
        check.require_integer("EstimatedNoise", "every", every, 1)
        check.require_share("EstimatedNoise", "decay", decay)
        self.every, self.decay = int(every), float(decay)

    def begin(self, position: Position) -> tuple[Array, Array]:
        return jnp.zeros_like(position), jnp.zeros((), position.dtype)

    def update(self, known: Any, target: Target, position: Position, rows: Any, number: Count) -> Any:
        def renewed() -> tuple[Array, Array]:
            mean, weight = known
            found = gradient_noise(target, position, rows)
            return self.decay * mean + (1 - self.decay) * found, self.decay * weight + (1 - self.decay)

        return jax.lax.cond(number % self.every == 0, renewed, lambda: known)

    def variance(self, known: Any) -> Scalar | Position:
        mean, weight = known
        return mean / jnp.maximum(weight, jnp.finfo(mean.dtype).tiny)


_NOISE_MODELS: dict[str, Callable[..., AbstractNoiseModel]] = {
    "none": NoNoise,
    "given": GivenNoise,
    "estimated": EstimatedNoise,
}


def noise_model(name: str, settings: Mapping[str, Any] | None = None) -> AbstractNoiseModel:
    """The noise model of that name; raises `SettingError` where the name or a setting is not known."""
    return _named.make("noise", name, settings, _NOISE_MODELS)


def resolve_noise(choice: str | AbstractNoiseModel) -> AbstractNoiseModel:
    """A noise model as it is, or the one of that name."""
    return choice if isinstance(choice, AbstractNoiseModel) else noise_model(choice)
