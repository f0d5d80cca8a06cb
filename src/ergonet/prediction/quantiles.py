"""Quantiles of a predictive mixture: the root of mean_s P(y <= q | draw s) = p, without a random number.

The root lies between the least and the largest quantile of the draws. It is found by Chandrupatla's method (1997):
inverse quadratic interpolation where that is safe, bisection where it is not; about ten evaluations to the precision
of float32. Every row has its own bracket and stops by itself, so no row depends on the others of its block.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Bool, Float
from ergonet.models.likelihood import AbstractLikelihood

MOST_STEPS = 40  # about 10 are taken; bisection alone would take about 25 to the precision of float32
PRECISION = 4  # units in the last place


class _Bracket(eqx.Module):
    """The last two points of each search on either side of the root, the one before, and the next fraction."""

    newest: Float[Array, "..."]
    other: Float[Array, "..."]
    oldest: Float[Array, "..."]
    value_newest: Float[Array, "..."]
    value_other: Float[Array, "..."]
    value_oldest: Float[Array, "..."]
    fraction: Float[Array, "..."]
    tolerance: Float[Array, "..."]
    found: Bool[Array, "..."]

    @property
    def best(self) -> Array:
        """The end of the bracket with the smaller value."""
        return jnp.where(jnp.abs(self.value_newest) < jnp.abs(self.value_other), self.newest, self.other)


def mixture_quantiles(
    likelihood: AbstractLikelihood,
    own: Any,
    outputs: Float[Array, "draw outputs rows"],
    levels: Float[Array, "level"],
    weights: Float[Array, "draw"],
) -> Float[Array, "level targets rows"]:
    """The values below which the mixture over draws has each of the probabilities.

    Args:
        likelihood: of real targets.
        own: its own parameters, with a leading axis of draws.
        outputs: of the network, by draw.
        levels: probabilities in (0, 1).
        weights: of the draws, above 0; in any unit.
    """
    num_draws = outputs.shape[0]
    shares = weights / jnp.mean(weights)

    def of_draw(index: Array) -> tuple[Any, Array]:
        return jax.tree.map(lambda leaf: leaf[index], own), outputs[index]

    def quantiles(index: Array) -> Array:
        return jax.vmap(lambda level: likelihood.quantile(*of_draw(index), level))(levels)

    def extremes(index: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        found = quantiles(index)
        return jnp.minimum(bounds[0], found), jnp.maximum(bounds[1], found)

    def excess(values: Array) -> Array:
        """Mean P(y <= value) - level, in the shape of the quantiles."""

        def add(index: Array, total: Array) -> Array:
            # the level is taken off each term: near the root the sum stays small, and so does its rounding
            over = jax.vmap(lambda value, level: likelihood.cdf(*of_draw(index), value) - level)(values, levels)
            return total + shares[index] * over

        return lax.fori_loop(0, num_draws, add, jnp.zeros_like(values)) / num_draws

    first = quantiles(jnp.asarray(0))
    low, high = lax.fori_loop(1, num_draws, extremes, (first, first))
    return find_root(excess, low, high)


def find_root(
    function: Callable[[Array], Array], low: Float[Array, "..."], high: Float[Array, "..."]
) -> Float[Array, "..."]:
    """The root of an increasing function, elementwise, by Chandrupatla's method.

    Args:
        function: elementwise, at most 0 at `low` and at least 0 at `high`, up to rounding; a value of a unit in the
            last place of 1 counts as 0.
        low: the lower ends.
        high: the upper ends, at least `low`.
    """
    value_low, value_high = jnp.minimum(function(low), 0.0), jnp.maximum(function(high), 0.0)
    tolerance = PRECISION * jnp.finfo(low.dtype).eps * jnp.maximum(jnp.abs(low), jnp.abs(high))
    start = _Bracket(
        newest=high,
        other=low,
        oldest=low,
        value_newest=value_high,
        value_other=value_low,
        value_oldest=value_low,
        fraction=jnp.full_like(low, 0.5),
        tolerance=tolerance,
        found=(value_low == 0) | (value_high == 0) | (high <= low),
    )

    def unfinished(carry: tuple[Array, _Bracket]) -> Array:
        return (carry[0] < MOST_STEPS) & ~jnp.all(carry[1].found)

    def step(carry: tuple[Array, _Bracket]) -> tuple[Array, _Bracket]:
        count, before = carry
        now = _narrowed(before, function)
        kept = jax.tree.map(lambda old, new: jnp.where(before.found, old, new), before, now)
        return count + 1, kept

    return lax.while_loop(unfinished, step, (jnp.zeros((), jnp.int32), start))[1].best


def _narrowed(before: _Bracket, function: Callable[[Array], Array]) -> _Bracket:
    """One evaluation, and where to look next."""
    point = before.newest + before.fraction * (before.other - before.newest)
    value = function(point)
    same = (value > 0) == (before.value_newest > 0)
    oldest = jnp.where(same, before.newest, before.other)
    value_oldest = jnp.where(same, before.value_newest, before.value_other)
    other = jnp.where(same, before.other, before.newest)
    value_other = jnp.where(same, before.value_other, before.value_newest)
    width = jnp.abs(other - point)
    margin = jnp.minimum(0.5, before.tolerance / jnp.where(width > 0, width, 1.0))
    fraction = _next_fraction((point, other, oldest), (value, value_other, value_oldest))
    return _Bracket(
        newest=point,
        other=other,
        oldest=oldest,
        value_newest=value,
        value_other=value_other,
        value_oldest=value_oldest,
        fraction=jnp.clip(fraction, margin, 1 - margin),
        tolerance=before.tolerance,
        found=(jnp.abs(value) <= jnp.finfo(value.dtype).eps) | (width <= 2 * before.tolerance),
    )


def _next_fraction(points: tuple[Array, Array, Array], values: tuple[Array, Array, Array]) -> Array:
    """Inverse quadratic interpolation from the newest point towards the other, or 1/2 where it is not safe."""
    (a, b, c), (fa, fb, fc) = points, values
    along = (a - b) / (c - b)
    height = (fa - fb) / (fc - fb)
    safe = (height**2 < along) & ((1 - height) ** 2 < 1 - along)
    interpolated = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return jnp.where(safe & jnp.isfinite(interpolated), interpolated, 0.5)
