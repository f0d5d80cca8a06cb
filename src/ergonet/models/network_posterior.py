"""A Bayesian neural network, and its posterior as a target.

Position = the weights' coordinates of all network leaves in order, then the prior's hyperparameters, then the
likelihood's own coordinates. Log posterior = log prior of the first two + log prior of the likelihood's coordinates +
sum over rows of the log likelihood.
"""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jax.typing import DTypeLike

from ergonet._errors import DataError, SettingError
from ergonet._types import AnyArray, Array, Float, Position, PRNGKey, Scalar
from ergonet.diagnostics.function_space import choose_reference_rows
from ergonet.models.curvature import (
    hyperparameter_curvature,
    lacks_curvature,
    lacks_weight_curvature,
    weight_curvature,
)
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.network import AbstractNetwork, Leaf, Weights, as_network
from ergonet.models.prior import AbstractPrior, PriorAssignment, assign
from ergonet.models.prior.assignment import jitter
from ergonet.models.prior.density import Density
from ergonet.models.prior.groups import BY_INPUT
from ergonet.models.target import HierarchicalTarget, Origin

NUM_REFERENCE_ROWS = 20
RELEVANCE = "input relevance"  # among a posterior's scales, the one with an entry for every input


class BayesianNetwork(eqx.Module):
    """A network, the prior of its weights and a likelihood; all that predictions need besides the draws."""

    network: AbstractNetwork
    prior: PriorAssignment
    likelihood: AbstractLikelihood

    def __init__(
        self,
        network: Any,
        prior: AbstractPrior | Mapping[str, AbstractPrior],
        likelihood: AbstractLikelihood,
    ):
        """Check and keep the settings.

        Args:
            network: an `MLP`, or any Equinox module that maps one row to its outputs.
            prior: one prior for every leaf, or a mapping of leaf patterns to priors (`prior/assignment.py`).
            likelihood: the distribution of the targets.

        Raises:
            SettingError: an argument is not of its kind, or a pattern matches no leaf.
        """
        if not isinstance(likelihood, AbstractLikelihood):
            raise SettingError(
                f"`likelihood` must be a likelihood such as `likelihoods.Categorical()`, got {likelihood!r}."
            )
        self.network = as_network(network)
        self.prior = assign(prior, self.network.leaves())
        self.likelihood = likelihood

    @property
    def dim(self) -> int:
        """Number of coordinates of a position."""
        return self.prior.dim + sum(leaf.size for leaf in self.likelihood.leaves().values())

    def leaves(self) -> dict[str, Leaf]:
        """Every named array of a position, in order."""
        return self.network.leaves() | self.prior.own() | self.likelihood.leaves()

    def describe(self) -> str:
        """Which prior falls on which leaf, and every hyperparameter, a learned noise among them; a line each."""
        return self.prior.describe(self.likelihood.leaves())

    def split(self, position: Position) -> tuple[Weights, Weights]:
        """Weights of the network (not their coordinates), and the likelihood's own coordinates."""
        own, start = {}, self.prior.dim
        for path, leaf in self.likelihood.leaves().items():
            own[path] = position[start : start + leaf.size].reshape(leaf.shape)
            start += leaf.size
        return self.prior.split(position), own

    def hyperparameters(self, position: Position) -> Weights:
        """The prior's hyperparameters by name."""
        return self.prior.hyperparameters(position)

    def scales(self, position: Position) -> dict[str, Array]:
        """Learned standard deviations by name: those of the weights' priors, and the noise.

        Names such as `layers.0.weight by input`; one entry for every group.
        """
        named, found = self.hyperparameters(position), {}
        for block in self.prior.blocks():
            for part, values in block.prior.scales(block.hyperparameters(named), block.leaf).items():
                word = f"by {part}" if values.size > 1 else "" if part in ("leaf", "layer") else part
                found[f"{block.name} {word}".strip()] = values
        return found | self.likelihood.scales(self.split(position)[1])

    def overall_scales(self, position: Position) -> dict[str, Scalar]:
        """`scales` with one figure for each name, the root mean square of its groups, whatever the order of units."""
        scales = self.scales(position)
        return {name: jnp.exp(0.5 * (logsumexp(2 * jnp.log(v)) - math.log(v.size))) for name, v in scales.items()}

    @property
    def relevance(self) -> str:
        """Which of `scales` has one entry for every input of the network; empty where none has."""
        first = self.prior.blocks()[0]
        if not first.prior.by_input or first.paths != ("layers.0.weight",):
            return ""
        names = jax.eval_shape(self.scales, jax.ShapeDtypeStruct((self.dim,), jnp.float32))
        return next((name for name in names if name in {f"{first.name} by {group}" for group in BY_INPUT}), "")

    def outputs(self, position: Position, inputs: Array) -> Float[Array, "outputs rows"]:
        """Network outputs for prepared inputs."""
        return self.network.apply(self.prior.split(position), inputs)

    def sample_prior(self, key: PRNGKey, dtype: DTypeLike = jnp.float32) -> Position:
        """A position drawn from the prior."""
        key_weights, key_own = jax.random.split(key)
        own = self.likelihood.sample_prior(key_own, dtype)
        parts = [self.prior.sample(key_weights, dtype), *(value.reshape(-1) for value in own.values())]
        return jnp.concatenate(parts)

    def sample_start(self, key: PRNGKey, dtype: DTypeLike = jnp.float32) -> Position:
        """A place to start a chain from: from the prior, but with hyperparameters near moderate values.

        A vague prior of a precision reaches over many orders of magnitude, most of which no chain leaves soon.
        """
        key_weights, key_own = jax.random.split(key)
        own = jitter(key_own, self.likelihood.moderate(dtype))
        weights = self.prior.sample(key_weights, dtype, is_start=True)
        return jnp.concatenate([weights, *(value.reshape(-1) for value in own.values())])

    def prior_density(self, position: Position) -> Density:
        """Prior density of a position."""
        density = self.prior.density(position[: self.prior.dim])
        if not self.likelihood.leaves():
            return density
        return Density.product(density, Density.of_terms(self.likelihood.log_prior(self.split(position)[1])))

    def log_prior(self, position: Position) -> Scalar:
        """Log prior density of a position."""
        return self.prior_density(position).whole

    def num_outputs(self, inputs: AnyArray) -> int:
        """Outputs of the network for prepared inputs, by tracing only."""
        position = jax.ShapeDtypeStruct((self.dim,), jnp.float32)
        return jax.eval_shape(self.outputs, position, inputs).shape[0]

    def condition(self, x: Any, y: Any, *, reference: Any = None) -> "NetworkPosterior":
        """The posterior given data.

        Args:
            x: inputs `[rows, ...]`, finite.
            y: targets: class numbers `[rows]`, or reals `[rows]` or `[rows, targets]`.
            reference: inputs `[rows, ...]` whose predictions judge convergence; up to 20 of them are kept, spread
                over the inputs. None: taken from x.

        Raises:
            DataError: x or y is empty, not finite, or of different lengths.
            SettingError: the shapes do not fit the network.
        """
        x, y = _rows("x", x), np.asarray(y)  # NumPy checks: JAX would compile a program for each
        if y.ndim == 0 or y.shape[0] != x.shape[0]:
            raise DataError(f"`x` has {x.shape[0]} rows, but `y` has shape {list(y.shape)}. They must match.")
        if not np.all(np.isfinite(y.astype(x.dtype))):
            raise DataError("`y` holds NaN or infinity. Drop those rows or fill them in.")
        inputs = self.network.prepare(x)
        targets = np.asarray(self.likelihood.prepare(y, self.num_outputs(inputs)), x.dtype)
        shown = x if reference is None else _rows("reference", reference)
        chosen = choose_reference_rows(shown.reshape(shown.shape[0], -1), count=NUM_REFERENCE_ROWS)
        kept = inputs, targets, self.network.prepare(shown[np.asarray(chosen)])
        return NetworkPosterior(self, *jax.device_put(kept))


