"""The stability search for the step size of a minibatch kernel.

Short trial runs start with a step size of 1, each from the end of the last successful one. A trial is successful if the
potential stays finite; if its mean over the second half does not exceed that over the first half by more than a chain
may climb from a mode (the number of coordinates) plus the variation between minibatches; if the kinetic temperature of
the second half is below 1.5 or still decreasing, or the kernel has a Metropolis correction on all rows, which makes hot
trajectories harmless; and if at least a tenth of the proposals is accepted. After an unsuccessful trial the step size
is halved. After four successful trials in a row the search ends; the result is half of the step size for a kernel with
a persistent momentum and a quarter otherwise, which is stable for long runs and keeps the bias small. The potential
decreases from trial to trial, so the last trials judge the step size near the posterior and not at remote initial
values.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._numbers import like, whole
from ergonet._types import Array, Count, Flag, Position, Scalar
from ergonet.inference.epochs import MinibatchRecord
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, Pace, rows_of
from ergonet.target.contract import AbstractTarget

SEARCH_KEY = 0xFFFF_FFFC
FIRST = 1.0
GOOD_TRIALS = 4
MOST_TRIALS = 80
SHORTEST, LONGEST = 64, 1000  # steps of a trial
MEMORIES = 4  # length of a trial, in memories of the momentum
HOTTEST = 1.5
LEAST_ACCEPTANCE = 0.1
EXPLODED = 100.0  # multiple of the first potential at which a trial is abandoned


class _Trial(eqx.Module):
    """Sums over each half of a trial."""

    state: Any
    index: Count
    potential: Array  # [half]
    square: Array  # [half], of the distances from the first potential
    temperature: Array  # [half]
    acceptance: Array  # [sum, count], for kernels that accept and reject
    given_up: Flag


class _Search(eqx.Module):
    """State of the search."""

    position: Position
    step_size: Scalar
    good: Count
    trials: Count


class Trials(eqx.Module):
    """The length of trials, and the fraction of a stable step size that is used.

    Attributes:
        length: number of steps of a trial, even.
        share: the fraction, in (0, 1).
    """

    length: Count
    share: Scalar

    @staticmethod
    def of(kernel: AbstractMinibatchKernel, position: Position) -> "Trials":
        """Choose these by the memory of the kernel's momentum."""
        steps = int(min(LONGEST, max(SHORTEST, MEMORIES * kernel.memory)))
        return Trials(length=whole(2 * (steps // 2)), share=like(0.5 if kernel.memory > 1 else 0.25, position))


def search_step_size(
    kernel: AbstractMinibatchKernel,
    target: AbstractTarget,
    record: MinibatchRecord,
    stream: tuple[Any, Array],
    trials: Trials,
) -> Scalar:
    """Run the stability search; NaN if no step size was stable.

    Args:
        kernel: the transition kernel.
        target: the target.
        record: a chain at its initial values.
        stream: rows of the data, and their indices `[batch, row]` in minibatches, which are used cyclically.
        trials: length of trials for this kernel.
    """
    (rows, order), length = stream, trials.length

    def unfinished(search: _Search) -> Flag:
        return (search.good < GOOD_TRIALS) & (search.trials < MOST_TRIALS)

    def attempt(search: _Search) -> _Search:
        key = jax.random.fold_in(jax.random.fold_in(record.key, SEARCH_KEY), search.trials)
        offset = search.trials * length

        def minibatch(index: Count) -> Any:
            return jax.tree.map(lambda leaf: leaf[order[(offset + index) % order.shape[0]]], rows)

        before = rows_of(target).minibatch_potential(search.position, minibatch(jnp.zeros_like(offset)))

        def step(trial: _Trial) -> _Trial:
            pace = Pace(step_size=search.step_size, number=trial.index)
            key_step = jax.random.fold_in(key, trial.index)
            state, info = kernel.step(key_step, target, trial.state, minibatch(trial.index), pace)
            half = (jnp.arange(2) == 2 * trial.index // length) / (length / 2)
            shift, found = info.potential - before, info.values()
            return _Trial(
                state=state,
                index=trial.index + 1,
                potential=trial.potential + half * shift,
                square=trial.square + half * shift**2,
                temperature=trial.temperature + half * found.get("kinetic_temperature", 0.0),
                acceptance=trial.acceptance + _accepted(found.get("acceptance_rate", jnp.full_like(shift, jnp.nan))),
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
        good = _is_good(trial, length, target.dim, is_corrected=kernel.is_corrected)
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
    return jnp.where(end.good == GOOD_TRIALS, trials.share * end.step_size, jnp.nan)


def _is_good(trial: _Trial, length: Count, dim: int, *, is_corrected: bool) -> Flag:
    early, late = trial.potential
    variance = jnp.maximum(trial.square[1] - late**2, 0.0)
    slack = dim + 3 * jnp.sqrt(2 * variance / (length / 2))
    hot = trial.temperature[1] > jnp.maximum(HOTTEST, 0.9 * trial.temperature[0])  # 0 for kernels without one
    hot = hot & (not is_corrected)
    finite = jnp.all(jnp.isfinite(trial.state.position))
    accepted = trial.acceptance[0] >= LEAST_ACCEPTANCE * trial.acceptance[1]
    return ~trial.given_up & finite & accepted & (late <= early + slack) & ~hot


def _accepted(acceptance: Scalar) -> Array:
    """Contribution of a step to the sum and the count of acceptances; zero for NaN."""
    known = ~jnp.isnan(acceptance)
    return jnp.stack([jnp.where(known, acceptance, 0.0), known.astype(acceptance.dtype)])
