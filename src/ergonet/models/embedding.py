"""A multilayer perceptron with a learned embedding for each column of many categories."""

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError
from ergonet._types import AnyArray, Array, Float
from ergonet.models.network import EMBEDDINGS, MLP, AbstractNetwork, Leaf, Weights


class EmbeddedMLP(AbstractNetwork):
    """An MLP whose last inputs are indices of categories, each replaced by the row of a table of weights.

    The tables `embeddings.0.weight` `[categories, width]` are weights like all others. The last row of a table is for
    categories that no training row has: its posterior is its prior. The other weights have the names of `MLP`.
    """

    levels: tuple[int, ...] = eqx.field(static=True)
    widths: tuple[int, ...] = eqx.field(static=True)
    perceptron: MLP

    def __init__(
        self,
        sizes: Sequence[int],
        levels: Sequence[int],
        *,
        activation: str = "tanh",
        bias: bool = True,
        direct: bool = False,
    ):
        """Check and keep the settings.

        Args:
            sizes: as of `MLP`; the first one counts the indices, too.
            levels: rows of each table; the inputs that index them are the last ones.
            activation: as of `MLP`.
            bias: as of `MLP`.
            direct: as of `MLP`; embeddings are connected, too.

        Raises:
            SettingError: as of `MLP`.
        """
        self.levels = tuple(levels)
        self.widths = tuple(width(one) for one in self.levels)
        inputs = sizes[0] - len(self.levels) + sum(self.widths)
        self.perceptron = MLP((inputs, *sizes[1:]), activation=activation, bias=bias, direct=direct)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Units of each layer of the perceptron; the first counts the numbers that replace the indices."""
        return self.perceptron.sizes

    @property
    def num_inputs(self) -> int:
        """Number of network inputs, indices included."""
        return self.perceptron.sizes[0] - sum(self.widths) + len(self.levels)

    def leaves(self) -> dict[str, Leaf]:
        tables = zip(self.levels, self.widths, strict=True)
        found = {f"{EMBEDDINGS}{i}.weight": Leaf(shape=shape, fan_in=1) for i, shape in enumerate(tables)}
        return found | self.perceptron.leaves()

    def prepare(self, x: AnyArray) -> Any:
        if x.ndim != 2 or x.shape[1] != self.num_inputs:
            raise SettingError(
                f"This network takes x of shape [rows, {self.num_inputs}], of which the last {len(self.levels)} are "
                f"indices of categories, got {list(x.shape)}."
            )
        return x.T

    def rows_first(self, inputs: Array) -> Array:
        return inputs.T

    def apply(self, weights: Weights, inputs: Array) -> Float[Array, "outputs rows"]:
        plain, indices = inputs[: -len(self.levels)], inputs[-len(self.levels) :].astype(jnp.int32)
        found = [weights[f"{EMBEDDINGS}{i}.weight"].T[:, index] for i, index in enumerate(indices)]
        return self.perceptron.apply(weights, jnp.concatenate([plain, *found]))

    def of_inputs(self, scales: Float[Array, "units"]) -> Float[Array, "inputs"]:
        """Of an index, the root mean square over the numbers that replace it, whose order has no meaning."""
        starts = np.cumsum([len(scales) - sum(self.widths), *self.widths])[:-1]
        plain, *numbers = jnp.split(scales, starts)
        return jnp.concatenate([plain, *(jnp.sqrt(jnp.mean(one**2, keepdims=True)) for one in numbers)])


def width(levels: int) -> int:
    """Numbers that stand for a category: the fourth root of the number of categories, rounded up, at least 2."""
    return max(2, math.ceil(levels**0.25))