def _rows(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    dtype = array.dtype if np.issubdtype(array.dtype, np.floating) else np.float32
    array = array.astype(jax.dtypes.canonicalize_dtype(dtype))
    if array.ndim < 2 or array.shape[0] == 0:
        raise DataError(f"`{name}` must have shape [rows, features] with at least 1 row, got {list(array.shape)}.")
    bad = ~np.isfinite(array.reshape(array.shape[0], -1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"`{name}` holds {int(bad.sum())} values that are NaN or infinite, the first at row {row}, column {column} "
            f"(counted from 0). Drop those rows or fill them in."
        )
    return array


class NetworkPosterior(HierarchicalTarget):
    """The posterior of a `BayesianNetwork` given data; build it with `BayesianNetwork.condition`."""

    model: BayesianNetwork
    inputs: Array
    targets: Array
    reference: Array
    left_out: tuple[Density, Scalar] | None  # the prior, and the log likelihood of a row on average
    dim: int = eqx.field(static=True)

    def __init__(self, model: BayesianNetwork, inputs: Array, targets: Array, reference: Array):
        self.model = model
        self.inputs = inputs
        self.targets = targets
        self.reference = reference
        self.left_out = None
        self.dim = model.dim

    @property
    def num_rows(self) -> int:
        return self.targets.shape[1]

    def potential(self, position: Position) -> Scalar:
        density, rows = self.model.prior_density(position), self.log_likelihood(position)
        if self.left_out is None:
            return -(density.whole + jnp.sum(rows)).astype(position.dtype)
        prior, row = self.left_out
        return -(density.above(prior) + jnp.sum(rows - row)).astype(position.dtype)

    def _log_likelihood(self, position: Position, inputs: Array, targets: Array) -> Float[Array, "rows"]:
        weights, own = self.model.split(position)
        return self.model.likelihood.log_prob(own, self.model.network.apply(weights, inputs), targets)

    def unravel(self, position: Position) -> dict[str, Array]:
        weights, own = self.model.split(position)
        return dict(weights) | dict(self.model.hyperparameters(position)) | dict(own)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.model.sample_start(key, self.targets.dtype)

    def offers(self, capability: str) -> bool:
        if capability in ("gibbs", "weight curvature", "centered curvature", "non-centered curvature"):
            return not self.lacks(capability)
        return capability in ("monitor", "log_likelihood", "minibatch_potential")

    @property
    def num_weights(self) -> int:
        return self.model.prior.num_weights

    def lacks(self, capability: str) -> str:
        if self.dim == self.num_weights:
            return "the model has no hyperparameters: give weights a prior such as `NormalGamma`, or learn the noise"
        if capability == "gibbs":
            return self.model.prior.lacks_conjugacy
        if capability == "weight curvature":
            return lacks_weight_curvature(self.model, centered=True)
        return lacks_curvature(self.model, centered=capability == "centered curvature")

    def scales(self, position: Position) -> dict[str, Array]:
        relevance = self.model.relevance
        of_inputs = {RELEVANCE: self.model.scales(position)[relevance]} if relevance else {}
        return self.model.overall_scales(position) | of_inputs

    def gibbs(self, key: PRNGKey, position: Position) -> Float[Array, "hyperparameters"]:
        key_prior, key_own = jax.random.split(key)
        drawn, (weights, own) = self.model.prior.gibbs(key_prior, position), self.model.split(position)
        if own:
            outputs = self.model.network.apply(weights, self.inputs)
            found = self.model.likelihood.gibbs(key_own, outputs, self.targets)
            drawn = jnp.concatenate([drawn, *(found[path].reshape(-1) for path in own)])
        return drawn

    def weight_curvature(self, hyperparameters: Float[Array, "hyperparameters"]) -> Float[Array, "weights"]:
        return weight_curvature(self, hyperparameters)

    def hyperparameter_curvature(self, weights: Float[Array, "weights"]) -> Float[Array, "hyperparameters"]:
        return hyperparameter_curvature(self, weights)

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        weights, own = self.model.split(position)
        return self.model.likelihood.monitor(own, self.model.network.apply(weights, self.reference)).reshape(-1)

    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        return self._log_likelihood(position, self.inputs, self.targets)

    def rows(self) -> tuple[Array, Array]:
        """Inputs `[rows, ...]` and prepared targets `[rows, targets]`."""
        return self.model.network.rows_first(self.inputs), self.targets.T

    def minibatch_potential(self, position: Position, rows: tuple[Array, Array]) -> Scalar:
        x, targets = rows
        scale = self.num_rows / targets.shape[0]
        inputs = self.model.network.prepare(x)
        likelihood = scale * jnp.sum(self._log_likelihood(position, inputs, targets.T))
        return -(self.model.log_prior(position) + likelihood).astype(position.dtype)

    def origin(self, position: Position) -> Origin:
        density, rows = self.model.prior_density(position), self.log_likelihood(position)
        return Origin(-(density.whole + jnp.sum(rows)).astype(position.dtype), (density, jnp.mean(rows)))

    def around(self, origin: Origin) -> "NetworkPosterior":
        return eqx.tree_at(lambda one: one.left_out, self, origin.parts, is_leaf=lambda leaf: leaf is None)

    def explain(self, position: Position) -> str:
        own = self.model.split(position)[1]
        for path, leaf in self.unravel(position).items():
            if not bool(jnp.all(jnp.isfinite(leaf))):
                return f"the leaf {path} holds values that are not finite"
        named = self.model.hyperparameters(position)
        for block in self.model.prior.blocks():
            coordinates, hyperparameters = block.coordinates(position), block.hyperparameters(named)
            density = block.prior.log_density(coordinates, hyperparameters, block.leaf)
            if not bool(jnp.isfinite(density)):
                return f"the prior {block.prior!r} of the leaf {', '.join(block.paths)} is {density} there"
        if not bool(jnp.isfinite(self.model.likelihood.log_prior(own))):
            return f"the prior of the parameters of {self.model.likelihood!r} is not finite there"
        rows = self.log_likelihood(position)
        bad = ~jnp.isfinite(rows)
        if bool(bad.any()):
            first = int(jnp.argmax(bad))
            return (
                f"the log likelihood {self.model.likelihood!r} of row {first} (counted from 0) is {rows[first]} there, "
                f"and of {int(bad.sum())} rows in all; are x and y standardised?"
            )
        return "every prior and the log likelihood are finite there, but their sum or its gradient is not"
