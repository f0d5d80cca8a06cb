"""Conversion between flat positions and pytrees of arrays, names of leaves, and row counts."""

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ergonet._errors import SettingError, shown
from ergonet._types import Array, PRNGKey

START_RADIUS = 2.0
_PRECISIONS = (np.dtype(np.float32), np.dtype(np.float64))
_NONE: Mapping[str, Any] = MappingProxyType({})
_LARGEST_DIM = 2**31 - 1  # positions are indexed by 32 bits


class Layout(eqx.Module):
    """How a flat position is split into a pytree of arrays."""

    dim: int = eqx.field(static=True)
    unravel: Callable[[Array], Any] = eqx.field(static=True)

    @staticmethod
    def of(example: Any) -> tuple["Layout", Array]:
        """The layout of `example` and its flat position; raises `SettingError` if it cannot be sampled."""
        arrays = as_arrays(example, argument="example")
        leaves = jax.tree_util.tree_leaves_with_path(arrays)
        if not leaves:
            raise SettingError("`example` contains no arrays to sample. Give a pytree of floating-point arrays.")
        for path, leaf in leaves:
            if leaf.dtype not in _PRECISIONS:
                raise SettingError(
                    f"`example`: {_name(path)} has dtype {leaf.dtype}; Hamiltonian samplers need floating-point arrays "
                    f"of 32 or 64 bits. Convert it to floats, or remove it from the parameters."
                )
            if not leaf.size:
                raise SettingError(
                    f"`example`: {_name(path)} has shape {leaf.shape}, so nothing to sample. Remove it from the "
                    f"parameters."
                )
        dim = sum(leaf.size for _, leaf in leaves)
        if dim > _LARGEST_DIM:
            raise SettingError(f"`example` has {dim} numbers; at most {_LARGEST_DIM} can be counted.")
        flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, arrays))
        return Layout(dim=dim, unravel=unravel), flat

    def uniform_start(self, key: PRNGKey, dtype: Any) -> Array:
        """Uniform(-2, 2) in every coordinate."""
        return jax.random.uniform(key, (self.dim,), dtype, -START_RADIUS, START_RADIUS)


def as_arrays(tree: Any, *, argument: str) -> Any:
    """The leaves of a pytree as arrays that JAX takes, in the byte order of this machine; nothing is copied otherwise.

    Raises:
        SettingError: a leaf is no array of numbers; names the argument and the leaf.
    """
    return jax.tree_util.tree_map_with_path(lambda path, leaf: _as_array(leaf, f"`{argument}`: {_name(path)}"), tree)


def _as_array(leaf: Any, called: str) -> Any:
    if isinstance(leaf, jax.Array):
        return leaf
    if isinstance(leaf, np.ma.MaskedArray):
        raise SettingError(f"{called} is a masked array. Give numbers only, for example by its `filled`.")
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError):
        array = np.array(None)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if not _is_known(array.dtype):
        held = f"has dtype {array.dtype}" if hasattr(leaf, "dtype") else f"is {shown(leaf)}"
        raise SettingError(f"{called} {held}; it must be an array of numbers. Convert it, or remove it.")
    return array


def _is_known(dtype: np.dtype) -> bool:
    """Whether JAX has arrays of this type: numbers of at most 64 bits (complex ones of 128), and booleans."""
    if dtype.kind in "biu":
        return True
    return jnp.issubdtype(dtype, jnp.inexact) and dtype.itemsize <= (16 if dtype.kind == "c" else 8)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path) or "it"


def count_rows(data: Any) -> int:
    """The common length of the first axes of a pytree of arrays; raises `SettingError` if they differ."""
    counts = {leaf.shape[0] if getattr(leaf, "ndim", 0) else 0 for leaf in jax.tree.leaves(data)}
    if len(counts) != 1 or 0 in counts:
        raise SettingError(
            f"`data` must be arrays with the same number of rows (at least 1) on their first axis, got {counts}."
        )
    return counts.pop()


def flatten_names(parameters: Any) -> Mapping[str, Array]:
    """Names such as `layers.0.weight` for the leaves of a pytree, in order."""
    named = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(parameters):
        parts = [str(getattr(p, "key", getattr(p, "name", getattr(p, "idx", p)))) for p in path]
        named[".".join(parts) or "x"] = leaf
    return named


def check_function(function: object, argument: str, args: tuple[Any, ...], kwargs: Mapping[str, Any] = _NONE) -> None:
    """Check that a function can be called with these arguments; calls nothing.

    Raises:
        SettingError: it is no function, or takes other arguments; names the argument.
    """
    if not callable(function):
        raise SettingError(f"`{argument}` must be a function, got {shown(function)}.")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        raise SettingError(
            f"`{argument}` cannot be called with {len(args) + len(kwargs)} argument(s): {error}."
        ) from error


def check_result(value: object, argument: str, shape: tuple[int, ...], advice: str) -> Array:
    """What a function returned, as an array of real numbers of that shape; it may be traced.

    Raises:
        SettingError: it has another shape, or is no array of real numbers.
    """
    wanted = "a scalar" if shape == () else f"an array of shape {shape}, one number per row"
    try:
        array = jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise SettingError(f"`{argument}` must return {wanted}, got {shown(value)}.") from error
    if array.shape != shape:
        raise SettingError(f"`{argument}` must return {wanted}, got an array of shape {array.shape}. {advice}")
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise SettingError(f"`{argument}` must return real numbers, got {array.dtype}. Take its real part.")
    return array
