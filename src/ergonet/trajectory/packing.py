"""A while loop that carries all scalars of a record in two vectors.

XLA's CPU runtime gives every scalar of a loop's carry a buffer, a copy and a task of its own, and hands tasks to
other threads once enough are ready; a trajectory with twenty scalars then pays more for the hand-over than for its
arithmetic. Packed, the same record costs two tasks, and one for each integer; all booleans are bits of one integer.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array


def packed_while_loop(pending: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """`lax.while_loop(pending, body, start)` for a record of vectors and scalars.

    Scalars may be floats of one dtype, at most 31 booleans, and 32-bit integers; all other leaves travel as they are.
    """
    packing = _Packing(start)
    end = lax.while_loop(
        lambda packed: pending(packing.unpack(packed)),
        lambda packed: packing.pack(body(packing.unpack(packed))),
        packing.pack(start),
    )
    return packing.unpack(end)


MOST_FLAGS = 31  # bits of an integer that are not its sign


class _Packing:
    """Which leaves of a record are packed, and how they come back."""

    def __init__(self, example: Any):
        leaves, self._structure = jax.tree.flatten(example)
        self._dtypes = [leaf.dtype for leaf in leaves]
        self._is_scalar = [leaf.ndim == 0 and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
        floats = {d for d, s in zip(self._dtypes, self._is_scalar, strict=True) if s and _is_float(d)}
        self._float = next(iter(floats), jnp.dtype(jnp.float32))
        if len(floats) > 1:
            raise TypeError(f"The scalars of a packed loop must have one floating dtype, got {floats}.")
        flags = sum(s and d == jnp.bool_ for d, s in zip(self._dtypes, self._is_scalar, strict=True))
        if flags > MOST_FLAGS:
            raise TypeError(f"A packed loop takes at most {MOST_FLAGS} boolean scalars, got {flags}.")

    def pack(self, record: Any) -> tuple[Array, Array, list[Array]]:
        floats, integers, rest = [], [], []
        bits, place = jnp.zeros((), jnp.int32), 0
        for leaf, dtype, scalar in zip(jax.tree.leaves(record), self._dtypes, self._is_scalar, strict=True):
            if not scalar:
                rest.append(leaf)
            elif _is_float(dtype):
                floats.append(leaf)
            elif dtype == jnp.bool_:
                bits, place = bits | (leaf.astype(jnp.int32) << place), place + 1
            elif dtype == jnp.uint32:
                integers.append(lax.bitcast_convert_type(leaf, jnp.int32))
            else:
                integers.append(leaf.astype(jnp.int32))
        return _stack(floats, self._float), jnp.stack([bits, *integers]), rest

    def unpack(self, packed: tuple[Array, Array, list[Array]]) -> Any:
        floats, integers, rest = (iter(part) for part in packed)
        leaves, bits, place = [], next(integers), 0
        for dtype, scalar in zip(self._dtypes, self._is_scalar, strict=True):
            if not scalar:
                leaves.append(next(rest))
            elif _is_float(dtype):
                leaves.append(next(floats))
            elif dtype == jnp.bool_:
                leaves.append((bits >> place) & 1 == 1)
                place += 1
            elif dtype == jnp.uint32:
                leaves.append(lax.bitcast_convert_type(next(integers), jnp.uint32))
            else:
                leaves.append(next(integers).astype(dtype))
        return jax.tree.unflatten(self._structure, leaves)


def _is_float(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _stack(scalars: list[Array], dtype: Any) -> Array:
    return jnp.stack(scalars) if scalars else jnp.zeros((0,), dtype)
