"""Conversion between flat positions and pytrees of arrays, names of leaves, and row counts."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ergonet._errors import SettingError
from ergonet._types import Array, PRNGKey

START_RADIUS = 2.0


class Layout(eqx.Module):
    """How a flat position is split into a pytree of arrays."""

    dim: int = eqx.field(static=True)
    unravel: Callable[[Array], Any] = eqx.field(static=True)

    @staticmethod
    def of(example: Any) -> tuple["Layout", Array]:
        """The layout of `example` and its flat position; raises `SettingError` if it cannot be sampled."""
        leaves = jax.tree_util.tree_leaves_with_path(example)
        if not leaves:
            raise SettingError("`example` contains no arrays to sample. Give a pytree of floating-point arrays.")
        for path, leaf in leaves:
            if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
                name = jax.tree_util.keystr(path) or "the example"
                raise SettingError(
                    f"`example`: {name} has dtype {jnp.asarray(leaf).dtype}; Hamiltonian samplers need "
                    f"floating-point arrays. Convert it to floats, or remove it from the parameters."
                )
        flat, unravel = ravel_pytree(jax.tree.map(jnp.asarray, example))
        return Layout(dim=flat.size, unravel=unravel), flat

    def uniform_start(self, key: PRNGKey, dtype: Any) -> Array:
        """Uniform(-2, 2) in every coordinate."""
        return jax.random.uniform(key, (self.dim,), dtype, -START_RADIUS, START_RADIUS)


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
