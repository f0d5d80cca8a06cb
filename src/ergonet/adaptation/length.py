"""Learning the length of static trajectories in function space.

Candidate lengths are tried in turns. After a transition of length L, the expected squared jump of a monitored quantity
f is 2 Var(f) (1 - rho_L), so jumps estimate the lag-1 correlation rho_L of successive draws, rejections included. For
an autoregressive chain, the ESS per draw is (1 - rho) / (1 + rho); its mean over the slowest quarter of the quantities
is the criterion. The longest of the lengths whose ESS per gradient is close to the best is chosen, because the lag-1
correlation overrates short trajectories, whose slow directions take many draws. For targets without the capability
`Monitor`, the quantities are the coordinates.
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Count, Float, Scalar
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.samplers.base import State, Tuning
from ergonet.target.capabilities import quantities
from ergonet.target.contract import AbstractDensity

CANDIDATES = (8, 16, 24, 32, 48, 64, 128, 256)
TURNS = (
    0,
    1,
    2,
    3,
    0,
    4,
    1,
    2,
    5,
    0,
    3,
    1,
    6,
    2,
    0,
    4,
    3,
    1,
    5,
    2,
    7,
)  # short lengths more often, because they are cheap
NEARLY = 0.75
SLOWEST = 0.25


class LengthScores(eqx.Module):
    """Sums over the transitions of each candidate, and moments of the quantities over all transitions."""

    squared_jumps: Float[Array, "candidate quantity"]
    tries: Float[Array, "candidate"]
    count: Scalar
    mean: Float[Array, "quantity"]
    squares: Float[Array, "quantity"]


class LengthLearner(AbstractLearner):
    """Tries the candidate lengths in turns and chooses the best at the end of its stage."""

    learns: ClassVar[str] = "num_steps"

    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> LengthScores:
        return blank(quantities(target, state.position))

    def propose(self, memory: LengthScores, tuning: Tuning) -> Tuning:
        return eqx.tree_at(lambda one: one.num_steps, tuning, candidate(_turn(memory)))

    def observe(self, memory: LengthScores, tuning: Tuning, transition: Transition) -> tuple[LengthScores, Tuning]:
        before, after = (
            quantities(transition.target, state.position) for state in (transition.before, transition.after)
        )
        return observe(memory, _turn(memory), before, after), tuning

    def finish(self, memory: LengthScores, tuning: Tuning, ending: Ending) -> tuple[LengthScores, Tuning]:
        num_steps = jnp.where(ending.active, best_length(memory), tuning.num_steps)
        memory = jax.tree.map(lambda leaf: jnp.where(ending.active, jnp.zeros_like(leaf), leaf), memory)
        return memory, eqx.tree_at(lambda one: one.num_steps, tuning, num_steps)


def _turn(scores: LengthScores) -> Count:
    return scores.count.astype(jnp.int32)


def blank(first: Float[Array, "quantity"]) -> LengthScores:
    """Scores of zero transitions, with the quantities at the first position."""
    dtype = first.dtype
    return LengthScores(
        squared_jumps=jnp.zeros((len(CANDIDATES), first.size), dtype),
        tries=jnp.zeros((len(CANDIDATES),), dtype),
        count=jnp.zeros((), dtype),
        mean=jnp.zeros_like(first),
        squares=jnp.zeros_like(first),
    )


def candidate(turn: Count) -> Count:
    """The candidate length of this turn."""
    return jnp.asarray(CANDIDATES, jnp.int32)[_index(turn)]


def _index(turn: Count) -> Count:
    return jnp.asarray(TURNS, jnp.int32)[turn % len(TURNS)]


def observe(scores: LengthScores, turn: Count, before: Array, after: Array) -> LengthScores:
    """Add one transition of the current candidate."""
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
    """The longest candidate with at least 75 % of the best ESS per gradient."""
    variance = scores.squares / jnp.maximum(scores.count - 1, 1)
    moves = variance > 0
    jumps = scores.squared_jumps / jnp.maximum(scores.tries, 1)[:, None]
    one_minus_rho = jnp.where(moves, jumps / jnp.where(moves, 2 * variance, 1.0), 0.0)
    mean = _mean_of_slowest(jnp.where(moves, one_minus_rho, jnp.inf))
    mean = jnp.clip(mean, 0.0, 1.0)  # anticorrelation is not trusted: it may be a noisy estimate
    lengths = jnp.asarray(CANDIDATES, jnp.int32)
    efficiency = jnp.where(scores.tries > 0, mean / (2 - mean) / lengths, -1.0)
    return jnp.max(jnp.where(efficiency >= NEARLY * jnp.max(efficiency), lengths, 0))


def _mean_of_slowest(one_minus_rho: Float[Array, "candidate quantity"]) -> Float[Array, "candidate"]:
    """Mean over the slowest quarter of the quantities, for each length, since the slowest limit the run."""
    count = max(1, round(SLOWEST * one_minus_rho.shape[1]))
    slowest = jnp.sort(one_minus_rho, axis=1)[:, :count]
    counted = jnp.isfinite(slowest)
    return jnp.sum(jnp.where(counted, slowest, 0.0), axis=1) / jnp.maximum(jnp.sum(counted, axis=1), 1)
