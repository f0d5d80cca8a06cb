"""A minibatch chain as a record, and the compiled programs that move it.

`shuffle` lays out the minibatches of some epochs, `advance` runs steps through them and takes a draw every so many.
A chain's keys depend on the seed, the chain and the number of the step alone, never on how its steps were cut into
chunks.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Bool, Count, Float, Int, Key, PRNGKey, Scalar, UInt
from ergonet.models.target import Target
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, Pace, StepInfo

START_KEY, ORDER_KEY, INIT_KEY = 0xFFFF_FFFF, 0xFFFF_FFFE, 0xFFFF_FFFD


class AbstractWatch(eqx.Module):
    """Something that looks at every draw and keeps only a summary, so that networks need not be stored."""

    @abc.abstractmethod
    def blank(self) -> Any:
        """The summary of no draws."""

    @abc.abstractmethod
    def update(self, summary: Any, position: Float[Array, "dim"], weight: Scalar) -> tuple[Any, dict[str, Scalar]]:
        """The summary with one more draw, and figures for a learning curve."""

    @abc.abstractmethod
    def join(self, summaries: list[Any]) -> Any:
        """What the summaries of all chains say together."""


class Unwatched(AbstractWatch):
    """Looks at nothing."""

    def blank(self) -> tuple[()]:
        return ()

    def update(self, summary: Any, position: Float[Array, "dim"], weight: Scalar) -> tuple[Any, dict[str, Scalar]]:
        return (), {}

    def join(self, summaries: list[Any]) -> None:
        return None


class Running(eqx.Module):
    """What the steps of a draw have added up to."""

    potential: Scalar
    temperature: Scalar
    acceptance: Scalar
    tests: Scalar
    gradients: Count
    clipped: Scalar
    nonfinite: Bool[Array, ""]


class MinibatchRecord(eqx.Module):
    """A chain between two steps.

    Attributes:
        key: of the chain.
        number: steps so far.
        state: the kernel's.
        step_size: before the schedule.
        running: what the steps since the last draw have added up to.
        summary: the watch's.
    """

    key: Key[Array, ""]
    number: UInt[Array, ""]
    state: Any
    step_size: Scalar
    running: Running
    summary: Any


class MinibatchDraws(eqx.Module):
    """What a chunk leaves behind, `[draw, ...]`; rows beyond `count` are not used.

    Attributes:
        count: draws of the chunk.
        positions: at each draw.
        lp: minus the mean minibatch potential of the draw's steps.
        temperature: mean kinetic temperature of its steps.
        acceptance: mean over its tests; NaN without.
        step_size: of its last step, after the schedule.
        weight: in averages; 0 in a warm-up and where the schedule explores.
        gradients: minibatch gradients.
        clipped: mean share of clipped coordinates.
        nonfinite: a potential or a position of its steps is not finite.
        scores: figures of the watch by name.
    """

    count: Count
    positions: Float[Array, "draw dim"]
    lp: Float[Array, "draw"]
    temperature: Float[Array, "draw"]
    acceptance: Float[Array, "draw"]
    step_size: Float[Array, "draw"]
    weight: Float[Array, "draw"]
    gradients: Int[Array, "draw"]
    clipped: Float[Array, "draw"]
    nonfinite: Bool[Array, "draw"]
    scores: dict[str, Float[Array, "draw"]]


def chain_key(numbers: UInt[Array, "3"]) -> PRNGKey:
    """The key of a chain from the low and the high word of the seed, and its number."""
    low, high, chain = numbers
    return jax.random.fold_in(jax.random.wrap_key_data(jnp.stack([high, low]), impl="threefry2x32"), chain)


def start_position(target: Target, numbers: UInt[Array, "3"], attempt: Count) -> Array:
    """A place to start from, drawn by the target."""
    return target.initial_position(jax.random.fold_in(jax.random.fold_in(chain_key(numbers), START_KEY), attempt))


def first_record(
    kernel: AbstractMinibatchKernel,
    target: Target,
    watch: AbstractWatch,
    numbers: UInt[Array, "3"],
    start: tuple[Array, Scalar],
) -> MinibatchRecord:
    """A chain at its starting position and step size."""
    key, (position, step_size) = chain_key(numbers), start
    return MinibatchRecord(
        key=key,
        number=jnp.zeros((), jnp.uint32),
        state=kernel.init(jax.random.fold_in(key, INIT_KEY), target, position, step_size),
        step_size=step_size,
        running=_nothing(position.dtype),
        summary=watch.blank(),
    )


def shuffle(key: PRNGKey, first_epoch: Count, *, num_rows: int, batch_size: int, num_epochs: int) -> Array:
    """Row numbers of the minibatches of some epochs, `[batch, row]`: each a permutation, its remainder left out."""
    num_batches = num_rows // batch_size

    def epoch(number: Count) -> Array:
        order = jax.random.permutation(jax.random.fold_in(jax.random.fold_in(key, ORDER_KEY), number), num_rows)
        return order[: num_batches * batch_size].reshape(num_batches, batch_size)

    return lax.map(epoch, first_epoch + jnp.arange(num_epochs)).reshape(num_epochs * num_batches, batch_size)


class Section(eqx.Module):
    """Which part of a run a chunk is.

    Attributes:
        offset: of its first minibatch in the layout.
        num_steps: minibatch steps of the chunk.
        steps_per_draw: minibatch steps of a draw.
        counts: whether its draws count in averages.
    """

    offset: Int[Array, ""]
    num_steps: Int[Array, ""]
    steps_per_draw: Int[Array, ""]
    counts: Bool[Array, ""]


def advance(
    kernel: AbstractMinibatchKernel,
    target: Target,
    record: MinibatchRecord,
    stream: tuple[Any, Array, Section],
    watch: AbstractWatch,
    *,
    capacity: int,
) -> tuple[MinibatchRecord, MinibatchDraws]:
    """Run the steps of a chunk.

    Args:
        kernel: the transition.
        target: what is sampled.
        record: the chain.
        stream: rows, `[batch, row]` numbers into them, and which of those batches to use.
        watch: sees each draw.
        capacity: draws that there is room for; at most so many may fall into the chunk.
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
        is_draw = end - done == missing
        record, draws = lax.cond(is_draw, lambda: _take(kernel, record, draws, section, watch), lambda: (record, draws))
        return end, record, draws

    start = jnp.zeros_like(section.num_steps), record, _blank_draws(record, watch, capacity)
    _, record, draws = lax.while_loop(unfinished, to_next_draw, start)
    return record, draws


