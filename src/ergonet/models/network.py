"""Networks: functions of named weight arrays.

Inside, data are `[features, rows]` and activations `[units, rows]`: with the rows on the last axis every
activation is one vectorised loop and no product needs a transpose, which is faster on a CPU than the usual
`[rows, units]` (`docs/results/speed.md`: gradient against gradient, rows first). The public face of everything stays
`[rows, features]`.
"""

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError
from ergonet._types import AnyArray, Array, Float
from ergonet.models.activation import activation as activation_function

Weights = Mapping[str, Array]
SMALL_PRODUCT = 2048  # multiplications; on a CPU a call of a matrix product costs more than so many


class Leaf(eqx.Module):
    """One array of weights.

    Attributes:
        shape: of the array; a dense weight is `[out, in]`.
        fan_in: the number of inputs that one unit of the leaf sums over, at least 1; for a bias 1.
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    fan_in: int = eqx.field(static=True)

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


class AbstractNetwork(eqx.Module):
    """A function of named weights."""

    @property
    def rows_interact(self) -> bool:
        """Whether outputs of a row depend on the other rows of the call; such a network cannot predict."""
        return False

    @abc.abstractmethod
    def leaves(self) -> dict[str, Leaf]:
        """Every array of weights by its path, in the order of the flat position."""

    @abc.abstractmethod
    def prepare(self, x: AnyArray) -> Any:
        """Inputs `[rows, ...]` as `apply` takes them; raises `SettingError` where their shape does not fit."""

    @abc.abstractmethod
    def rows_first(self, inputs: Array) -> Array:
        """What `prepare` was given: prepared inputs as `[rows, ...]`."""

    @abc.abstractmethod
    def apply(self, weights: Weights, inputs: Array) -> Float[Array, "outputs rows"]:
        """Outputs for prepared inputs."""


class MLP(AbstractNetwork):
    """A multilayer perceptron of any depth with a linear output.

    `MLP((64, 35, 10), activation="tanh", bias=False)` has 64 inputs, 35 hidden units and 10 outputs. Weights are
    named `layers.0.weight` `[out, in]` and `layers.0.bias` `[out]`.
    """

    sizes: tuple[int, ...] = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)

    def __init__(self, sizes: Sequence[int], *, activation: str = "tanh", bias: bool = True):
        """Check and keep the settings.

        Args:
            sizes: units of each layer from inputs to outputs, at least two positive integers.
            activation: of the hidden layers, by name.
            bias: whether every layer has a bias.

        Raises:
            SettingError: a size is not a positive integer, or the activation is not known.
        """
        sizes = tuple(sizes)
        if len(sizes) < 2:
            raise SettingError(f"`MLP(sizes=...)` needs inputs and outputs at least, got {sizes}.")
        for size in sizes:
            if isinstance(size, bool) or not hasattr(size, "__index__") or int(size) < 1:
                raise SettingError(f"`MLP(sizes=...)` must hold integers of at least 1, got {size!r} in {sizes}.")
        activation_function(activation)
        self.sizes = tuple(int(size) for size in sizes)
        self.activation = activation
        self.bias = bool(bias)

    def leaves(self) -> dict[str, Leaf]:
        found = {}
        for layer, (fan_in, out) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            found[f"layers.{layer}.weight"] = Leaf(shape=(out, fan_in), fan_in=fan_in)
            if self.bias:
                found[f"layers.{layer}.bias"] = Leaf(shape=(out,), fan_in=1)
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
        act = activation_function(self.activation)
        values = inputs
        for layer in range(len(self.sizes) - 1):
            values = product(weights[f"layers.{layer}.weight"], act(values) if layer else values)
            if self.bias:
                values = values + weights[f"layers.{layer}.bias"][:, None]
        return values


def product(left: Float[Array, "m k"], right: Float[Array, "k n"]) -> Float[Array, "m n"]:
    """The matrix product; a small one as a sum, which the compiler fuses with what is around it."""
    if left.shape[0] * left.shape[1] * right.shape[1] > SMALL_PRODUCT:
        return left @ right
    return jnp.sum(left[:, :, None] * right, axis=1)


class FunctionNetwork(AbstractNetwork):
    """Any function of a pytree of weights and one row, such as an Equinox module; see `as_network`."""

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


def as_network(network: Any) -> AbstractNetwork:
    """A network as it is, or any Equinox module that maps one row to its outputs.

    Raises:
        SettingError: neither of the two.
    """
    if isinstance(network, AbstractNetwork):
        return network
    if isinstance(network, eqx.Module) and callable(network):
        from ergonet.models.interop.equinox import network_from_module

        return network_from_module(network)
    raise SettingError(
        f"`network` must be an `ergonet.MLP` or a callable `equinox.Module` that maps one row to its outputs, "
        f"got {type(network).__name__}."
    )
