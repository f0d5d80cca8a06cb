"""Settings that are numbers: compiled programs take them as arguments, so that other values compile nothing.

They are kept as NumPy scalars, which count as arrays where a record is split into arguments and structure, in double
precision: `like` and `whole` give them the dtype of the arithmetic that they enter.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._types import Array, Count, Scalar

Whole = int | np.integer | Count
"""A setting that is an integer, as it was given, as it is kept, or as a compiled program sees it."""


class AbstractSettings(eqx.Module):
    """A record of settings; numbers are shown as plain numbers."""

    def __repr__(self) -> str:
        return eqx.tree_pformat(jax.tree.map(plain, self))


def real(value: float) -> float:
    """A real number."""
    return np.float64(value)


def integer(value: int) -> Any:
    """An integer."""
    return np.int64(value)


def optional_real(value: float | None) -> float | None:
    """A real number, or None, which is part of the structure."""
    return None if value is None else real(value)


def optional_integer(value: int | None) -> Any:
    """An integer, or None, which is part of the structure."""
    return None if value is None else integer(value)


def like(value: Any, example: Array) -> Scalar:
    """A setting in the dtype of an array."""
    return jnp.asarray(value, example.dtype)


def whole(value: Any) -> Count:
    """An integer setting in the 32 bits that loops count in."""
    return jnp.asarray(value, jnp.int32)


def plain(leaf: Any) -> Any:
    """A setting as a plain number where it is one, and anything else as it is."""
    return leaf.item() if isinstance(leaf, np.generic) else leaf
