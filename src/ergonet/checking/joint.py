"""Positions and data drawn together: what calibration and Geweke's test need of a model."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import CapabilityError
from ergonet._types import Array, Position, PRNGKey
from ergonet.models.likelihood import Gaussian
from ergonet.models.network_posterior import NetworkPosterior
from ergonet.models.prior import NormalGamma
from ergonet.models.prior.assignment import Block
from ergonet.models.prior.horseshoe import AbstractHorseshoe
from ergonet.models.weighting import Weighted
from ergonet.target.contract import AbstractTarget


class AbstractJoint(eqx.Module):
    """A joint distribution of a position and data; `NetworkJoint` is that of a network, its prior and likelihood."""

    @abc.abstractmethod
    def draw(self, key: PRNGKey) -> Position:
        """Draw a position from the prior."""

    @abc.abstractmethod
    def simulate(self, key: PRNGKey, position: Position) -> Any:
        """Draw data given a position, as arrays."""

    @abc.abstractmethod
    def given(self, data: Any) -> AbstractTarget:
        """The posterior given data."""

    @abc.abstractmethod
    def quantities(self, data: Any, position: Position) -> dict[str, Array]:
        """What is compared, by name; functions of data and position."""


class NetworkJoint(AbstractJoint):
    """The joint distribution of a network's position and the targets of given inputs.

    Attributes:
        posterior: of the network given its inputs and any targets.
        num_rows: rows of these.
    """

    posterior: NetworkPosterior
    num_rows: int = eqx.field(static=True)

    @staticmethod
    def of(posterior: Any) -> "NetworkJoint":
        """From the posterior that `BayesianNetwork.condition` returns.

        Raises:
            CapabilityError: it is another target, or its rows have weights, so that targets cannot be drawn.
        """
        if not isinstance(posterior, NetworkPosterior):
            raise CapabilityError(
                f"`check` draws positions and data, which {type(posterior).__name__} cannot. Pass the posterior of a "
                f"`BayesianNetwork`, or an `ergonet.checking.AbstractJoint` of your own."
            )
        if isinstance(posterior.model.likelihood, Weighted):
            raise CapabilityError("`check` cannot draw targets of rows with weights. Leave the weights out.")
        return NetworkJoint(posterior, posterior.num_rows)

    def draw(self, key: PRNGKey) -> Position:
        return self.posterior.model.sample_prior(key, self.posterior.padded_inputs.dtype)

    def simulate(self, key: PRNGKey, position: Position) -> Array:
        """Prepared targets `[targets, rows]`, with those of the padding."""
        posterior, (own, outputs) = self.posterior, self._outputs(position)
        drawn, prepared = posterior.model.likelihood.sample(key, own, outputs), posterior.padded_targets
        if posterior.model.likelihood.is_classification and len(prepared) > 1:
            drawn = drawn == jnp.arange(len(prepared))[:, None]
        return jnp.asarray(drawn, prepared.dtype)

    def given(self, data: Array) -> NetworkPosterior:
        return eqx.tree_at(lambda one: one.padded_targets, self.posterior, data)

    def quantities(self, data: Array, position: Position) -> dict[str, Array]:
        """Weights, hyperparameters and parameters of the likelihood by name; residuals; densities.

        Also sums of squares over their variances, chi-squared by block of weights and for the noise, in which weights
        and the hyperparameters of the same moment meet: a stale gradient shows nowhere else.
        """
        model, (own, outputs) = self.posterior.model, self._outputs(position)
        weights, named = model.split(position)[0], model.hyperparameters(position)
        residuals = (data - model.likelihood.mean(own, outputs))[:, : self.num_rows]
        rows = model.likelihood.log_prob(own, outputs, data)[: self.num_rows]
        seen = {**weights, **named, **own, "residuals": residuals}
        if isinstance(model.likelihood, Gaussian):
            seen["squared residuals"] = jnp.sum((residuals / model.likelihood.scale(own)) ** 2)
        for block in model.prior.blocks():
            if (squares := _squares(block, weights, block.hyperparameters(named))) is not None:
                seen[f"squares of {block.name}"] = squares
        return seen | {"log prior": model.log_prior(position), "log likelihood": jnp.sum(rows)}

    def _outputs(self, position: Position) -> tuple[Any, Array]:
        weights, own = self.posterior.model.split(position)
        return own, self.posterior.model.network.apply(weights, self.posterior.padded_inputs)


def _squares(block: Block, weights: Any, hyperparameters: Any) -> Array | None:
    """The sum of squares of a block over their variances; None if these are not learned."""
    if isinstance(block.prior, NormalGamma):
        log_scale = -0.5 * block.prior.log_precisions(hyperparameters, block.leaf)[-1]
    elif isinstance(block.prior, AbstractHorseshoe):
        log_scale = block.prior.log_scale(hyperparameters, block.leaf)
    else:
        return None
    together = jnp.concatenate([weights[path].reshape(-1) for path in block.paths]).reshape(block.leaf.shape)
    return jnp.sum((together * jnp.exp(-log_scale)) ** 2)


def draw_all(joint: AbstractJoint, key: PRNGKey) -> tuple[Position, Any]:
    """A position from the prior, and data given it."""
    key_position, key_data = jax.random.split(key)
    position = joint.draw(key_position)
    return position, joint.simulate(key_data, position)
