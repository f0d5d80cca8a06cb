"""Centered and non-centered parametrizations of weights.

With s the scale of a weight's prior, w ~ N(0, s^2):

    centered        coordinate w,           density N(w; 0, s^2)
    non-centered    coordinate w~ = w / s,  density N(w~; 0, 1),  w = s w~

The centered parametrization suits weights that are determined by the data, the non-centered one weights that are
determined by the prior. Sources: Choo2000, section 4.3; Lau2018, section 4.4; BetancourtGirolami2015.
"""

import abc

import equinox as eqx

from ergonet._types import Array
from ergonet.models.prior.density import Density
from ergonet.models.prior.groups import members


class AbstractParametrization(eqx.Module):
    """The map from coordinates and prior scales to weights."""

    @abc.abstractmethod
    def weights(self, coordinates: Array, scale: Array) -> Array:
        """The weights."""

    @abc.abstractmethod
    def draw(self, standard: Array, scale: Array) -> Array:
        """Turn draws from N(0, 1) into draws of the coordinates from their prior."""

    @abc.abstractmethod
    def density(self, coordinates: Array, log_scale: Array, scale: Array) -> Density:
        """Density of the coordinates; the scale and its logarithm broadcast against them."""


class Centered(AbstractParametrization):
    """The coordinates are the weights."""

    def weights(self, coordinates: Array, scale: Array) -> Array:
        return coordinates

    def draw(self, standard: Array, scale: Array) -> Array:
        return standard * scale

    def density(self, coordinates: Array, log_scale: Array, scale: Array) -> Density:
        count = members(log_scale.shape, coordinates.shape)
        return Density.product(Density.of_normal(coordinates / scale), Density.of_terms(-count * log_scale))


class NonCentered(AbstractParametrization):
    """The coordinates are standard normal a priori; a weight is its coordinate times its scale."""

    def weights(self, coordinates: Array, scale: Array) -> Array:
        return coordinates * scale

    def draw(self, standard: Array, scale: Array) -> Array:
        return standard

    def density(self, coordinates: Array, log_scale: Array, scale: Array) -> Density:
        return Density.of_normal(coordinates)
