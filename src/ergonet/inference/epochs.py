"""A minibatch chain as a record, and the compiled programs that advance it.

`advance` runs steps through the minibatches laid out by `feeds.py`, with a draw after every `steps_per_draw` steps. The
keys of a chain depend only on the seed, the chain and the number of the step, not on how steps are split into chunks.
"""

from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Shaped

from ergonet._keys import key_of_words
from ergonet._types import Array, Bool, Count, Float, Int, Key, PRNGKey, Scalar, UInt
from ergonet.draws import statistics
from ergonet.draws.callback import AbstractCallback
from ergonet.draws.statistics import ANY, FLOAT, LAST, STEP_SIZE, Statistic
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, Pace
from ergonet.target.contract import AbstractTarget

START_KEY, INIT_KEY = 0xFFFF_FFFF, 0xFFFF_FFFD


class Running(eqx.Module):
    """Totals over the steps of a draw: by statistic, and whether some potential was not finite."""

    totals: dict[str, Any]
    nonfinite: Bool[Array, ""]


class MinibatchRecord(eqx.Module):
    """A chain between two steps.

    Attributes:
        key: key of the chain.
        number: number of steps so far.
        state: state of the kernel.
        step_size: step size before the schedule.
        running: totals since the last draw.
        summary: summary of the callback.
    """

    key: Key[Array, ""]
    number: UInt[Array, ""]
    state: Any
    step_size: Scalar
    running: Running
    summary: Any


class MinibatchDraws(eqx.Module):
    """The draws of a chunk, `[draw, ...]`; rows beyond `count` are not used.

    Attributes:
        count: number of draws of the chunk.
        positions: position of each draw.
        stats: the statistics listed by `declared`, by name.
        scores: figures of the callback, by name.
    """

    count: Count
    positions: Float[Array, "draw dim"]
    stats: dict[str, Shaped[Array, "draw"]]
    scores: dict[str, Float[Array, "draw"]]


WEIGHT = Statistic("weight", FLOAT, LAST)  # weight in averages; 0 in the warm-up and while the schedule explores
NONFINITE = Statistic("nonfinite", np.bool_, ANY)  # for a potential of the steps of a draw, or its position


def declared(kernel: AbstractMinibatchKernel) -> tuple[Statistic, ...]:
    """The statistics of a run: those that the kernel declares, and those of the loop."""
    return (*kernel.statistics(), STEP_SIZE, WEIGHT, NONFINITE)


def chain_key(numbers: UInt[Array, "3"]) -> PRNGKey:
    """The key of a chain from the low and the high word of the seed and the index of the chain."""
    low, high, chain = numbers
    return jax.random.fold_in(key_of_words(low, high), chain)


def start_position(target: AbstractTarget, numbers: UInt[Array, "3"], attempt: Count) -> Array:
    """Initial values drawn by the target."""
    return target.initial_position(jax.random.fold_in(jax.random.fold_in(chain_key(numbers), START_KEY), attempt))


def first_record(
    kernel: AbstractMinibatchKernel,
    target: AbstractTarget,
    callback: AbstractCallback,
    numbers: UInt[Array, "3"],
    start: tuple[Array, Scalar],
) -> MinibatchRecord:
    """A chain at its initial values and step size."""
    key, (position, step_size) = chain_key(numbers), start
    return MinibatchRecord(
        key=key,
        number=jnp.zeros((), jnp.uint32),
        state=kernel.init(jax.random.fold_in(key, INIT_KEY), target, position, step_size),
        step_size=step_size,
        running=_nothing(kernel, position.dtype),
        summary=callback.blank(),
    )


class Section(eqx.Module):
    """The part of a run that a chunk covers.

    Attributes:
        offset: offset of its first minibatch in the layout.
        num_steps: number of minibatch steps of the chunk.
        steps_per_draw: number of minibatch steps per draw.
        counts: whether the draws count in averages.
    """

    offset: Int[Array, ""]
    num_steps: Int[Array, ""]
    steps_per_draw: Int[Array, ""]
    counts: Bool[Array, ""]


