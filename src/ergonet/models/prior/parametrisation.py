"""Whether the weights are coordinates themselves, or multiples of standardised ones.

With s the scale of a weight's prior, w ~ N(0, s^2):

    centred        coordinate w,           density N(w; 0, s^2)
    non-centred    coordinate w~ = w / s,  density N(w~; 0, 1),  w = s w~

Centred coordinates suit weights that the data determine, non-centred ones weights that the prior does. Sources: Choo
2000, section 4.3; Lau 2018, section 4.4; Betancourt and Girolami 2015.
"""

import abc

import equinox as eqx

from ergonet._errors import SettingError, suggest
from ergonet._types import Array
from ergonet.models.prior.density import Density
from ergonet.models.prior.groups import members


class AbstractParametrisation(eqx.Module):
    """How coordinates and the scales of their prior make weights."""

    @abc.abstractmethod
    def weights(self, coordinates: Array, scale: Array) -> Array:
        """The weights."""

    @abc.abstractmethod
    def draw(self, standard: Array, scale: Array) -> Array:
        """Coordinates from their prior, made of draws of N(0, 1)."""

    @abc.abstractmethod
    def density(self, coordinates: Array, log_scale: Array, scale: Array) -> Density:
        """That of the coordinates, where the scale and its logarithm broadcast against them."""


class Centered(AbstractParametrisation):
    """The weights are coordinates."""

    def weights(self, coordinates: Array, scale: Array) -> Array:
        return coordinates

    def draw(self, standard: Array, scale: Array) -> Array:
        return standard * scale

    def density(self, coordinates: Array, log_scale: Array, scale: Array) -> Density:
        count = members(log_scale.shape, coordinates.shape)
        return Density.product(Density.of_normal(coordinates / scale), Density.of_terms(-count * log_scale))


class NonCentered(AbstractParametrisation):
    """The coordinates are standard normal; a weight is one times its scale."""

    def weights(self, coordinates: Array, scale: Array) -> Array:
        return coordinates * scale

    def draw(self, standard: Array, scale: Array) -> Array:
        return standard

    def density(self, coordinates: Array, log_scale: Array, scale: Array) -> Density:
        return Density.of_normal(coordinates)


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
