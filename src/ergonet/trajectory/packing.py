"""A while loop that carries the scalars of a record in a few vectors.

XLA's CPU runtime gives every scalar in a loop's carry its own buffer, copy and task, and dispatches tasks to other
threads once enough are ready; for a trajectory with twenty scalars, dispatching then costs more than the arithmetic.
When packed, eight floats or eight integers are one task (XLA does not fuse the concatenation of longer vectors), and
all booleans are bits of one integer.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array


def packed_while_loop(pending: Callable[[Any], Array], body: Callable[[Any], Any], start: Any) -> Any:
    """`lax.while_loop(pending, body, start)` for a record of vectors and scalars.

    Scalars may be floats of one dtype, at most 31 booleans, and 32-bit integers; all other leaves are carried
    unchanged.
    """
    packing = _Packing(start)
    end = lax.while_loop(
        lambda packed: pending(packing.unpack(packed)),
        lambda packed: packing.pack(body(packing.unpack(packed))),
        packing.pack(start),
    )
    return packing.unpack(end)


MOST_FLAGS = 31  # bits of an int32 without its sign
MOST_JOINED = 8  # scalars whose concatenation XLA fuses


class _Packing:
    """Packs the scalar leaves of a record into vectors, and unpacks them."""

    def __init__(self, example: Any):
        leaves, self._structure = jax.tree.flatten(example)
        self._dtypes = [leaf.dtype for leaf in leaves]
        self._is_scalar = [leaf.ndim == 0 and not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
        floats = {d for d, s in zip(self._dtypes, self._is_scalar, strict=True) if s and _is_float(d)}
        if len(floats) > 1:
            raise TypeError(f"The scalars of a packed loop must have one floating dtype, got {floats}.")
        flags = sum(s and d == jnp.bool_ for d, s in zip(self._dtypes, self._is_scalar, strict=True))
        if flags > MOST_FLAGS:
            raise TypeError(f"A packed loop takes at most {MOST_FLAGS} boolean scalars, got {flags}.")

    def pack(self, record: Any) -> tuple[list[Array], list[Array], list[Array]]:
        """Vectors of floats, vectors of integers, and the leaves that are not scalars."""
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
        return _joined(floats), _joined([bits, *integers]), rest

    def unpack(self, packed: tuple[list[Array], list[Array], list[Array]]) -> Any:
        floats, integers = (itertools.chain(*vectors) for vectors in packed[:2])
        rest = iter(packed[2])
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


def _joined(scalars: list[Array]) -> list[Array]:
    return [jnp.stack(scalars[first : first + MOST_JOINED]) for first in range(0, len(scalars), MOST_JOINED)]
