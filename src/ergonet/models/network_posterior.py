"""A Bayesian neural network, and its posterior as a target.

A position consists of the coordinates of all weights, leaf by leaf, then the hyperparameters of the prior, then the
coordinates of the likelihood's parameters. The log posterior is the log prior of all of these plus the log likelihood
summed over rows.
"""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import logsumexp
from jax.typing import DTypeLike

from ergonet import _notebook
from ergonet._errors import DataError, SettingError
from ergonet._fork import require_jax
from ergonet._types import AnyArray, Array, Float, Int, Position, PRNGKey, Scalar
from ergonet.diagnostics.function_space import choose_reference_rows
from ergonet.models.checked import CLASSES, checked_rows, numbers
from ergonet.models.curvature import NetworkCurvature
from ergonet.models.divided import DivisibleNetwork
from ergonet.models.equinox import as_network
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.network import DIRECT, EMBEDDINGS, FIRST, AbstractNetwork, Leaf, Weights, cut
from ergonet.models.prior import AbstractPrior, PriorAssignment, assign
from ergonet.models.prior.assignment import jitter
from ergonet.models.prior.density import Density
from ergonet.models.prior.groups import BY_INPUT
from ergonet.models.simulation import NetworkSimulation
from ergonet.models.weighting import prepared
from ergonet.target.capabilities import (
    CenteredCurvature,
    GibbsBlock,
    Monitor,
    NonCenteredCurvature,
    PointwiseLogLikelihood,
    Rows,
    Scales,
    WeightCurvature,
)
from ergonet.target.contract import AbstractTarget, Capability, CapabilityT, Missing, ReferencePoint, own_capability
from ergonet.target.padding import SMALLEST, is_row, padded_index, without_padding

NUM_REFERENCE_ROWS = 20
NO_HYPERPARAMETERS = "the model has no hyperparameters: give weights a prior such as `NormalGamma`, or learn the noise"
RELEVANCE = "input relevance"  # name, among a posterior's scales, of the one with an entry per input


