"""The contract of priors: joint distributions of a block of weights and its hyperparameters.

A *block* is one leaf of the network, or adjacent leaves that share a prior, laid out as one array. The sampler sees its
*coordinates*: one per weight, and the hyperparameters. `weights` converts them to the weights of the network; if the
two are equal, the parametrization is centered.
"""

import abc
from collections.abc import Mapping

import equinox as eqx
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.network import Leaf
from ergonet.models.prior.density import Density

Hyperparameters = Mapping[str, Array]


class WithRoots(dict[str, Array]):
    """Hyperparameters by name, with e^(-value / 2) of each, which is a scale if the value is a log precision.

    Computed for all at once, they cost one task of XLA's CPU runtime instead of one for every group.
    """

    def __init__(self, values: Hyperparameters, roots: Hyperparameters):
        super().__init__(values)
        self.roots = dict(roots)


def root(hyperparameters: Hyperparameters, name: str) -> Array:
    """e^(-value / 2) of a hyperparameter, looked up if it is known and computed otherwise."""
    if isinstance(hyperparameters, WithRoots):
        return hyperparameters.roots[name]
    return jnp.exp(-0.5 * hyperparameters[name])


class AbstractPrior(eqx.Module):
    """The distribution of the weights of a block and of its hyperparameters."""

    @abc.abstractmethod
    def shares(self, path: str) -> str:
        """Adjacent leaves with the same prior and the same result form one block; the result is its name."""

    @abc.abstractmethod
    def hyperparameters(self, leaf: Leaf) -> dict[str, Leaf]:
        """The hyperparameters of the block by name; raises `SettingError` if the prior does not suit the block."""

    @abc.abstractmethod
    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        """Density of the weights' coordinates given the hyperparameters, normalized, Jacobians included."""

    @abc.abstractmethod
    def own_terms(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        """Flat arrays whose sum is the log density of the hyperparameters, normalized, Jacobians included."""

    def density(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        """Density of all coordinates of the block."""
        given = self.density_given(coordinates, hyperparameters, leaf)
        own = self.own_terms(hyperparameters, leaf)
        return Density.product(given, Density.of_terms(*own)) if own else given

    def log_density(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Scalar:
        """Log density of all coordinates of the block."""
        return self.density(coordinates, hyperparameters, leaf).whole

    @abc.abstractmethod
    def weights(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        """The network's weights, in the shape of the block."""

    @abc.abstractmethod
    def draw_own(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        """Draw the hyperparameters from their prior."""

    @abc.abstractmethod
    def initial_values(self, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        """Hyperparameters near which chains start; a draw from a vague prior could be far from the posterior."""

    @abc.abstractmethod
    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        """Draw the coordinates of the weights from their prior given the hyperparameters."""

    @abc.abstractmethod
    def scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        """Learned standard deviations by the part they belong to, such as `weights` or `global`; for reports."""

    @property
    @abc.abstractmethod
    def by_input(self) -> bool:
        """Whether `scales` has one entry for each input of a weight array `[out, in]`."""

    @property
    @abc.abstractmethod
    def lacks_conjugacy(self) -> str:
        """Why the hyperparameters cannot be drawn given the weights, in words; empty if they can."""

    @abc.abstractmethod
    def gibbs(self, key: PRNGKey, weights: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        """Draw the hyperparameters from their conditional distribution given the weights."""


class AbstractPlainPrior(AbstractPrior):
    """A prior without hyperparameters."""

    def shares(self, path: str) -> str:
        return path

    def hyperparameters(self, leaf: Leaf) -> dict[str, Leaf]:
        return {}

    def own_terms(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        return []

    def draw_own(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        return {}

    def initial_values(self, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        return {}

    def scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        return {}

    @property
    def by_input(self) -> bool:
        return False

    @property
    def lacks_conjugacy(self) -> str:
        return ""

    def gibbs(self, key: PRNGKey, weights: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        return {}


class AbstractFixedPrior(AbstractPlainPrior):
    """One fixed distribution for every weight; the coordinates are the weights."""

    @abc.abstractmethod
    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        """Draw the weights of a block."""

    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        """Summed log density of a block's weights, normalized."""
        return self.density_given(weights, {}, leaf).whole

    def weights(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        return coordinates

    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self.sample(key, leaf, dtype)
