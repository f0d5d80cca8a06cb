"""From a seed to a random key: the one way that everything in the library takes.

A seed is an integer of 0 to 2^63 - 1. Its key is of JAX's default kind, whatever the process prefers.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._fork import require_jax
from ergonet._types import PRNGKey, UInt


def seed_words(seed: int) -> UInt[np.ndarray, "2"]:
    """The low and the high word of a seed, which compiled programs take as an argument."""
    return np.asarray([int(seed) & 0xFFFF_FFFF, int(seed) >> 32], np.uint32)


def derived_seed(seed: int, purpose: int) -> int:
    """A seed for another purpose than the draws of a run, which shares no key with them."""
    return int(np.random.SeedSequence((seed, purpose)).generate_state(1, np.uint64)[0] >> 1)


def key_of_words(low: UInt[jax.Array, ""], high: UInt[jax.Array, ""]) -> PRNGKey:
    """The key of a seed from its words."""
    return jax.random.wrap_key_data(jnp.stack([high, low]), impl="threefry2x32")


def key_of(seed: int) -> PRNGKey:
    """The key of a seed."""
    require_jax()
    low, high = jnp.asarray(seed_words(seed))
    return key_of_words(low, high)
