"""What kernels for weights and hyperparameters share: the two blocks, and the weights alone as a target."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._errors import CapabilityError
from ergonet._types import Array, Float, Position, PRNGKey, Scalar
from ergonet.models.target import HierarchicalTarget, Origin, Target


def require_blocks(owner: str, target: Target, *capabilities: str) -> HierarchicalTarget:
    """The target as one with hyperparameters that offers every capability.

    Raises:
        CapabilityError: it does not; the message says why.
    """
    if not isinstance(target, HierarchicalTarget):
        raise CapabilityError(
            f"`{owner}` samples weights and hyperparameters of a `BayesianNetwork`, but {type(target).__name__} does "
            f"not tell them apart. Use `NUTS()`, which takes any target."
        )
    for capability in capabilities:
        reason = target.lacks(capability)
        if reason:
            raise CapabilityError(f"`{owner}` needs {capability} from the target: {reason}. Or use `NUTS()`.")
    return target


class WeightsGiven(Target):
    """The weights of a target with its hyperparameters held."""

    target: Target
    hyperparameters: Float[Array, "hyperparameters"]
    dim: int = eqx.field(static=True)

    def whole(self, weights: Float[Array, "weights"]) -> Float[Array, "whole"]:
        """The position with the hyperparameters."""
        return jnp.concatenate([weights, self.hyperparameters])

    def potential(self, position: Position) -> Scalar:
        return self.target.potential(self.whole(position))

    def unravel(self, position: Position) -> Any:
        return self.target.unravel(self.whole(position))

    def initial_position(self, key: PRNGKey) -> Position:
        return self.target.initial_position(key)[: self.dim]

    def offers(self, capability: str) -> bool:
        return self.target.offers(capability)

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        return self.target.monitor(self.whole(position))

    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        return self.target.log_likelihood(self.whole(position))

    @property
    def num_rows(self) -> int:
        return self.target.num_rows

    def rows(self) -> Any:
        return self.target.rows()

    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        return self.target.minibatch_potential(self.whole(position), rows)

    def origin(self, position: Position) -> Origin:
        return self.target.origin(self.whole(position))

    def around(self, origin: Origin) -> "WeightsGiven":
        return WeightsGiven(target=self.target.around(origin), hyperparameters=self.hyperparameters, dim=self.dim)

    def explain(self, position: Position) -> str:
        return self.target.explain(self.whole(position))
