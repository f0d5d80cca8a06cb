"""Simulated targets of the rows of a network's posterior."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._types import Array, Float, Int, Position, PRNGKey
from ergonet.target.capabilities import Simulation


class NetworkSimulation(Simulation):
    """Targets drawn from the likelihood of a network; a part of `NetworkPosterior`."""

    model: eqx.AbstractVar[Any]
    padded_inputs: eqx.AbstractVar[Array]
    padded_targets: eqx.AbstractVar[Array]

    def observed(self) -> np.ndarray:
        """Without what a likelihood keeps beside the targets of a row."""
        targets, outputs = (
            np.asarray(self.padded_targets)[:, : self.num_rows],
            self.model.num_outputs(self.padded_inputs),
        )
        if self.model.likelihood.is_classification and outputs > 1:
            return targets[:outputs].argmax(axis=0)[None]
        position = jax.ShapeDtypeStruct((self.model.dim,), self.padded_inputs.dtype)
        found = jax.eval_shape(self.simulate, jax.random.key(0), position, jax.ShapeDtypeStruct((1,), np.int32))
        return targets[: found.shape[0]]

    def simulate(self, key: PRNGKey, position: Position, rows: Int[Array, "row"]) -> Float[Array, "target row"]:
        network, likelihood = self.model.network, self.model.likelihood
        weights, own = self.model.split(position)
        inputs = network.prepare(network.rows_first(self.padded_inputs)[rows])
        return jnp.asarray(likelihood.sample(key, own, network.apply(weights, inputs)))
