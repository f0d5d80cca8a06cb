"""Running means and covariances in one pass (Welford 1962), in O(dim) memory for a diagonal."""

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Float, Position, Scalar

SHRINKAGE = 1e-3


class Moments(eqx.Module):
    """Count, mean and sum of squared deviations; `squares` is `[dim]`, `[dim, dim]`, or `[0]` to learn nothing."""

    count: Scalar
    mean: Float[Array, "dim"]
    squares: Array


def blank(position: Position, squares: Array) -> Moments:
    """No observations yet."""
    return Moments(count=jnp.zeros((), position.dtype), mean=jnp.zeros_like(position), squares=jnp.zeros_like(squares))


def observe(moments: Moments, position: Position) -> Moments:
    """Add one position."""
    count = moments.count + 1
    before = position - moments.mean
    mean = moments.mean + before / count
    after = position - mean
    if moments.squares.ndim == 2:
        squares = moments.squares + jnp.outer(after, before)
    elif moments.squares.size == 0:
        squares = moments.squares
    else:
        squares = moments.squares + after * before
    return Moments(count=count, mean=mean, squares=squares)


def regularised_covariance(moments: Moments) -> Array:
    """Sample covariance shrunk towards 1e-3 I, as Stan does: n / (n + 5) S + 1e-3 * 5 / (n + 5) I."""
    count = moments.count
    covariance = moments.squares / jnp.maximum(count - 1, 1)
    floor = SHRINKAGE * 5 / (count + 5)
    if moments.squares.ndim == 2:
        return count / (count + 5) * covariance + floor * jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    return count / (count + 5) * covariance + floor
