"""Networks: functions of named weight arrays.

Internally, data are `[features, rows]` and activations `[units, rows]`: with rows on the last axis every activation is
one vectorized loop and no product needs a transpose, which is faster on a CPU than the usual `[rows, units]`
(`docs/results/speed.md`: gradient against gradient, rows first). The public interface uses `[rows, features]`.
"""

import abc
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError, shown
from ergonet._types import AnyArray, Array, Float
from ergonet.models.registry import ACTIVATIONS

Weights = Mapping[str, Array]
SMALL_PRODUCT = 2048  # multiplications; on a CPU, calling a matrix product costs more than this many
DIRECT = "direct.weight"  # path of the weights from inputs to outputs
FIRST = ("layers.0.weight",)  # path of the weights of the first layer, alone in a block of the prior
EMBEDDINGS = "embeddings."  # start of the paths of embeddings, which come before the first layer
MOST_WEIGHTS = 2**31 - 1  # positions are indexed by 32 bits


class Leaf(eqx.Module):
    """One array of weights.

    Attributes:
        shape: shape of the array; a dense weight is `[out, in]`.
        fan_in: number of inputs that a unit of the leaf sums over, at least 1; 1 for a bias.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    fan_in: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


def cut(values: Array, leaves: Mapping[str, Leaf]) -> dict[str, Array]:
    """Split flat values into leaves of these shapes, in order; surplus values are ignored."""
    found, start = {}, 0
    for path, leaf in leaves.items():
        found[path] = values[start : start + leaf.size].reshape(leaf.shape)
        start += leaf.size
    return found


class AbstractNetwork(eqx.Module):
    """A function of named weights."""

    @property
    def rows_interact(self) -> bool:
        """Whether the outputs for a row depend on the other rows of the call; such a network cannot predict."""
        return False

    @abc.abstractmethod
    def leaves(self) -> dict[str, Leaf]:
        """All weight arrays by path, in the order of the flat position."""

    @abc.abstractmethod
    def prepare(self, x: AnyArray) -> Any:
        """Convert inputs `[rows, ...]` to the form that `apply` takes; raises `SettingError` for a wrong shape."""

    @abc.abstractmethod
    def rows_first(self, inputs: Array) -> Array:
        """The inverse of `prepare`: prepared inputs as `[rows, ...]`."""

    @abc.abstractmethod
    def apply(self, weights: Weights, inputs: Array) -> Float[Array, "outputs rows"]:
        """Outputs for prepared inputs."""

    def of_inputs(self, scales: Float[Array, "units"]) -> Float[Array, "inputs"]:
        """The scale of each input of the network, from those of what the first layer takes."""
        return scales


class MLP(AbstractNetwork):
    """A multilayer perceptron of any depth with a linear output.

    `MLP((64, 35, 10), activation="tanh", bias=False)` has 64 inputs, 35 hidden units and 10 outputs. Weights are
    named `layers.0.weight` `[out, in]` and `layers.0.bias` `[out]`. Direct connections from the inputs to the outputs
    (as in Neal's FBM), `direct.weight` `[out, in]`, leave only what is not linear to the hidden layers.
    """

    sizes: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    direct: bool = eqx.field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        *,
        activation: str = "tanh",
        bias: bool | Any = True,
        direct: bool | Any = False,
    ):
        """Check and keep the settings.

        Args:
            sizes: units of each layer from inputs to outputs, at least two positive integers.
            activation: of the hidden layers, by name.
            bias: whether every layer has a bias.
            direct: whether inputs are connected to the outputs directly, too.

        Raises:
            SettingError: a size is not a positive integer, there are too many weights, the activation is not known, or
                `bias` or `direct` is not a boolean, or there is no hidden layer beside direct connections.
        """
        sizes = tuple(sizes)
        if len(sizes) < 2:
            raise SettingError(f"`MLP(sizes=...)` needs at least the numbers of inputs and outputs, got {sizes}.")
        for size in sizes:
            if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < 1:
                raise SettingError(
                    f"`MLP(sizes=...)` must contain integers of at least 1, got {shown(size)} in {shown(sizes)}."
                )
        for name, value in {"bias": bias, "direct": direct}.items():
            if not isinstance(value, bool | np.bool_):
                raise SettingError(f"`MLP({name}=...)` must be True or False, got {value!r}.")
        if direct and len(sizes) == 2:
            raise SettingError(
                f"`MLP(direct=True)` needs a hidden layer, got sizes {sizes}: without one, all connections are direct."
            )
        ACTIVATIONS.entry(activation)
        num_weights = sum((int(units) + 1) * int(out) for units, out in itertools.pairwise(sizes))
        num_weights += int(sizes[0]) * int(sizes[-1]) if direct else 0
        if num_weights > MOST_WEIGHTS:
            raise SettingError(
                f"`MLP(sizes=...)` would have {shown(num_weights)} weights, got {shown(sizes)}; at most {MOST_WEIGHTS} "
                f"can be counted. Choose fewer units."
            )
        self.sizes = tuple(int(size) for size in sizes)
        self.activation = activation
        self.bias = bool(bias)
        self.direct = bool(direct)

    def leaves(self) -> dict[str, Leaf]:
        found = {}
        for layer, (fan_in, out) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            found[f"layers.{layer}.weight"] = Leaf(shape=(out, fan_in), fan_in=fan_in)
            if self.bias:
                found[f"layers.{layer}.bias"] = Leaf(shape=(out,), fan_in=1)
        if self.direct:
            found[DIRECT] = Leaf(shape=(self.sizes[-1], self.sizes[0]), fan_in=self.sizes[0])
        return found

    def prepare(self, x: AnyArray) -> Any:
        if x.ndim != 2 or x.shape[1] != self.sizes[0]:
            raise SettingError(
                f"`MLP(sizes={self.sizes})` takes x of shape [rows, {self.sizes[0]}], got {list(x.shape)}."
            )
        return x.T

    def rows_first(self, inputs: Array) -> Array:
        return inputs.T

    def apply(self, weights: Weights, inputs: Array) -> Float[Array, "outputs rows"]:
        act = ACTIVATIONS.load(self.activation)
        values = inputs
        for layer in range(len(self.sizes) - 1):
            values = product(weights[f"layers.{layer}.weight"], act(values) if layer else values)
            if self.bias:
                values = values + weights[f"layers.{layer}.bias"][:, None]
        return values + product(weights[DIRECT], inputs) if self.direct else values


def product(left: Float[Array, "m k"], right: Float[Array, "k n"]) -> Float[Array, "m n"]:
    """Matrix product; small ones are computed as a sum, which the compiler fuses with the surrounding code.

    So are all with a vector, which is read faster in a sum than in the compiler's product.
    """
    if right.shape[1] > 1 and left.shape[0] * left.shape[1] * right.shape[1] > SMALL_PRODUCT:
        return left @ right
    return jnp.sum(left[:, :, None] * right, axis=1)


class FunctionNetwork(AbstractNetwork):
    """A function of a pytree of weights and one row, such as an Equinox module; see `equinox.as_network`."""

    function: Callable[[Any, Array], Array] = eqx.field(static=True)
    paths: tuple[str, ...] = eqx.field(static=True)
    specs: tuple[Leaf, ...] = eqx.field(static=True)
    rebuild: Callable[[list[Array]], Any] = eqx.field(static=True)

    def leaves(self) -> dict[str, Leaf]:
        return dict(zip(self.paths, self.specs, strict=True))

    def prepare(self, x: AnyArray) -> Any:
        return x

    def rows_first(self, inputs: Array) -> Array:
        return inputs

    def apply(self, weights: Weights, inputs: Array) -> Float[Array, "outputs rows"]:
        module = self.rebuild([weights[path] for path in self.paths])
        outputs = jax.vmap(lambda row: jnp.atleast_1d(self.function(module, row)))(inputs)
        if outputs.ndim != 2:
            raise SettingError(
                f"The network must map one row to a scalar or a vector, got shape {list(outputs.shape[1:])} per row."
            )
        return outputs.T
