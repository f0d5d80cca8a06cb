"""Uniform draws inside a trajectory: Threefry-2x32 on scalars, unrolled.

`jax.random` lowers Threefry to a loop of small programs, which costs microseconds per call on a CPU whatever the size.
A trajectory needs two uniforms per step, so the same hash is written out here on scalars, where it compiles to one
fused kernel. The results equal those of JAX's default generator, bit for bit (tested). Source: Salmon2011,
Threefry-2x32-20.

One key serves a whole transition, which avoids compiling code to split it: arrays drawn by `jax.random` hash the
counters (0, i), step n hashes (n + 1, 0), and draws made once per trajectory hash (2^32 - 1, 0).
"""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._types import Array, PRNGKey, Scalar, UInt

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_ONCE = 0xFFFF_FFFF


def threefry(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Two random uint32 words from a key `[2]` and a counter of two words."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    x, y = first + keys[0], second + keys[1]
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x = x + y
            y = (y << jnp.uint32(rotation)) | (y >> jnp.uint32(32 - rotation))
            y = y ^ x
        x = x + keys[(block + 1) % 3]
        y = y + keys[(block + 2) % 3] + jnp.uint32(block + 1)
    return x, y


def key_words(key: PRNGKey) -> UInt[Array, "2"]:
    """The two words of a key, in the form that the functions below take."""
    return jax.random.key_data(key).astype(jnp.uint32)[:2]


def uniform_pair(words: Array, step: Array, dtype: DTypeLike) -> tuple[Scalar, Scalar]:
    """Two independent draws from [0, 1) with 23 random bits each, for one step (counted from 0) of a trajectory."""
    x, y = threefry(words, step.astype(jnp.uint32) + 1, jnp.uint32(0))
    return _to_unit(x, dtype), _to_unit(y, dtype)


def bits_and_uniform(words: Array, dtype: DTypeLike) -> tuple[UInt[Array, ""], Scalar]:
    """32 random bits and a draw from [0, 1), once per trajectory."""
    x, y = threefry(words, jnp.uint32(_ONCE), jnp.uint32(0))
    return x, _to_unit(y, dtype)


def _to_unit(bits: Array, dtype: DTypeLike) -> Scalar:
    mantissa = (bits >> jnp.uint32(9)) | jnp.uint32(0x3F800000)
    return (jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1.0).astype(dtype)
