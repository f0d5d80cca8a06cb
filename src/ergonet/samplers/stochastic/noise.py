"""Normal random numbers that are cheap enough for every step of a minibatch kernel.

Each number has its own counter: Threefry-2x32 with 13 rounds (the smallest number that passes BigCrush: Salmon2011,
table 2) gives two words, and the Box-Muller transform of these the number. Everything is elementwise, so XLA generates
one loop and stores no random bits; a barrier prevents this loop from being fused into each of its uses, which would
recompute the numbers for each. JAX's own generator (20 rounds, then the inverse error function) costs more than twice
as much on a CPU. Tests cover moments, tails, the Kolmogorov distance, and correlations between neighbors, streams and
steps (`tests/statistical/test_noise.py`).
"""

import math

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import DTypeLike

from ergonet._types import Array, Float, PRNGKey, UInt

NUM_ROUNDS = 13
_PARITY = 0x1BD11BDA
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_TO_UNIT = 2.0**-32


def normals(key: PRNGKey, dim: int, dtype: DTypeLike = jnp.float32) -> Float[Array, "dim"]:
    """Independent N(0, 1); float32 resolution in either precision, |z| at most 6.8.

    Args:
        key: key of the step, not used for anything else, or folded.
        dim: number of draws, at least 1 and below 2^32.
        dtype: dtype of the result.
    """
    first, second = key_words(key)
    counter = lax.iota(jnp.uint32, dim)
    radius_bits, angle_bits = threefry(first, second, counter, jnp.zeros_like(counter))
    uniform = (radius_bits.astype(jnp.float32) + 0.5) * _TO_UNIT  # in (0, 1]
    drawn = (jnp.sqrt(-2.0 * jnp.log(uniform)) * _cosine(angle_bits)).astype(dtype)
    return lax.optimization_barrier(drawn)


def key_words(key: PRNGKey) -> tuple[UInt[Array, ""], UInt[Array, ""]]:
    """Two words of a JAX key of any kind."""
    words = jax.random.key_data(key).astype(jnp.uint32)
    return words[0], words[-1]


def threefry(
    first: UInt[Array, ""], second: UInt[Array, ""], left: UInt[Array, "dim"], right: UInt[Array, "dim"]
) -> tuple[UInt[Array, "dim"], UInt[Array, "dim"]]:
    """Threefry-2x32-13 of the counters (left, right) under the key (first, second); Salmon2011, section 3.3."""
    keys = (first, second, first ^ second ^ jnp.uint32(_PARITY))
    left, right = left + keys[0], right + keys[1]
    for number in range(NUM_ROUNDS):
        turn = _ROTATIONS[number % 8]
        left = left + right
        right = ((right << jnp.uint32(turn)) | (right >> jnp.uint32(32 - turn))) ^ left
        if number % 4 == 3:
            injection = number // 4 + 1
            left = left + keys[injection % 3]
            right = right + keys[(injection + 1) % 3] + jnp.uint32(injection)
    return left, right


def _cosine(bits: UInt[Array, "dim"]) -> Float[Array, "dim"]:
    """Cosine of an angle that is uniform on the circle, to 3e-7.

    The first two bits select the quadrant, the others an angle in [-pi/4, pi/4).
    """
    signed = lax.bitcast_convert_type(bits, jnp.int32)
    angle = (signed << 2).astype(jnp.float32) * (0.5 * math.pi * _TO_UNIT)
    square = angle * angle
    sine = angle * (1 + square * (-1 / 6 + square * (1 / 120 - square / 5040)))
    cosine = 1 + square * (-1 / 2 + square * (1 / 24 + square * (-1 / 720 + square / 40320)))
    quadrant = bits >> jnp.uint32(30)
    value = jnp.where(quadrant & jnp.uint32(1) == 1, sine, cosine)
    return jnp.where(quadrant & jnp.uint32(2) == 2, -value, value)
