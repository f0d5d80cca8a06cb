"""Uniform draws inside a trajectory: Threefry-2x32 on scalars, unrolled.

`jax.random` lowers Threefry to a loop of small programs, which costs microseconds a call on a CPU whatever the
size. A trajectory needs two uniforms per step, so the same hash is written out here on scalars, where it compiles
to one fused block. It is JAX's default generator, bit for bit (tested), with the step number as the counter.
Source: Salmon et al. 2011, Threefry-2x32-20.
"""

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._types import Array, Scalar

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


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


def uniform_pair(key: Array, counter: Array, dtype: DTypeLike) -> tuple[Scalar, Scalar]:
    """Two independent draws from [0, 1) with 23 random bits each, for one step of a trajectory."""
    x, y = threefry(key, counter.astype(jnp.uint32), jnp.uint32(0))
    return _to_unit(x, dtype), _to_unit(y, dtype)


def _to_unit(bits: Array, dtype: DTypeLike) -> Scalar:
    mantissa = (bits >> jnp.uint32(9)) | jnp.uint32(0x3F800000)
    return (jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1.0).astype(dtype)