def one_step(
    kernel: AbstractMinibatchKernel, target: Target, record: MinibatchRecord, minibatch: Any
) -> MinibatchRecord:
    """One step of a chain."""
    number = record.number.astype(jnp.int32)
    factor = kernel.schedule.factor(number).astype(record.step_size.dtype)
    pace = Pace(step_size=record.step_size * factor, number=number)
    key = jax.random.fold_in(record.key, record.number)
    state, info = kernel.step(key, target, record.state, minibatch, pace)
    return MinibatchRecord(
        key=record.key,
        number=record.number + 1,
        state=state,
        step_size=record.step_size,
        running=_added(record.running, info),
        summary=record.summary,
    )


def _added(sums: Running, info: StepInfo) -> Running:
    tested = ~jnp.isnan(info.acceptance)
    return Running(
        potential=sums.potential + info.potential,
        temperature=sums.temperature + info.temperature,
        acceptance=sums.acceptance + jnp.where(tested, info.acceptance, 0.0),
        tests=sums.tests + tested,
        gradients=sums.gradients + info.gradients,
        clipped=sums.clipped + info.clipped,
        nonfinite=sums.nonfinite | ~jnp.isfinite(info.potential),
    )


def _nothing(dtype: Any) -> Running:
    zero = jnp.zeros((), dtype)
    return Running(
        potential=zero,
        temperature=zero,
        acceptance=zero,
        tests=zero,
        gradients=jnp.zeros((), jnp.int32),
        clipped=zero,
        nonfinite=jnp.zeros((), bool),
    )


def _take(
    kernel: AbstractMinibatchKernel,
    record: MinibatchRecord,
    draws: MinibatchDraws,
    section: Section,
    watch: AbstractWatch,
) -> tuple[MinibatchRecord, MinibatchDraws]:
    """A draw: the position, and what its steps have added up to."""
    sums, position = record.running, record.state.position
    steps = section.steps_per_draw.astype(position.dtype)
    last = record.number.astype(jnp.int32) - 1
    step_size = record.step_size * kernel.schedule.factor(last)
    counts = section.counts & kernel.schedule.samples(last)
    weight = jnp.where(counts, kernel.schedule.factor(last), 0.0).astype(position.dtype)
    summary, scores = watch.update(record.summary, position, weight)
    row = {
        "positions": position,
        "lp": -sums.potential / steps,
        "temperature": sums.temperature / steps,
        "acceptance": jnp.where(sums.tests > 0, sums.acceptance / jnp.maximum(sums.tests, 1), jnp.nan),
        "step_size": step_size,
        "weight": weight,
        "gradients": sums.gradients,
        "clipped": sums.clipped / steps,
        "nonfinite": sums.nonfinite | ~jnp.all(jnp.isfinite(position)),
        "scores": scores,
    }
    written = jax.tree.map(
        lambda all_, new: lax.dynamic_update_index_in_dim(all_, new.astype(all_.dtype), draws.count, 0),
        {name: getattr(draws, name) for name in row},
        row,
    )
    fresh = _nothing(position.dtype)
    record = MinibatchRecord(record.key, record.number, record.state, record.step_size, fresh, summary)
    return record, MinibatchDraws(count=draws.count + 1, **written)


def _blank_draws(record: MinibatchRecord, watch: AbstractWatch, capacity: int) -> MinibatchDraws:
    position = record.state.position
    scores = jax.eval_shape(lambda: watch.update(record.summary, position, position[0])[1])
    column = jnp.zeros((capacity,), position.dtype)
    return MinibatchDraws(
        count=jnp.zeros((), jnp.int32),
        positions=jnp.zeros((capacity, position.size), position.dtype),
        lp=column,
        temperature=column,
        acceptance=column,
        step_size=column,
        weight=column,
        gradients=jnp.zeros((capacity,), jnp.int32),
        clipped=column,
        nonfinite=jnp.zeros((capacity,), bool),
        scores={name: jnp.zeros((capacity,), one.dtype) for name, one in scores.items()},
    )
