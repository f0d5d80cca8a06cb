"""Quantiles of a predictive mixture: the roots of mean_s P(y <= q | draw s) = p, computed without simulation.

The root lies between the smallest and the largest quantile of the draws' own distributions. Chandrupatla's method
(Chandrupatla1997) finds it by inverse quadratic interpolation where that is safe and by bisection elsewhere, in about
ten evaluations at float32 precision. Each row has its own bracket and stopping test, so that the result for a row does
not depend on the other rows of its chunk.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Bool, Float
from ergonet.models.likelihood import AbstractLikelihood
from ergonet.models.likelihoods.distribution import AbstractDistribution, bracket

MOST_STEPS = 40  # about 10 are needed; bisection alone would need about 25 at float32 precision
PRECISION = 4  # units in the last place


class _Bracket(eqx.Module):
    """The two points that bracket each root, the point evaluated before them, and the next fraction to try."""

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
        """The end of the bracket where the function is closer to 0."""
        return jnp.where(jnp.abs(self.value_newest) < jnp.abs(self.value_other), self.newest, self.other)


def mixture_quantiles(
    likelihood: AbstractLikelihood,
    own: Any,
    outputs: Float[Array, "draw outputs rows"],
    levels: Float[Array, "level"],
    weights: Float[Array, "draw"],
) -> Float[Array, "level targets rows"]:
    """Quantiles of the mixture over draws.

    Args:
        likelihood: a likelihood for real targets or counts; quantiles of counts are whole numbers.
        own: the likelihood's parameters, with a leading axis of draws.
        outputs: network outputs of every draw.
        levels: probabilities in (0, 1).
        weights: weights of the draws, above 0; need not be normalized.
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
            # subtracting the level from each term keeps the sum, and so its rounding error, small near the root
            over = jax.vmap(lambda value, level: likelihood.cdf(*of_draw(index), value) - level)(values, levels)
            return total + shares[index] * over

        return lax.fori_loop(0, num_draws, add, jnp.zeros_like(values)) / num_draws

    if isinstance(likelihood, AbstractDistribution) and likelihood.needs_search:
        means, variances = (jax.vmap(one)(own, outputs) for one in (likelihood.mean, likelihood.variance))
        around, sd = jnp.mean(means, axis=0), jnp.sqrt(jnp.mean(variances, axis=0) + jnp.var(means, axis=0))
        guess = jnp.broadcast_to(around, (levels.shape[0], *around.shape))
        low, high = bracket(excess, guess, sd, is_whole=likelihood.is_discrete, is_narrow=likelihood.is_discrete)
    else:
        first = quantiles(jnp.asarray(0))
        low, high = lax.fori_loop(1, num_draws, extremes, (first, first))
    if likelihood.is_discrete:
        return high
    return find_root(excess, low, high)


def find_root(
    function: Callable[[Array], Array], low: Float[Array, "..."], high: Float[Array, "..."]
) -> Float[Array, "..."]:
    """Find the roots of an increasing function, elementwise, by Chandrupatla's method (Chandrupatla1997).

    Args:
        function: acts elementwise; at most 0 at `low` and at least 0 at `high`, up to rounding. A value within one
            unit in the last place of 1 counts as 0.
        low: lower ends of the brackets.
        high: upper ends of the brackets, at least `low`.
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
    """Evaluate the function once, narrow the bracket and choose the next point."""
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
    """Step of inverse quadratic interpolation as a fraction of the bracket, or 1/2 where interpolation is not safe."""
    (a, b, c), (fa, fb, fc) = points, values
    along = (a - b) / (c - b)
    height = (fa - fb) / (fc - fb)
    safe = (height**2 < along) & ((1 - height) ** 2 < 1 - along)
    interpolated = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return jnp.where(safe & jnp.isfinite(interpolated), interpolated, 0.5)