class BayesianNetwork(eqx.Module):
    """A network, a prior of its weights and a likelihood: everything that predictions need besides the draws."""

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
            prior: one prior for all leaves, or a mapping of leaf patterns to priors (`prior/assignment.py`).
            likelihood: the distribution of the targets.

        Raises:
            SettingError: an argument has the wrong type, or a pattern matches no leaf.
        """
        self.likelihood = _likelihood(likelihood)
        self.network = as_network(network)
        self.prior = assign(prior, self.network.leaves())

    def __repr__(self) -> str:
        return _notebook.line(self, self.facts())

    def _repr_html_(self) -> str:
        return _notebook.table(self, self.facts())

    def facts(self) -> dict[str, object]:
        """What a reader wants to know first: the network, the names of priors and likelihood, and the dimension."""
        names = dict.fromkeys(type(block.prior).__name__ for block in self.prior.blocks())
        likelihood = type(self.likelihood).__name__
        return {"network": self.network, "prior": " and ".join(names), "likelihood": likelihood, "dim": self.dim}

    @property
    def dim(self) -> int:
        """Number of coordinates of a position."""
        return self.prior.dim + sum(leaf.size for leaf in self.likelihood.leaves().values())

    def leaves(self) -> dict[str, Leaf]:
        """All named arrays of a position, in order."""
        return self.network.leaves() | self.prior.own() | self.likelihood.leaves()

    def describe(self) -> str:
        """Describe the prior of every leaf and all hyperparameters, including learned noise, one per line."""
        return self.prior.describe(self.likelihood.leaves())

    def split(self, position: Position) -> tuple[Weights, Weights]:
        """Weights of the network (not their coordinates), and the coordinates of the likelihood's parameters."""
        return self.prior.split(position), cut(position[self.prior.dim :], self.likelihood.leaves())

    def hyperparameters(self, position: Position) -> Weights:
        """The prior's hyperparameters by name."""
        return self.prior.hyperparameters(position)

    def scales(self, position: Position) -> dict[str, Array]:
        """Learned standard deviations by name: scales of the weights' priors, and the noise.

        Names are such as `layers.0.weight by input`; there is one entry per group.
        """
        named, found = self.hyperparameters(position), {}
        for block in self.prior.blocks():
            for part, values in block.prior.scales(block.hyperparameters(named), block.leaf).items():
                word = f"by {part}" if values.size > 1 else "" if part in ("leaf", "layer") else part
                found[f"{block.name} {word}".strip()] = values
        return found | self.likelihood.scales(self.split(position)[1])

    def overall_scales(self, position: Position) -> dict[str, Scalar]:
        """`scales` with one value per name, the root mean square over groups, which no permutation of units changes."""
        scales = self.scales(position)
        return {name: jnp.exp(0.5 * (logsumexp(2 * jnp.log(v)) - math.log(v.size))) for name, v in scales.items()}

    @property
    def relevance(self) -> str:
        """The name among `scales` with one entry per first-layer input; empty if none has, or inputs act directly."""
        first = next((one for one in self.prior.blocks() if not one.paths[0].startswith(EMBEDDINGS)), None)
        if first is None or not first.prior.by_input or first.paths != FIRST or DIRECT in self.network.leaves():
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
        """Draw initial values of a chain from the prior, with hyperparameters close to their `initial_values`.

        A vague prior of a precision covers many orders of magnitude, most of which a chain would not leave soon.
        """
        key_weights, key_own = jax.random.split(key)
        own = jitter(key_own, self.likelihood.initial_values(dtype))
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

    def condition(self, x: Any, y: Any, *, reference: Any = None, weights: Any = None) -> "NetworkPosterior":
        """Condition on data.

        Args:
            x: inputs `[rows, ...]`, finite.
            y: targets: class indices `[rows]`, or real values `[rows]` or `[rows, targets]`.
            reference: inputs `[rows, ...]` on whose predictions convergence is judged; up to 20 rows, spread over the
                inputs, are used. None: chosen from `x`.
            weights: weight of each row `[rows]`, at least 0, a power of its likelihood; None: 1.

        Raises:
            DataError: `x` or `y` is empty or not finite, or their lengths differ.
            SettingError: the shapes do not match the network.
        """
        require_jax()
        x, y = checked_rows("x", x), numbers("y", y, CLASSES)  # NumPy: JAX would compile a program for each check
        if y.ndim == 0 or y.shape[0] != x.shape[0]:
            raise DataError(f"`x` has {x.shape[0]} rows, but `y` has shape {list(y.shape)}. They must match.")
        if not np.all(np.isfinite(y.astype(x.dtype))):
            raise DataError("`y` contains NaN or infinite values. Drop these rows or impute the values.")
        inputs, count = self.network.prepare(x), None
        model, targets = prepared(self, y, self.num_outputs(inputs), weights)
        targets = targets.astype(x.dtype)
        shown = x if reference is None else checked_rows("reference", reference)
        shown = self.network.prepare(shown[choose_reference_rows(shown, count=NUM_REFERENCE_ROWS)])
        if len(x) > SMALLEST and not self.network.rows_interact:
            index = padded_index(len(x))
            inputs, targets, count = self.network.prepare(x[index]), targets[:, index], np.int32(len(x))
        return NetworkPosterior(model, *jax.device_put((inputs, targets, shown, count)))


def _likelihood(value: Any) -> AbstractLikelihood:
    if not isinstance(value, AbstractLikelihood):
        raise SettingError(f"`likelihood` must be a likelihood such as `likelihoods.Categorical()`, got {value!r}.")
    return value


