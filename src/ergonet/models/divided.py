"""The posterior of a network whose rows are divided over devices."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ergonet._errors import CapabilityError
from ergonet._types import Array, Float, Int, Position, PRNGKey, Scalar
from ergonet.target.capabilities import Divisible, Monitor, Scales
from ergonet.target.contract import AbstractTarget, CapabilityT, Missing, ReferencePoint, own_capability
from ergonet.target.shards import RowShards

DIVIDED = "its rows are divided over devices, and that needs all of them on one"


class DivisibleNetwork(Divisible):
    """What lets a `NetworkPosterior` divide its rows."""

    def divided(self, shards: RowShards) -> "DividedPosterior":
        whole: Any = self
        network, parts = whole.model.network, shards.num_shares
        if network.rows_interact:
            raise CapabilityError(
                "The network normalizes by the statistics of all rows, so they cannot be divided. Use another "
                "normalization, or another value of `devices` than `RowShards`."
            )
        x, targets = (np.asarray(one) for one in whole.rows())
        size = -(-len(x) // parts)
        index = (np.arange(parts * size) % len(x)).reshape(parts, size)
        counts = np.clip(len(x) - size * np.arange(parts), 0, size).astype(np.int32)
        inputs = np.stack([np.asarray(network.prepare(x[rows])) for rows in index])
        rest = eqx.tree_at(
            lambda one: (one.padded_inputs, one.padded_targets, one.count),
            whole,
            (None, None, None),
            is_leaf=lambda leaf: leaf is None,
        )
        data = shards.parts((inputs, targets[index].transpose(0, 2, 1), counts))
        numbers = jnp.asarray(len(x), jnp.float32), jnp.asarray(parts // len(shards.found), jnp.int32)
        rest, (num_rows, most) = shards.copies((rest, numbers))
        return DividedPosterior(rest=rest, data=data, num_rows=num_rows, most=most, shards=shards, dim=whole.dim)


class DividedPosterior(AbstractTarget, Monitor, Scales):
    """A `NetworkPosterior` with its rows in parts."""

    rest: Any  # the posterior without its rows
    data: tuple[Array, Array, Int[Array, "part"]]  # inputs, targets and numbers of rows, [part, ...]
    num_rows: Float[Array, ""]
    most: Int[Array, ""]  # parts of each device
    shards: RowShards = eqx.field(static=True)
    dim: int = eqx.field(static=True)

    def potential(self, position: Position) -> Scalar:
        density, (prior, _) = self.rest.model.prior_density(position), self.rest.left_out or (None, None)
        above = density.whole if prior is None else density.above(prior)
        return -(above - self._rows(position)).astype(position.dtype)

    def _rows(self, position: Position) -> Scalar:
        """Minus the sum of the log likelihoods of all rows, above their mean at the reference point if there is one."""
        arrays, settings = eqx.partition(self.rest, eqx.is_array)

        def of_part(position: Position, same: Any, part: Any) -> Scalar:
            rest = eqx.combine(same, settings)
            above = None if rest.left_out is None else rest.left_out[1]
            return -_with_rows(rest, part).sum_over_rows(position, above=above).astype(position.dtype)

        return self.shards.total(of_part, position, arrays, self.data, most=self.most)

    def unravel(self, position: Position) -> Any:
        return self.rest.unravel(position)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.rest.initial_position(key)

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        return self.rest.monitor(position)

    def scales(self, position: Position) -> dict[str, Array]:
        return self.rest.scales(position)

    def reference_point(self, position: Position) -> ReferencePoint:
        whole = eqx.tree_at(lambda one: one.rest.left_out, self, None, is_leaf=lambda leaf: leaf is None)
        density, rows = self.rest.model.prior_density(position), whole._rows(position)  # noqa: SLF001  its own
        return ReferencePoint(-(density.whole - rows).astype(position.dtype), (density, -rows / self.num_rows))

    def relative_to(self, reference: ReferencePoint) -> "DividedPosterior":
        return eqx.tree_at(lambda one: one.rest, self, self.rest.relative_to(reference))

    def capability(self, kind: type[CapabilityT]) -> CapabilityT | Missing:
        found = own_capability(self, kind)
        return Missing(DIVIDED) if isinstance(found, Missing) else found

    def explain(self, position: Position) -> str:
        return "the density of divided rows was not finite; look at the prior, and at the scale of x and y"


def _with_rows(rest: Any, part: Any) -> Any:
    return eqx.tree_at(
        lambda one: (one.padded_inputs, one.padded_targets, one.count), rest, part, is_leaf=lambda leaf: leaf is None
    )
