"""Grouping of weights that share a hyperparameter.

A group consists of the weights along certain axes of a weight array `[out, in, ...]`: sums run over these axes, and
there is one hyperparameter for each index along the others. Inside a prior, hyperparameters keep the summed axes with
length one, so that they broadcast against weights; outside, these axes are dropped.
"""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from ergonet._errors import SettingError, shown, suggest
from ergonet._types import Array
from ergonet.models.network import Leaf

_GROUPS = {
    "leaf": "all weights of a leaf",
    "layer": "the weights and the biases of a layer together",
    "incoming": "the weights into a unit, or its bias",
    "outgoing": "the weights out of a unit of the layer below",
    "input": "the same as `outgoing`; in a first layer, the weights out of an input, whose scale shows its relevance",
    "weight": "each weight alone",
}

BY_INPUT = ("input", "outgoing")


class Group(eqx.Module):
    """A grouping of the weights of a leaf or layer.

    Attributes:
        name: `leaf` (one group per leaf), `layer` (per layer, biases included), `incoming` (per unit, ARD), `outgoing`
            (per unit of the layer below, ARD), `input` (the same; in a first layer, per input) or `weight` (one group
            per weight).
    """

    name: str = eqx.field(static=True)

    def shape(self, leaf: Leaf, owner: str) -> tuple[int, ...]:
        """Shape of the hyperparameters inside a prior; raises `SettingError` if the leaf has no such groups."""
        if self.name in ("leaf", "layer"):
            return (1,) * len(leaf.shape)
        if self.name == "weight":
            return leaf.shape
        fewest, wanted = (1, "[out, ...]") if self.name == "incoming" else (2, "[out, in]")
        if len(leaf.shape) < fewest:
            raise SettingError(
                f"`{owner}(group={self.name!r})` needs weights {wanted}, but got a leaf of shape "
                f"{list(leaf.shape)}, such as biases. Give these a separate prior, as in "
                f"{{'*.bias': priors.Normal(), '*': ...}}."
            )
        if self.name == "incoming":
            return (leaf.shape[0],) + (1,) * (len(leaf.shape) - 1)
        return (1, leaf.shape[1]) + (1,) * (len(leaf.shape) - 2)

    def outside(self, leaf: Leaf, owner: str) -> Leaf:
        """The leaf of coordinates that holds the hyperparameters, without axes of length one."""
        shape = self.shape(leaf, owner)
        kept = () if self.name in ("leaf", "layer") else shape if self.name == "weight" else (max(shape),)
        return Leaf(shape=kept, fan_in=1)

    def inside(self, values: Array, leaf: Leaf, owner: str) -> Array:
        """Reshape hyperparameters to broadcast against weights."""
        return values.reshape(self.shape(leaf, owner))


def sum_by(values: Array, shape: tuple[int, ...]) -> Array:
    """Sum over the axes along which `shape` has length one."""
    axes = _summed(values, shape)
    return jnp.sum(values, axis=axes, keepdims=True) if axes else values


def log_sum_by(logarithms: Array, shape: tuple[int, ...]) -> Array:
    """Logarithms of the sums of exponentials over the same axes, finite for finite values."""
    axes = _summed(logarithms, shape)
    return logsumexp(logarithms, axis=axes, keepdims=True) if axes else logarithms


def _summed(values: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(axis for axis, (full, kept) in enumerate(zip(values.shape, shape, strict=True)) if kept != full)


def members(shape: tuple[int, ...], of: tuple[int, ...]) -> int:
    """Number of entries of an array of shape `of` in each group."""
    return math.prod(of) // math.prod(shape)


def layer_of(path: str) -> str:
    """Common path of the leaves of a layer: `layers.0` for `layers.0.bias`; a leaf without a layer is its own layer."""
    return path.rpartition(".")[0] or path


def resolve_group(owner: str, choice: Any) -> Group:
    """The group of that name; an unknown name is a `SettingError` with the nearest ones."""
    if not isinstance(choice, str) or choice not in _GROUPS:
        raise SettingError(f"`{owner}(group={shown(choice)})` is not known. {suggest(choice, _GROUPS)}")
    return Group(choice)


def group_names() -> tuple[str, ...]:
    """Names of groups."""
    return tuple(_GROUPS)
