"""Learning the length of static trajectories in function space.

Candidate lengths are tried in turns. After a transition of length L, the expected squared jump of a monitored quantity
f is 2 Var(f) (1 - rho_L), so jumps estimate the lag-1 correlation rho_L of successive draws, rejections included. The
same holds for the squares (f - mean)^2, which say whether variances are estimated well: at half a period of a slow
direction, values alternate around their mean and average very well, while squares hardly change.

Averages of 1 - rho over the slower half of the quantities, m for values and s for squares, give the criterion: the ESS
per gradient of values or of squares, whichever is less. For an autoregressive chain the ESS per draw is s / (2 - s).
For values m^2 / (2 - m) is used, because m overrates short trajectories: it is a mean over fast and slow directions,
and the slow ones take many draws. Sums over neighboring lengths are shared, since each length has only a few
transitions. Chains that share a length take the best by the sums of all of them, because the best lengths of single
chains differ by factors, and a chain that has not seen the whole posterior underrates the variances in it. For targets
without the capability `Monitor`, the quantities are the coordinates.
"""

from collections.abc import Sequence
from math import comb
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._numbers import Whole
from ergonet._types import AnyArray, Array, Count, Float
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.samplers.base import State, Tuning
from ergonet.samplers.common import FIRST_NUM_STEPS
from ergonet.target.capabilities import quantities
from ergonet.target.contract import AbstractDensity

CANDIDATES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256)
NUM_TURNS = 64  # of a round, about
SLOWEST = 0.5
WIDTH = 0.5  # of the neighborhood of a length, on the log scale


def _turns() -> tuple[int, ...]:
    """Indices of the candidates in a round, evenly mixed; short lengths have more turns, because they are cheap."""
    shares = np.array(CANDIDATES, float) ** -0.5
    counts = np.maximum(1, np.round(NUM_TURNS * shares / shares.sum())).astype(int)
    places = [((turn + 0.5) / count, -index) for index, count in enumerate(counts) for turn in range(count)]
    return tuple(-index for _, index in sorted(places))


def _neighborhoods() -> np.ndarray:
    """Weights `[candidate, neighbor]`."""
    logs = np.log(CANDIDATES)
    return np.exp(-0.5 * ((logs[:, None] - logs) / WIDTH) ** 2)


TURNS = _turns()


class LengthScores(eqx.Module):
    """Sums over the transitions of each candidate and over all transitions.

    Values x of a quantity are relative to `pivot`, its value after the first transition. A candidate's `jumps` are sums
    of d^2, d^2 s and d^2 s^2, for x before a transition and x + d after it, and their sum s.
    """

    jumps: Float[AnyArray, "power candidate quantity"]
    tries: Float[AnyArray, "candidate"]
    count: Float[AnyArray, ""]
    pivot: Float[AnyArray, "quantity"]
    powers: Float[AnyArray, "order quantity"]  # of x, x^2, x^3 and x^4


class LengthLearner(AbstractLearner):
    """Tries the candidate lengths in turns and chooses the best at the end of its stage.

    If the transitions tell nothing, because they were too few or none has moved, the length is that without a warm-up.

    Attributes:
        fewest_steps: the least number of steps that a trajectory takes, which shorter candidates cost, too.
    """

    fewest_steps: Whole = 1
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
        ess = efficiency(moves(memory), self.fewest_steps)
        found = jnp.where(ess.max() > 0, jnp.asarray(CANDIDATES, jnp.int32)[ess.argmax()], FIRST_NUM_STEPS)
        num_steps = jnp.where(ending.active, found, tuning.num_steps)
        memory = jax.tree.map(lambda leaf: jnp.where(ending.active_next, 0, leaf), memory)  # each stage begins anew
        return memory, eqx.tree_at(lambda one: one.num_steps, tuning, num_steps)

    def shared(self, memory: LengthScores, learned: np.ndarray) -> float:
        ess = efficiency(moves(together(memory)), self.fewest_steps)
        return float(CANDIDATES[ess.argmax()]) if ess.max() > 0 else super().shared(memory, learned)


def _turn(scores: LengthScores) -> Count:
    return jnp.asarray(scores.count, jnp.int32)


def blank(first: Float[Array, "quantity"]) -> LengthScores:
    """Scores of zero transitions, for quantities like these."""
    dtype, shape = first.dtype, (len(CANDIDATES), first.size)
    return LengthScores(
        jumps=jnp.zeros((3, *shape), dtype),
        tries=jnp.zeros(shape[:1], dtype),
        count=jnp.zeros((), dtype),
        pivot=jnp.zeros_like(first),
        powers=jnp.zeros((4, first.size), dtype),
    )


