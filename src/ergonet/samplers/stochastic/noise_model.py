"""Models of the gradient noise of minibatches: the variance of the gradient by coordinate.

The variance is that of a single minibatch. A correction by it supposes that the noise of one minibatch says nothing
about that of the next, so minibatches are drawn independently with a noise model: in shuffled epochs the noise
cancels, and a correction makes the draws too narrow. Correlations of the noise between coordinates are neglected.
"""

import abc
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError
from ergonet._numbers import AbstractSettings, integer, like, real, whole
from ergonet._types import Array, Count, Float, Position, Scalar
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import gradient_noise
from ergonet.samplers.stochastic.ordering import INDEPENDENT, SHUFFLED, AbstractOrdering
from ergonet.target.contract import AbstractDensity


class AbstractNoiseModel(AbstractSettings):
    """The variance of the minibatch gradient during a run."""

    @property
    def ordering(self) -> AbstractOrdering:
        """How minibatches must be chosen for the variance to be the right correction."""
        return INDEPENDENT

    @abc.abstractmethod
    def begin(self, position: Position) -> Any:
        """The estimate before the first step."""

    @abc.abstractmethod
    def update(self, known: Any, target: AbstractDensity, position: Position, rows: Any, number: Count) -> Any:
        """The estimate at step `number`."""

    @abc.abstractmethod
    def variance(self, known: Any) -> Scalar | Position:
        """V by coordinate, at least 0."""


class NoNoise(AbstractNoiseModel):
    """The gradient noise is ignored: the injected noise balances all of the friction."""

    @property
    def ordering(self) -> AbstractOrdering:
        """Shuffled epochs, which have the least noise."""
        return SHUFFLED

    def begin(self, position: Position) -> Array:
        return jnp.zeros((), position.dtype)

    def update(self, known: Any, target: AbstractDensity, position: Position, rows: Any, number: Count) -> Any:
        return known

    def variance(self, known: Any) -> Scalar | Position:
        return known


class GivenNoise(AbstractNoiseModel):
    """A known variance, common to all coordinates or one per coordinate."""

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

    def update(self, known: Any, target: AbstractDensity, position: Position, rows: Any, number: Count) -> Any:
        return known

    def variance(self, known: Any) -> Scalar | Position:
        return known


class EstimatedNoise(AbstractNoiseModel):
    """Estimated at intervals from per-example gradients: the diagonal of the empirical Fisher matrix.

    Source: ChenReport, sections 2.3 and 3 (where the estimate is called V^).
    """

    every: int
    decay: float

    def __init__(self, *, every: int = 100, decay: float = 0.9):
        """Check and keep the settings.

        Args:
            every: number of steps between estimates, at least 1; each costs about a gradient per row of a minibatch.
            decay: weight of the previous estimate in the running mean, in [0, 1).
        """
        check.require_integer("EstimatedNoise", "every", every, 1)
        check.require_share("EstimatedNoise", "decay", decay)
        self.every, self.decay = integer(every), real(decay)

    def begin(self, position: Position) -> tuple[Array, Array]:
        return jnp.zeros_like(position), jnp.zeros((), position.dtype)

    def update(self, known: Any, target: AbstractDensity, position: Position, rows: Any, number: Count) -> Any:
        def renewed() -> tuple[Array, Array]:
            mean, weight = known
            found = gradient_noise(target, position, rows)
            decay = like(self.decay, mean)
            return decay * mean + (1 - decay) * found, decay * weight + (1 - decay)

        return jax.lax.cond(number % whole(self.every) == 0, renewed, lambda: known)

    def variance(self, known: Any) -> Scalar | Position:
        mean, weight = known
        return mean / jnp.maximum(weight, jnp.finfo(mean.dtype).tiny)