def advance(
    kernel: AbstractMinibatchKernel,
    target: AbstractTarget,
    record: MinibatchRecord,
    stream: tuple[Any, Array, Section],
    callback: AbstractCallback,
    *,
    capacity: int,
) -> tuple[MinibatchRecord, MinibatchDraws]:
    """Run the steps of a chunk.

    Args:
        kernel: the transition kernel.
        target: the target.
        record: the chain.
        stream: rows, indices `[batch, row]` into them, and which of these batches to use.
        callback: called with each draw.
        capacity: largest number of draws in the chunk.
    """
    rows, order, section = stream

    def step(index: Count, record: MinibatchRecord) -> MinibatchRecord:
        chosen = lax.dynamic_index_in_dim(order, section.offset + index, keepdims=False)
        return one_step(kernel, target, record, jax.tree.map(lambda leaf: leaf[chosen], rows))

    def unfinished(carry: tuple[Count, MinibatchRecord, MinibatchDraws]) -> Bool[Array, ""]:
        return carry[0] < section.num_steps

    def to_next_draw(
        carry: tuple[Count, MinibatchRecord, MinibatchDraws],
    ) -> tuple[Count, MinibatchRecord, MinibatchDraws]:
        done, record, draws = carry
        missing = section.steps_per_draw - record.number.astype(jnp.int32) % section.steps_per_draw
        end = jnp.minimum(done + missing, section.num_steps)
        record = lax.fori_loop(done, end, step, record)
        taken = partial(_take, kernel, record, draws, section, callback)
        record, draws = lax.cond(end - done == missing, taken, lambda: (record, draws))
        return end, record, draws

    start = jnp.zeros_like(section.num_steps), record, _blank_draws(kernel, record, callback, capacity)
    _, record, draws = lax.while_loop(unfinished, to_next_draw, start)
    return record, draws


def one_step(
    kernel: AbstractMinibatchKernel, target: AbstractTarget, record: MinibatchRecord, minibatch: Any
) -> MinibatchRecord:
    """Take one step of a chain."""
    number = record.number.astype(jnp.int32)
    factor = kernel.schedule.factor(number).astype(record.step_size.dtype)
    pace = Pace(step_size=record.step_size * factor, number=number)
    key = jax.random.fold_in(record.key, record.number)
    state, info = kernel.step(key, target, record.state, minibatch, pace)
    running = Running(
        totals=statistics.add(kernel.statistics(), record.running.totals, info.values()),
        nonfinite=record.running.nonfinite | ~jnp.isfinite(info.potential),
    )
    return replace(record, number=record.number + 1, state=state, running=running)


def _nothing(kernel: AbstractMinibatchKernel, dtype: Any) -> Running:
    return Running(totals=statistics.blank(kernel.statistics(), dtype), nonfinite=jnp.zeros((), bool))


def _take(
    kernel: AbstractMinibatchKernel,
    record: MinibatchRecord,
    draws: MinibatchDraws,
    section: Section,
    callback: AbstractCallback,
) -> tuple[MinibatchRecord, MinibatchDraws]:
    """Make a draw from the position and the totals of its steps."""
    running, position = record.running, record.state.position
    last = record.number.astype(jnp.int32) - 1
    counts = section.counts & kernel.schedule.samples(last)
    weight = jnp.where(counts, kernel.schedule.factor(last), 0.0).astype(position.dtype)
    summary, scores = callback.update(record.summary, position, weight)
    stats = statistics.finish(kernel.statistics(), running.totals, section.steps_per_draw) | {
        STEP_SIZE.name: record.step_size * kernel.schedule.factor(last),
        WEIGHT.name: weight,
        NONFINITE.name: running.nonfinite | ~jnp.all(jnp.isfinite(position)),
    }
    positions, written_stats, written_scores = jax.tree.map(
        lambda all_, new: lax.dynamic_update_index_in_dim(all_, new.astype(all_.dtype), draws.count, 0),
        (draws.positions, draws.stats, draws.scores),
        (position, stats, scores),
    )
    record = replace(record, running=_nothing(kernel, position.dtype), summary=summary)
    return record, MinibatchDraws(draws.count + 1, positions, written_stats, written_scores)


def _blank_draws(
    kernel: AbstractMinibatchKernel, record: MinibatchRecord, callback: AbstractCallback, capacity: int
) -> MinibatchDraws:
    position = record.state.position
    scores = jax.eval_shape(lambda: callback.update(record.summary, position, position[0])[1])
    return MinibatchDraws(
        count=jnp.zeros((), jnp.int32),
        positions=jnp.zeros((capacity, position.size), position.dtype),
        stats=statistics.room(declared(kernel), capacity, position.dtype),
        scores={name: jnp.zeros((capacity,), one.dtype) for name, one in scores.items()},
    )
