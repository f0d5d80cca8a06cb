"""A first step size for a minibatch kernel: a short search on the loss.

Trial runs of some steps each, from where the last good one ended, begin with a step size of 1. A trial is good where
the potential stays finite, its mean over the second half is not above that over the first by more than a chain may
climb from a mode (the number of coordinates) and minibatches make it vary, the kinetic temperature of the second half
is below 1.5 or still falling, and a kernel that refuses proposals accepts a tenth of them at least. After a bad one the
step size is halved; after four good ones in a row the search ends, with half of that step size for a kernel that keeps
its momentum, and a quarter for one that does not: stable for long, and with little of the error that grows with the
step. The trials descend as they go, so the last ones judge the step size near the posterior and not far out in the
prior.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Count, Flag, Position, Scalar
from ergonet.inference.epochs import MinibatchRecord
from ergonet.models.target import Target
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, Pace

SEARCH_KEY = 0xFFFF_FFFC
FIRST = 1.0
GOOD_TRIALS = 4
MOST_TRIALS = 80
SHORTEST, LONGEST = 64, 1000  # steps of a trial
MEMORIES = 4  # of the momentum, that a trial lasts
HOTTEST = 1.5
LEAST_ACCEPTANCE = 0.1
EXPLODED = 100.0  # times the first potential, where a trial is given up


class _Trial(eqx.Module):
    """Sums over the halves of a trial."""

    state: Any
    index: Count
    potential: Array  # [half]
    square: Array  # [half], of the distances from the first potential
    temperature: Array  # [half]
    acceptance: Array  # [sum, count], where something is accepted
    given_up: Flag


class _Search(eqx.Module):
    """Where the search is."""

    position: Position
    step_size: Scalar
    good: Count
    trials: Count


def search_step_size(
    kernel: AbstractMinibatchKernel, target: Target, record: MinibatchRecord, rows: Any, order: Array
) -> Scalar:
    """The step size that the module's docstring describes; NaN where none was good.

    Args:
        kernel: the transition.
        target: what is sampled.
        record: a chain at its start.
        rows: of the data.
        order: `[batch, row]` numbers of rows; the search goes through them again and again.
    """
    length = 2 * (int(min(LONGEST, max(SHORTEST, MEMORIES * kernel.memory))) // 2)

    def unfinished(search: _Search) -> Flag:
        return (search.good < GOOD_TRIALS) & (search.trials < MOST_TRIALS)

    def attempt(search: _Search) -> _Search:
        key = jax.random.fold_in(jax.random.fold_in(record.key, SEARCH_KEY), search.trials)
        offset = search.trials * length

        def minibatch(index: Count) -> Any:
            return jax.tree.map(lambda leaf: leaf[order[(offset + index) % order.shape[0]]], rows)

        before = target.minibatch_potential(search.position, minibatch(jnp.zeros_like(offset)))

        def step(trial: _Trial) -> _Trial:
            pace = Pace(step_size=search.step_size, number=trial.index)
            key_step = jax.random.fold_in(key, trial.index)
            state, info = kernel.step(key_step, target, trial.state, minibatch(trial.index), pace)
            half = (jnp.arange(2) == 2 * trial.index // length) / (length / 2)
            shift = info.potential - before
            return _Trial(
                state=state,
                index=trial.index + 1,
                potential=trial.potential + half * shift,
                square=trial.square + half * shift**2,
                temperature=trial.temperature + half * info.temperature,
                acceptance=trial.acceptance + _accepted(info.acceptance),
                given_up=~(shift < EXPLODED * (1 + jnp.abs(before))),
            )

        blank = jnp.zeros(2, search.position.dtype)
        first = _Trial(
            state=kernel.init(key, target, search.position, search.step_size),
            index=jnp.zeros((), jnp.int32),
            potential=blank,
            square=blank,
            temperature=blank,
            acceptance=blank,
            given_up=jnp.zeros((), bool),
        )
        trial = lax.while_loop(lambda one: (one.index < length) & ~one.given_up, step, first)
        good = _is_good(trial, length, target.dim)
        return _Search(
            position=jnp.where(good, trial.state.position, search.position),
            step_size=jnp.where(good, search.step_size, 0.5 * search.step_size),
            good=jnp.where(good, search.good + 1, 0),
            trials=search.trials + 1,
        )

    position = record.state.position
    zero = jnp.zeros((), jnp.int32)
    start = _Search(position=position, step_size=jnp.asarray(FIRST, position.dtype), good=zero, trials=zero)
    end = lax.while_loop(unfinished, attempt, start)
    share = 0.5 if kernel.memory > 1 else 0.25
    return jnp.where(end.good == GOOD_TRIALS, share * end.step_size, jnp.nan)


def _is_good(trial: _Trial, length: int, dim: int) -> Flag:
    early, late = trial.potential
    variance = jnp.maximum(trial.square[1] - late**2, 0.0)
    slack = dim + 3 * jnp.sqrt(2 * variance / (length / 2))
    hot = trial.temperature[1] > jnp.maximum(HOTTEST, 0.9 * trial.temperature[0])  # False where there is none
    finite = jnp.all(jnp.isfinite(trial.state.position))
    accepted = trial.acceptance[0] >= LEAST_ACCEPTANCE * trial.acceptance[1]
    return ~trial.given_up & finite & accepted & (late <= early + slack) & ~hot


def _accepted(acceptance: Scalar) -> Array:
    """What a step adds to the sum and the count of acceptances; nothing where there is none."""
    known = ~jnp.isnan(acceptance)
    return jnp.stack([jnp.where(known, acceptance, 0.0), known.astype(acceptance.dtype)])
