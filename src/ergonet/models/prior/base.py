"""What a prior is: the joint distribution of a block of weights and of hyperparameters of its own.

A *block* is one leaf of the network, or neighbouring leaves that share a prior, laid out as one array. What is sampled
are the block's *coordinates*: one per weight, and the hyperparameters. `weights` turns them into the weights that the
network sees; where the two are the same, the parametrisation is centred.
"""

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING

import equinox as eqx
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._types import Array, PRNGKey, Scalar
from ergonet.models.network import Leaf
from ergonet.models.prior.density import Density

if TYPE_CHECKING:
    from ergonet.models.network import AbstractNetwork

Hyperparameters = Mapping[str, Array]


class WithRoots(dict[str, Array]):
    """Hyperparameters by name, with e^(-value / 2) of each, which is a scale where the value is a log precision.

    Taken of all at once, they cost one task of XLA's CPU runtime in place of one for every group.
    """

    def __init__(self, values: Hyperparameters, roots: Hyperparameters):
        super().__init__(values)
        self.roots = dict(roots)


def root(hyperparameters: Hyperparameters, name: str) -> Array:
    """e^(-value / 2) of a hyperparameter, from those that are known or afresh."""
    if isinstance(hyperparameters, WithRoots):
        return hyperparameters.roots[name]
    return jnp.exp(-0.5 * hyperparameters[name])


class AbstractPrior(eqx.Module):
    """The distribution of the weights of a block, with the hyperparameters that belong to it."""

    @abc.abstractmethod
    def shares(self, path: str) -> str:
        """Neighbouring leaves with the same prior and the same answer form one block; the answer names it."""

    @abc.abstractmethod
    def hyperparameters(self, leaf: Leaf) -> dict[str, Leaf]:
        """The block's own coordinates by name; raises `SettingError` where the prior does not fit the block."""

    @abc.abstractmethod
    def density_given(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        """That of the weights' coordinates given the hyperparameters, normalised, Jacobians included."""

    @abc.abstractmethod
    def own_terms(self, hyperparameters: Hyperparameters, leaf: Leaf) -> list[Array]:
        """Flat arrays whose sum is the log density of the hyperparameters, normalised, Jacobians included."""

    def density(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Density:
        """That of all coordinates of the block."""
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
        """Hyperparameters from their prior."""

    @abc.abstractmethod
    def moderate(self, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
        """Hyperparameters where a chain may well start; vague priors reach where no chain comes back from soon."""

    @abc.abstractmethod
    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        """Coordinates of the weights from their prior given the hyperparameters."""

    @abc.abstractmethod
    def scales(self, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        """Learned standard deviations by what they are of, such as `weights` or `global`; for reports."""

    @property
    @abc.abstractmethod
    def by_input(self) -> bool:
        """Whether `scales` has one entry for every input of a weight `[out, in]`."""

    @property
    @abc.abstractmethod
    def lacks_conjugacy(self) -> str:
        """Why hyperparameters cannot be drawn given the weights, in words; empty where they can."""

    @abc.abstractmethod
    def gibbs(self, key: PRNGKey, weights: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> dict[str, Array]:
        """Hyperparameters drawn from their distribution given the weights."""

    def describe(self, network: "AbstractNetwork") -> str:
        """Which leaves of a network this prior falls on, and how many coordinates it adds to them; see `describe`."""
        from ergonet.models.network import as_network
        from ergonet.models.prior.assignment import assign

        return assign(self, as_network(network).leaves()).describe()


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

    def moderate(self, leaf: Leaf, dtype: DTypeLike) -> dict[str, Array]:
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
    """One fixed distribution for every weight, which is a coordinate itself."""

    @abc.abstractmethod
    def sample(self, key: PRNGKey, leaf: Leaf, dtype: DTypeLike) -> Array:
        """A draw of a block's weights."""

    def log_prob(self, weights: Array, leaf: Leaf) -> Scalar:
        """Summed log density of a block's weights, normalised."""
        return self.density_given(weights, {}, leaf).whole

    def weights(self, coordinates: Array, hyperparameters: Hyperparameters, leaf: Leaf) -> Array:
        return coordinates

    def draw(self, key: PRNGKey, hyperparameters: Hyperparameters, leaf: Leaf, dtype: DTypeLike) -> Array:
        return self.sample(key, leaf, dtype)
