"""Toy densities whose gradient is noisy: the noise is data, a row for each step."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from ergonet import Target

NUM_ROWS = 2**16  # noise of so many steps, in a new order for each pass
Potential = Callable[[jax.Array], jax.Array]


@cache
def noisy(potential: Potential, dim: int, sd: float) -> Target:
    """exp(-potential), with a minibatch gradient that is off by N(0, sd^2) in each coordinate for a batch of one row.

    Row i adds z_i'q / rows to the potential, and all rows together add nothing.
    """
    draws = np.random.default_rng(0).normal(size=(NUM_ROWS, dim))
    draws = sd * (draws - draws.mean(axis=0)) / draws.std(axis=0)
    return Target.from_terms(
        lambda q: -potential(q),
        lambda q, rows: -(rows @ q) / NUM_ROWS,
        jnp.asarray(draws, jnp.float32),
        jnp.zeros(dim),
    )


def double_well(q: jax.Array) -> jax.Array:
    """-2 q^2 + q^4."""
    return jnp.sum(-2 * q**2 + q**4)


def bowl(q: jax.Array) -> jax.Array:
    """q^2 / 2."""
    return 0.5 * jnp.sum(q**2)
