"""Toy densities with noisy gradients: the noise is data, with a row for each step."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from ergonet import Target
from ergonet.target.terms import LogDensityTerms

NUM_ROWS = 2**16  # steps whose noise is stored; each pass uses it in a new order
Potential = Callable[[jax.Array], jax.Array]


@cache
def noisy(potential: Potential, dim: int, sd: float) -> LogDensityTerms:
    """exp(-potential), whose minibatch gradient for one row has noise N(0, sd^2) in each coordinate.

    Row i adds z_i'q / rows to the potential; the sum over all rows is zero.
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