class AbstractNetworkPosterior(AbstractTarget, Monitor, Rows, Scales):
    """The posterior of a `BayesianNetwork`, with rows on the device or on the host."""

    model: eqx.AbstractVar[BayesianNetwork]
    reference: eqx.AbstractVar[Array]

    def _facts(self) -> dict[str, object]:
        return self.model.facts() | {"rows": self.num_rows}

    def unravel(self, position: Position) -> dict[str, Array]:
        weights, own = self.model.split(position)
        return dict(weights) | dict(self.model.hyperparameters(position)) | dict(own)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.model.sample_start(key, self.reference.dtype)

    def scales(self, position: Position) -> dict[str, Array]:
        model, relevance = self.model, self.model.relevance
        of_inputs = {RELEVANCE: model.network.of_inputs(model.scales(position)[relevance])} if relevance else {}
        return model.overall_scales(position) | of_inputs

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        weights, own = self.model.split(position)
        return self.model.likelihood.monitor(own, self.model.network.apply(weights, self.reference)).reshape(-1)

    def minibatch_potential(self, position: Position, rows: tuple[Array, Array]) -> Scalar:
        x, targets = rows
        scale = self.num_rows / targets.shape[0]
        likelihood = scale * jnp.sum(_log_likelihood(self.model, position, self.model.network.prepare(x), targets.T))
        return -(self.model.log_prior(position) + likelihood).astype(position.dtype)