def candidate(turn: Count) -> Count:
    """The candidate length of this turn."""
    return jnp.asarray(CANDIDATES, jnp.int32)[_index(turn)]


def _index(turn: Count) -> Count:
    return jnp.asarray(TURNS, jnp.int32)[turn % len(TURNS)]


def observe(scores: LengthScores, turn: Count, before: Array, after: Array) -> LengthScores:
    """Add one transition of the current candidate."""
    index = _index(turn)
    pivot = jnp.where(scores.count == 0, after, scores.pivot)
    jump, value = (after - before) ** 2, after - pivot
    both = value + before - pivot
    return LengthScores(
        jumps=jnp.asarray(scores.jumps).at[:, index].add(jnp.stack([jump, jump * both, jump * both**2])),
        tries=jnp.asarray(scores.tries).at[index].add(1),
        count=scores.count + 1,
        pivot=pivot,
        powers=scores.powers + jnp.stack([value, value**2, value**3, value**4]),
    )


def together(scores: LengthScores) -> LengthScores:
    """The sums of all chains, of arrays of NumPy `[chain, ...]`, relative to the mean of their pivots."""
    pivots, powers, jumps = (np.asarray(one) for one in (scores.pivot, scores.powers, scores.jumps))
    pivot = np.mean(pivots, axis=0, dtype=float)
    by, count = pivots - pivot, np.asarray(scores.count)
    return LengthScores(
        jumps=np.sum(_moved(list(np.moveaxis(jumps, 1, 0)), 2 * by[:, None]), axis=1),
        tries=np.sum(np.asarray(scores.tries), axis=0),
        count=np.sum(count, keepdims=True)[0, ...],
        pivot=pivot,
        powers=np.sum(_moved([count[:, None], *np.moveaxis(powers, 1, 0)], by)[1:], axis=1),
    )


def _moved(sums: Sequence[np.ndarray], by: np.ndarray) -> np.ndarray:
    """Sums of w (x + by)^k from those of w x^k, for k = 0, 1, ..., by the binomial theorem."""
    return np.stack(
        [np.sum([comb(k, j) * by ** (k - j) * sums[j] for j in range(k + 1)], axis=0) for k in range(len(sums))]
    )


# What follows takes arrays of NumPy, for which nothing is compiled, or of JAX.


def efficiency(found: Any, fewest_steps: Any = 1) -> Any:
    """ESS per gradient of each candidate, of values or of squares; 0 if nothing is known of it.

    Args:
        found: the `moves` of the candidates.
        fewest_steps: what shorter candidates cost.
    """
    xp = found.__array_namespace__()
    ess = found ** np.array([[2], [1]]) / (2 - found)
    cost = xp.maximum(np.array(CANDIDATES, np.float32), xp.asarray(fewest_steps, dtype=np.float32))
    return ess.min(axis=0) / cost


def moves(scores: LengthScores) -> Any:
    """1 - rho of values and of squares, `[2, candidate]`, of the slower quantities; 0 without a transition."""
    xp = scores.tries.__array_namespace__()
    mean, second, third, fourth = scores.powers / xp.maximum(scores.count, 1)
    variance = second - mean**2
    of_squares = fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4 - variance**2
    first, cross, square = scores.jumps
    moved = square - 4 * mean * cross + 4 * mean**2 * first  # (x - mean)^2 changes by d (s - 2 mean)
    found = xp.stack([_one_minus_rho(scores.tries, *each) for each in ((first, variance), (moved, of_squares))])
    return xp.where((scores.tries > 0) & xp.isfinite(found), found, 0.0)


def _one_minus_rho(tries: Any, jumps: Any, variance: Any) -> Any:
    """Mean over the slower half of the quantities, which are the same for all lengths.

    Args:
        tries: number of transitions, `[candidate]`.
        jumps: sums of squared jumps, `[candidate, quantity]`.
        variance: of the quantities, `[quantity]`.
    """
    xp = tries.__array_namespace__()
    varies = variance > 0
    relative = xp.where(varies, jumps / xp.where(varies, 2 * variance, 1.0), 0.0)
    slowness = xp.where(varies, xp.sum(relative, axis=0), xp.inf)
    slowest = xp.argsort(slowness)[: max(1, round(SLOWEST * slowness.size))]
    count = xp.maximum(xp.sum(varies[slowest]), 1)
    near = xp.asarray(_neighborhoods(), dtype=jumps.dtype)
    weight = near @ tries
    mean = near @ xp.sum(relative[:, slowest], axis=1) / xp.where(weight > 0, weight, 1.0) / count
    return xp.clip(mean, 0.0, 1.0)  # anticorrelation is not trusted: it may be a noisy estimate
