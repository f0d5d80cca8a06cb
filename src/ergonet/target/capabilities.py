"""Optional capabilities of targets: rows, monitored quantities, scales, and updates of parameter blocks.

Each capability is a type; `target.capability(Rows)` returns the object or says why there is none. For kernels that
treat weights and hyperparameters separately, a position is a block of weights followed by a block of hyperparameters.
"""

import abc
from typing import Any, ClassVar

import jax

from ergonet._types import Array, Float, Int, Position, PRNGKey, Scalar
from ergonet.target.contract import AbstractDensity, AbstractTarget, Capability, Missing, find, offers, require
from ergonet.target.shards import RowShards

__all__ = [
    "BlockCurvature",
    "Capability",
    "CenteredCurvature",
    "Divisible",
    "GibbsBlock",
    "Missing",
    "Monitor",
    "NonCenteredCurvature",
    "PointwiseLogLikelihood",
    "Rows",
    "Scales",
    "Simulation",
    "WeightCurvature",
    "offers",
    "quantities",
    "require",
]


class Rows(Capability):
    """Rows of data, and estimates of the potential from minibatches of them."""

    title: ClassVar[str] = "minibatches of rows"
    absent: ClassVar[str] = "offers no rows of data. Build the target with `Target.from_terms`"
    is_streamed: ClassVar[bool] = False  # whether rows stay on the host, so that only minibatches are on the device

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """Rows of the data, at least 1."""

    @abc.abstractmethod
    def rows(self) -> Any:
        """Every row of the data: a pytree of arrays with the rows on the first axis."""

    def take(self, indices: Int[Array, "row"]) -> Any:
        """Those of `rows()` with these indices."""
        return jax.tree.map(lambda leaf: leaf[indices], self.rows())

    @abc.abstractmethod
    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        """The potential with its likelihood estimated from n of N `rows()` (data, not indices), scaled by N / n."""


class Divisible(Capability):
    """Rows of data that can be divided over devices."""

    title: ClassVar[str] = "rows that can be divided over devices"
    absent: ClassVar[str] = "offers none. Use a `BayesianNetwork`"

    @abc.abstractmethod
    def divided(self, shards: RowShards) -> AbstractTarget:
        """The same density, with its rows on these devices."""


class Monitor(Capability):
    """Quantities of interest, such as predictions, for tuning and convergence in function space."""

    title: ClassVar[str] = "monitored quantities"
    absent: ClassVar[str] = "offers no predictions to monitor. Use a `BayesianNetwork` for function space"

    @abc.abstractmethod
    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        """The quantities at a position."""


class PointwiseLogLikelihood(Capability):
    """The log likelihood of each row of the data."""

    title: ClassVar[str] = "the log likelihood of each row"
    absent: ClassVar[str] = "offers no log likelihood by rows. Build the target with `Target.from_terms`"

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """Rows of the data, at least 1."""

    @abc.abstractmethod
    def log_likelihood(self, position: Position, rows: Int[Array, "row"] | None = None) -> Float[Array, "row"]:
        """Log likelihoods, at a position, of the rows with these indices (from 0); None: of all rows."""


class Simulation(Capability):
    """Targets simulated from the model, for posterior predictive checks."""

    title: ClassVar[str] = "simulated targets"
    absent: ClassVar[str] = "simulates no targets. Use the posterior of a `BayesianNetwork`"

    @property
    @abc.abstractmethod
    def num_rows(self) -> int:
        """Rows of the data, at least 1."""

    @abc.abstractmethod
    def observed(self) -> Any:
        """The targets of the data, `[target, row]`; class indices for a classification."""

    @abc.abstractmethod
    def simulate(self, key: PRNGKey, position: Position, rows: Int[Array, "row"]) -> Float[Array, "target row"]:
        """Draw the targets of the rows with these indices (from 0), given a position."""


class Scales(Capability):
    """Learned standard deviations."""

    title: ClassVar[str] = "learned scales"
    absent: ClassVar[str] = "offers no learned scales"

    @abc.abstractmethod
    def scales(self, position: Position) -> dict[str, Array]:
        """Learned standard deviations by name; none depends on the order of hidden units. Empty if there are none."""


class _Blocks(Capability):
    """Knows weights from hyperparameters."""

    absent: ClassVar[str] = "does not tell weights and hyperparameters apart"
    otherwise: ClassVar[str] = "Or use `NUTS()`, which takes any target."

    @property
    @abc.abstractmethod
    def num_weights(self) -> int:
        """Number of coordinates in the first block, at least 1."""


class GibbsBlock(_Blocks):
    """Gibbs draws of the hyperparameters given the weights."""

    title: ClassVar[str] = "Gibbs draws of the hyperparameters"

    @abc.abstractmethod
    def draw(self, key: PRNGKey, position: Position) -> Float[Array, "hyperparameters"]:
        """Draw the hyperparameters from their conditional distribution given the weights of a position."""


class WeightCurvature(_Blocks):
    """Curvatures of centered weights, computed from the hyperparameters; they determine step sizes."""

    title: ClassVar[str] = "curvatures of the weights"

    @abc.abstractmethod
    def of_weights(self, hyperparameters: Float[Array, "hyperparameters"]) -> Float[Array, "weights"]:
        """Approximate second derivatives of the potential by the weights, from the hyperparameters alone; above 0."""


class BlockCurvature(WeightCurvature):
    """Curvatures of each block, computed from the other block."""

    @abc.abstractmethod
    def of_hyperparameters(self, weights: Float[Array, "weights"]) -> Float[Array, "hyperparameters"]:
        """Approximate second derivatives of the potential by the hyperparameters, from the weights alone; above 0."""


class CenteredCurvature(BlockCurvature):
    """Curvatures of each block from the other, for centered weights."""

    title: ClassVar[str] = "curvatures of centered weights and their hyperparameters"


class NonCenteredCurvature(BlockCurvature):
    """Curvatures of each block from the other, for non-centered weights."""

    title: ClassVar[str] = "curvatures of non-centered weights and their hyperparameters"


def quantities(target: AbstractDensity, position: Position) -> Float[Array, "quantity"]:
    """Quantities by which trajectory lengths are tuned: monitored quantities if there are any, or else the position."""
    found = find(target, Monitor)
    return position if isinstance(found, Missing) else found.monitor(position)
