"""The length of static trajectories, tuned in function space.

Candidate lengths take turns. A transition of length L moves every monitored quantity f by a squared jump whose mean
is 2 Var(f) (1 - rho_L), so each jump tells the correlation rho_L between successive draws, rejections included. For an
autoregressive chain ESS per draw is (1 - rho) / (1 + rho); the mean of the slowest quarter of the quantities counts.
Among the lengths with nearly the most of it per gradient the longest is taken: one lag flatters short trajectories,
whose slow directions take many draws. Targets that offer no `monitor` are judged by their positions.
"""

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Count, Float, Scalar

CANDIDATES = (8, 16, 24, 32, 48, 64, 128, 256)
TURNS = (0, 1, 2, 3, 0, 4, 1, 2, 5, 0, 3, 1, 6, 2, 0, 4, 3, 1, 5, 2, 7)  # short ones, being cheap, more often
NEARLY = 0.75
SLOWEST = 0.25


class LengthScores(eqx.Module):
    """Sums over transitions of each candidate; moments of the quantities over all of them."""

    squared_jumps: Float[Array, "candidate quantity"]
    tries: Float[Array, "candidate"]
    count: Scalar
    mean: Float[Array, "quantity"]
    squares: Float[Array, "quantity"]


def blank(quantities: Float[Array, "quantity"]) -> LengthScores:
    """No transitions yet."""
    dtype = quantities.dtype
    return LengthScores(
        squared_jumps=jnp.zeros((len(CANDIDATES), quantities.size), dtype),
        tries=jnp.zeros((len(CANDIDATES),), dtype),
        count=jnp.zeros((), dtype),
        mean=jnp.zeros_like(quantities),
        squares=jnp.zeros_like(quantities),
    )


def candidate(turn: Count) -> Count:
    """The length whose turn it is."""
    return jnp.asarray(CANDIDATES, jnp.int32)[_index(turn)]


def _index(turn: Count) -> Count:
    return jnp.asarray(TURNS, jnp.int32)[turn % len(TURNS)]


def observe(scores: LengthScores, turn: Count, before: Array, after: Array) -> LengthScores:
    """Add one transition of the candidate whose turn it was."""
    index = _index(turn)
    count = scores.count + 1
    deviation = after - scores.mean
    mean = scores.mean + deviation / count
    return LengthScores(
        squared_jumps=scores.squared_jumps.at[index].add((after - before) ** 2),
        tries=scores.tries.at[index].add(1),
        count=count,
        mean=mean,
        squares=scores.squares + deviation * (after - mean),
    )


def best_length(scores: LengthScores) -> Count:
    """The longest candidate with at least 75 % of the most effective draws per gradient."""
    variance = scores.squares / jnp.maximum(scores.count - 1, 1)
    moves = variance > 0
    jumps = scores.squared_jumps / jnp.maximum(scores.tries, 1)[:, None]
    one_minus_rho = jnp.where(moves, jumps / jnp.where(moves, 2 * variance, 1.0), 0.0)
    mean = _mean_of_slowest(jnp.where(moves, one_minus_rho, jnp.inf))
    mean = jnp.clip(mean, 0.0, 1.0)  # anticorrelation is not trusted: it is what a noisy estimate looks like
    lengths = jnp.asarray(CANDIDATES, jnp.int32)
    efficiency = jnp.where(scores.tries > 0, mean / (2 - mean) / lengths, -1.0)
    return jnp.max(jnp.where(efficiency >= NEARLY * jnp.max(efficiency), lengths, 0))


def _mean_of_slowest(one_minus_rho: Float[Array, "candidate quantity"]) -> Float[Array, "candidate"]:
    """Mean over the slowest quarter of the quantities, for each length: the worst of them decides the run."""
    count = max(1, round(SLOWEST * one_minus_rho.shape[1]))
    slowest = jnp.sort(one_minus_rho, axis=1)[:, :count]
    counted = jnp.isfinite(slowest)
    return jnp.sum(jnp.where(counted, slowest, 0.0), axis=1) / jnp.maximum(jnp.sum(counted, axis=1), 1)