class NetworkPosterior(AbstractNetworkPosterior, PointwiseLogLikelihood, DivisibleNetwork, NetworkSimulation):
    """The posterior of a `BayesianNetwork` given data; make it with `BayesianNetwork.condition`.

    Its arrays are padded, so that posteriors of about as many rows share compiled programs (`padding.py`). Padding has
    no part in the density, and nothing that is returned shows it.
    """

    model: BayesianNetwork
    padded_inputs: Array
    padded_targets: Array
    reference: Array
    count: Int[Array, ""] | None  # rows that are not padding, which come first; None: all
    left_out: tuple[Density, Scalar] | None  # the prior, and the mean log likelihood of a row
    dim: int = eqx.field(static=True)

    def __init__(
        self, model: BayesianNetwork, inputs: Array, targets: Array, reference: Array, count: Array | None = None
    ):
        self.model = model
        self.padded_inputs, self.padded_targets, self.count = inputs, targets, count
        self.reference, self.left_out, self.dim = reference, None, model.dim

    @property
    def num_rows(self) -> Any:
        """Rows of the data: an integer, traced where the posterior is an argument of a compiled function."""
        count = self.padded_targets.shape[1] if self.count is None else self.count
        return count if isinstance(count, Tracer) else int(count)

    @property
    def inputs(self) -> Array:
        """Prepared inputs of all rows."""
        return self.padded_inputs if self._is_full else self.model.network.prepare(self.rows()[0])

    @property
    def targets(self) -> Array:
        """Prepared targets `[targets, rows]`."""
        return self.padded_targets if self._is_full else self.padded_targets[:, : self.num_rows]

    @property
    def _is_full(self) -> bool:
        """Whether there is no padding; where `num_rows` is traced, this is an error of JAX."""
        return self.count is None or int(self.count) == self.padded_targets.shape[1]

    @property
    def num_weights(self) -> int:
        """Coordinates of the weights; the hyperparameters follow them."""
        return self.model.prior.num_weights

    @property
    def curvature(self) -> NetworkCurvature:
        """The curvatures, whether or not they apply; see `capability`."""
        own = self.model.network, self.model.prior, self.model.likelihood
        return NetworkCurvature(*own, self.padded_inputs, self.padded_targets, self.count)

    def potential(self, position: Position) -> Scalar:
        density, (prior, row) = self.model.prior_density(position), self.left_out or (None, None)
        above = density.whole if prior is None else density.above(prior)
        return -(above + self.sum_over_rows(position, above=row)).astype(position.dtype)

    def sum_over_rows(self, position: Position, *, above: Scalar | None = None) -> Scalar:
        """The sum over rows of their log likelihoods above a value."""
        rows = _log_likelihood(self.model, position, self.padded_inputs, self.padded_targets)
        return jnp.sum(without_padding(rows if above is None else rows - above, self.count))

    def log_likelihood(self, position: Position, rows: Int[Array, "row"] | None = None) -> Float[Array, "row"]:
        if rows is None:
            return _log_likelihood(self.model, position, self.inputs, self.targets)
        x, targets = self.take(rows)
        return _log_likelihood(self.model, position, self.model.network.prepare(x), targets.T)

    def rows(self) -> tuple[Array, Array]:
        """Inputs `[rows, ...]` and prepared targets `[rows, targets]`."""
        inputs, targets = self.model.network.rows_first(self.padded_inputs), self.padded_targets.T
        return (inputs, targets) if self._is_full else (inputs[: self.num_rows], targets[: self.num_rows])

    def take(self, indices: Int[Array, "row"]) -> tuple[Array, Array]:
        return self.model.network.rows_first(self.padded_inputs)[indices], self.padded_targets[:, indices].T

    def reference_point(self, position: Position) -> ReferencePoint:
        density, likelihood = self.model.prior_density(position), self.sum_over_rows(position)
        potential = -(density.whole + likelihood).astype(position.dtype)
        return ReferencePoint(potential, (density, likelihood / self.num_rows))

    def relative_to(self, reference: ReferencePoint) -> "NetworkPosterior":
        return eqx.tree_at(lambda one: one.left_out, self, reference.parts, is_leaf=lambda leaf: leaf is None)

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        found = self._of_blocks(kind)
        return found if isinstance(found, kind | Missing) else own_capability(self, kind)

    def _of_blocks(self, kind: type[Capability]) -> Capability | Missing | None:
        """Capabilities that need hyperparameters; None if `kind` is not one of them."""
        if not issubclass(kind, GibbsBlock | WeightCurvature):
            return None
        if self.dim == self.num_weights:
            return Missing(NO_HYPERPARAMETERS)
        if kind is GibbsBlock:
            lacks = self.model.prior.lacks_conjugacy or self.model.likelihood.lacks_conjugacy
            return Missing(lacks) if lacks else NetworkGibbs(self)
        if kind is WeightCurvature:
            lacks = self.curvature.lacks_of_weights(centered=True)
        elif kind in (CenteredCurvature, NonCenteredCurvature):
            lacks = self.curvature.lacks(centered=kind is CenteredCurvature)
        else:
            return None
        return Missing(lacks) if lacks else self.curvature

    def explain(self, position: Position) -> str:
        own = self.model.split(position)[1]
        for path, leaf in self.unravel(position).items():
            if not bool(jnp.all(jnp.isfinite(leaf))):
                return f"the leaf {path} contains values that are not finite"
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
            first, count = int(jnp.argmax(bad)), int(bad.sum())
            found = f"of row {first} (counted from 0) is {rows[first]} there, and of {count} rows in all"
            return f"the log likelihood {self.model.likelihood!r} {found}; are x and y standardized?"
        return "every prior and the log likelihood are finite there, but their sum or its gradient is not"


class NetworkGibbs(GibbsBlock):
    """Gibbs draws of a network's hyperparameters given its weights; each costs one pass through the network."""

    posterior: NetworkPosterior

    @property
    def num_weights(self) -> int:
        return self.posterior.num_weights

    def draw(self, key: PRNGKey, position: Position) -> Float[Array, "hyperparameters"]:
        model, posterior = self.posterior.model, self.posterior
        key_prior, key_own = jax.random.split(key)
        drawn, (weights, own) = model.prior.gibbs(key_prior, position), model.split(position)
        if own:
            outputs, targets = model.network.apply(weights, posterior.padded_inputs), posterior.padded_targets
            flags = None if posterior.count is None else is_row(targets.shape[1], posterior.count)
            found = model.likelihood.gibbs(key_own, outputs, targets, flags)
            drawn = jnp.concatenate([drawn, *(found[path].reshape(-1) for path in own)])
        return drawn


def _log_likelihood(model: BayesianNetwork, position: Position, inputs: Array, targets: Array) -> Float[Array, "row"]:
    """Log likelihood of each row, from prepared inputs."""
    weights, own = model.split(position)
    return model.likelihood.log_prob(own, model.network.apply(weights, inputs), targets)
