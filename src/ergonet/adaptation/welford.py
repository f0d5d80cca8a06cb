"""Running means and covariances in one pass (Welford1962), in O(dim) memory for a diagonal."""

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Float, Scalar


class Moments(eqx.Module):
    """Count, mean and sum of squared deviations; `squares` is `[dim]`, `[dim, dim]`, or `[0]` to learn nothing."""

    count: Scalar
    mean: Float[Array, "dim"]
    squares: Array


def blank(observed: Float[Array, "dim"], squares: Array) -> Moments:
    """Moments of zero observations."""
    return Moments(count=jnp.zeros((), observed.dtype), mean=jnp.zeros_like(observed), squares=jnp.zeros_like(squares))


def observe(moments: Moments, observed: Float[Array, "dim"]) -> Moments:
    """Add one vector, such as a position."""
    count = moments.count + 1
    before = observed - moments.mean
    mean = moments.mean + before / count
    after = observed - mean
    if moments.squares.ndim == 2:
        squares = moments.squares + jnp.outer(after, before)
    elif moments.squares.size == 0:
        squares = moments.squares
    else:
        squares = moments.squares + after * before
    return Moments(count=count, mean=mean, squares=squares)
