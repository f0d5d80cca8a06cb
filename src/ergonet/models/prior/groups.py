"""Which weights of a block share a hyperparameter.

A group is known by the axes of a weight `[out, in, ...]` along which its weights lie: everything along them is summed
over, and the hyperparameters have one entry for each place along the others. Inside, hyperparameters keep length-one
axes where there is nothing to tell apart, so that they broadcast against weights; outside, those axes are dropped.
"""

import math

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ergonet._errors import SettingError, suggest
from ergonet._types import Array
from ergonet.models.network import Leaf

_GROUPS = {
    "leaf": "all weights of a leaf",
    "layer": "the weights and the biases of a layer together",
    "incoming": "the weights into a unit, or its bias",
    "outgoing": "the weights out of a unit of the layer below",
    "input": "another name of the same: out of an input of a first layer, which tell how relevant it is",
    "weight": "every weight on its own",
}

BY_INPUT = ("input", "outgoing")


class Group(eqx.Module):
    """A way to group the weights of a block.

    Attributes:
        name: `leaf` (one group per leaf), `layer` (per layer, biases included), `incoming` (per unit, ARD), `outgoing`
            (per unit of the layer below, ARD), `input` (the same: in a first layer, per input), or `weight` (each its
            own).
    """

    name: str = eqx.field(static=True)

    def shape(self, leaf: Leaf, owner: str) -> tuple[int, ...]:
        """Of the hyperparameters inside; raises `SettingError` where the leaf has no such groups."""
        if self.name in ("leaf", "layer"):
            return (1,) * len(leaf.shape)
        if self.name == "weight":
            return leaf.shape
        fewest, wanted = (1, "[out, ...]") if self.name == "incoming" else (2, "[out, in]")
        if len(leaf.shape) < fewest:
            raise SettingError(
                f"`{owner}(group={self.name!r})` needs weights {wanted}, but was given a leaf of shape "
                f"{list(leaf.shape)}, such as biases. Give those a prior of their own, as in "
                f"{{'*.bias': priors.Normal(), '*': ...}}."
            )
        if self.name == "incoming":
            return (leaf.shape[0],) + (1,) * (len(leaf.shape) - 1)
        return (1, leaf.shape[1]) + (1,) * (len(leaf.shape) - 2)

    def outside(self, leaf: Leaf, owner: str) -> Leaf:
        """The hyperparameters as a leaf of coordinates, without axes of length one."""
        shape = self.shape(leaf, owner)
        kept = () if self.name in ("leaf", "layer") else shape if self.name == "weight" else (max(shape),)
        return Leaf(shape=kept, fan_in=1)

    def inside(self, values: Array, leaf: Leaf, owner: str) -> Array:
        """Hyperparameters in the shape that broadcasts against weights."""
        return values.reshape(self.shape(leaf, owner))


def sum_by(values: Array, shape: tuple[int, ...]) -> Array:
    """Sums over the axes along which `shape` has length one."""
    axes = _summed(values, shape)
    return jnp.sum(values, axis=axes, keepdims=True) if axes else values


def log_sum_by(logarithms: Array, shape: tuple[int, ...]) -> Array:
    """Logarithms of the sums of e^values over those axes, finite wherever the values are."""
    axes = _summed(logarithms, shape)
    return logsumexp(logarithms, axis=axes, keepdims=True) if axes else logarithms


def _summed(values: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, (full, kept) in enumerate(zip(values.shape, shape, strict=True)) if kept != full)


def members(shape: tuple[int, ...], of: tuple[int, ...]) -> int:
    """Entries of an array of shape `of` in each group."""
    return math.prod(of) // math.prod(shape)


def layer_of(path: str) -> str:
    """What the leaves of a layer have in common: `layers.0` of `layers.0.bias`; a leaf without a layer is its own."""
    return path.rpartition(".")[0] or path


def resolve_group(owner: str, choice: str) -> Group:
    """The group of that name; an unknown name is a `SettingError` with the nearest ones."""
    if choice not in _GROUPS:
        raise SettingError(f"`{owner}(group={choice!r})` is not known. {suggest(str(choice), _GROUPS)}")
    return Group(choice)


def group_names() -> tuple[str, ...]:
    """Names of groups."""
    return tuple(_GROUPS)
