"""Whether the weights are coordinates themselves, or multiples of standardised ones.

With s the scale of a weight's prior, w ~ N(0, s^2):

    centred        coordinate w,           density N(w; 0, s^2)
    non-centred    coordinate w~ = w / s,  density N(w~; 0, 1),  w = s w~

Centred coordinates suit weights that the data determine, non-centred ones weights that the prior does. Sources: Choo
2000, section 4.3; Lau 2018, section 4.4; Betancourt and Girolami 2015.
"""

import abc
import math

import equinox as eqx
import jax.numpy as jnp

from ergonet._errors import SettingError, suggest
from ergonet._types import Array, Float, Scalar
from ergonet.models.prior.groups import members, sum_by

_LOG_TWO_PI = math.log(2 * math.pi)


class AbstractParametrisation(eqx.Module):
    """How coordinates and the scales of their prior make weights."""

    @abc.abstractmethod
    def weights(self, coordinates: Array, scale: Array) -> Array:
        """The weights."""

    @abc.abstractmethod
    def coordinates(self, weights: Array, scale: Array) -> Array:
        """The coordinates of weights."""

    @abc.abstractmethod
    def log_density(self, coordinates: Array, log_scale: Array, scale: Array) -> Scalar:
        """Log density of the coordinates, where the scale and its logarithm broadcast against them."""


class Centered(AbstractParametrisation):
    """The weights are coordinates."""

    def weights(self, coordinates: Array, scale: Array) -> Array:
        return coordinates

    def coordinates(self, weights: Array, scale: Array) -> Array:
        return weights

    def log_density(self, coordinates: Array, log_scale: Array, scale: Array) -> Scalar:
        squares = sum_by(coordinates**2, log_scale.shape)
        count = members(log_scale.shape, coordinates.shape)
        each = -0.5 * squares / scale**2 - count * log_scale
        return jnp.sum(each) - 0.5 * _LOG_TWO_PI * coordinates.size


class NonCentered(AbstractParametrisation):
    """The coordinates are standard normal; a weight is one times its scale."""

    def weights(self, coordinates: Array, scale: Array) -> Array:
        return coordinates * scale

    def coordinates(self, weights: Array, scale: Array) -> Array:
        return weights / scale

    def log_density(self, coordinates: Array, log_scale: Array, scale: Array) -> Scalar:
        return standard_normal(coordinates.reshape(-1))


def standard_normal(coordinates: Float[Array, "coordinate"]) -> Scalar:
    """Log density of independent N(0, 1), as one inner product."""
    return -0.5 * jnp.dot(coordinates, coordinates) - 0.5 * _LOG_TWO_PI * coordinates.size


_PARAMETRISATIONS = {"centered": Centered, "non-centered": NonCentered}


def resolve_parametrisation(owner: str, choice: str | AbstractParametrisation) -> AbstractParametrisation:
    """An object as it is, or the one of that name.

    Raises:
        SettingError: the name is not known.
    """
    if isinstance(choice, AbstractParametrisation):
        return choice
    if choice not in _PARAMETRISATIONS:
        raise SettingError(
            f"`{owner}(parametrisation={choice!r})` is not known. {suggest(str(choice), _PARAMETRISATIONS)}"
        )
    return _PARAMETRISATIONS[choice]()
