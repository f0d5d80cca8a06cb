"""Densities that are parts of a target: the weights given the hyperparameters, and what one minibatch shows."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Float, Position, Scalar
from ergonet.target.capabilities import Rows
from ergonet.target.contract import AbstractDensity


class WeightsGiven(AbstractDensity):
    """The density of a target's weights, with its hyperparameters held."""

    target: AbstractDensity
    hyperparameters: Float[Array, "hyperparameters"]
    dim: int = eqx.field(static=True)

    def potential(self, position: Position) -> Scalar:
        return self.target.potential(jnp.concatenate([position, self.hyperparameters]))


class OnRows(AbstractDensity):
    """A target as one minibatch shows it: its potential is the minibatch's."""

    data: Rows
    minibatch: Any
    dim: int = eqx.field(static=True)

    def potential(self, position: Position) -> Scalar:
        return self.data.minibatch_potential(position, self.minibatch)
