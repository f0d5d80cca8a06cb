"""Equinox modules as networks: their floating-point arrays become the weights, everything else stays fixed."""

from typing import Any

import equinox as eqx
import jax
from jax.tree_util import tree_flatten_with_path

from ergonet._errors import SettingError
from ergonet.models.network import AbstractNetwork, FunctionNetwork, Leaf


def as_network(network: Any) -> AbstractNetwork:
    """Return a network unchanged, or wrap an Equinox module that maps one row to its outputs.

    Raises:
        SettingError: `network` is neither.
    """
    if isinstance(network, AbstractNetwork):
        return network
    if isinstance(network, eqx.Module) and callable(network):
        return network_from_module(network)
    raise SettingError(
        f"`network` must be an `ergonet.MLP` or a callable `equinox.Module` that maps one row to its outputs, "
        f"got {type(network).__name__}."
    )


def network_from_module(module: eqx.Module) -> FunctionNetwork:
    """A network whose weights are the floating arrays of `module`.

    Args:
        module: maps one row (no batch axis) to a scalar or a vector. Its present weights give shapes only; the
            prior says where chains start.

    Raises:
        SettingError: the module holds no floating array.
    """
    weights, fixed = eqx.partition(module, eqx.is_inexact_array)
    with_paths, structure = tree_flatten_with_path(weights)
    if not with_paths:
        raise SettingError(
            f"`network`: {type(module).__name__} holds no floating array, so there is nothing to sample."
        )

    def rebuild(leaves: list[Any]) -> Any:
        return eqx.combine(jax.tree.unflatten(structure, leaves), fixed)

    return FunctionNetwork(
        function=_call,
        paths=tuple(".".join(_part(step) for step in path) for path, _ in with_paths),
        specs=tuple(Leaf(shape=leaf.shape, fan_in=_fan_in(leaf.shape)) for _, leaf in with_paths),
        rebuild=rebuild,
    )


def _call(module: Any, row: Any) -> Any:
    return module(row)


def _part(step: Any) -> str:
    return str(getattr(step, "name", getattr(step, "idx", getattr(step, "key", step))))


def _fan_in(shape: tuple[int, ...]) -> int:
    """Number of inputs of one unit: all axes but the first (Equinox has `[out, in, ...]`); 1 for vectors."""
    size = 1
    for length in shape[1:]:
        size *= length
    return max(1, size)
