"""One chain as a record, and the compiled programs that advance it.

Everything that a chain needs to continue is in its `ChainRecord`. `first_record` makes one, `advance_chain` runs a
chunk of transitions (warm-up and sampling are the same program; the active learners are an argument), and
`finish_stage` ends a stage of the warm-up. Both ends need the target at one position, from `evaluate`, a program that
the kernels of a run share. Keys are `fold_in(fold_in(seed, chain), transition)`: they never depend on
the number of chains, devices or chunks.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.typing import DTypeLike
from jaxtyping import Shaped

from ergonet._keys import key_of_words
from ergonet._types import Array, Count, Flag, Float, Int, Key, Position, PRNGKey, Scalar, UInt
from ergonet.adaptation.learner import Transition
from ergonet.adaptation.machine import Adaptation
from ergonet.draws import statistics
from ergonet.draws.statistics import LP, STEP_SIZE, Statistic
from ergonet.samplers.base import AbstractKernel, State, Tuning, run_transition
from ergonet.target.contract import AbstractDensity, AbstractTarget, ReferencePoint

START_KEY, PROBE_KEY = 0xFFFF_FFFF, 0xFFFF_FFFE  # fold_in numbers beyond those of transitions


class ChainRecord(eqx.Module):
    """A chain between two transitions, which may belong to one draw.

    Potentials in its state are relative to the potential at `reference`, the initial values or the end of the last
    warm-up stage, so that float32 does not round large sums (`AbstractTarget.relative_to`). It is added back to draws.
    """

    key: Key[Array, "..."]
    transition: UInt[Array, "..."]
    state: State
    tuning: Tuning
    memories: tuple[Any, ...]
    reference: ReferencePoint
    partial: "PartialDraw"


class Evaluation(eqx.Module):
    """A target at a position.

    Attributes:
        reference: the reference point there.
        state: what the kernel evaluates there, relative to it.
    """

    reference: ReferencePoint
    state: State

    def around(self, record: ChainRecord) -> ChainRecord:
        """A record whose chains, one or several, are there, with that reference point."""
        parts = self.reference, self.state.potential
        return eqx.tree_at(lambda one: (one.reference, one.state.potential), record, parts)


class PartialDraw(eqx.Module):
    """What the transitions since the last draw add to the next one, so that a chunk may end within a draw.

    Attributes:
        count: number of these transitions.
        totals: their statistics by name.
    """

    count: Int[Array, "..."]
    totals: dict[str, Any]

    @staticmethod
    def blank(kernel: AbstractKernel, dtype: DTypeLike) -> "PartialDraw":
        """Nothing yet."""
        return PartialDraw(jnp.zeros((), jnp.int32), statistics.blank(kernel.statistics(), dtype))

    def add(self, kernel: AbstractKernel, values: Mapping[str, Array]) -> "PartialDraw":
        """With the statistics of one more transition."""
        return PartialDraw(self.count + 1, statistics.add(kernel.statistics(), self.totals, values))

    def finish(self, kernel: AbstractKernel) -> dict[str, Array]:
        """The statistics of the draw."""
        return statistics.finish(kernel.statistics(), self.totals, self.count)


class Stretch(eqx.Module):
    """What a chunk should do.

    Attributes:
        count: largest number of transitions.
        work: gradients and transitions after which it ends; vmapped chains, which end together, do not use it.
        thin: transitions per draw.
    """

    count: Count
    work: Count
    thin: Count

    @staticmethod
    def of(count: int, *, work: int, thin: int) -> "Stretch":
        """From Python integers, below 2^31."""
        return Stretch(*jax.device_put(tuple(np.asarray(number, np.int32) for number in (count, work, thin))))


class Done(eqx.Module):
    """What a chunk has done: transitions, and these and their gradients together."""

    count: Count
    work: Count


class Draws(eqx.Module):
    """The draws of a chunk, `[draw, ...]`; rows beyond the requested count are not used.

    Also one row of them, without the draw axis, and the draws of vmapped chains, `[chain, draw, ...]`.
    """

    positions: Float[Array, "..."]
    stats: dict[str, Shaped[Array, "..."]]


def declared(kernel: AbstractKernel) -> tuple[Statistic, ...]:
    """The statistics of a run: those of the loop, and those that the kernel declares."""
    return (LP, STEP_SIZE, *kernel.statistics())


def drawn_start(target: AbstractTarget, numbers: UInt[Array, "4"]) -> Array:
    """Initial values of a chain, drawn by the target.

    `numbers` are the low and the high word of the seed, the index of the chain, and the number of previous attempts.
    """
    low, high, chain, attempt = numbers
    key = jax.random.fold_in(key_of_words(low, high), chain)
    return target.initial_position(jax.random.fold_in(jax.random.fold_in(key, START_KEY), attempt))


def evaluate(
    evaluates: Callable[[AbstractDensity, Position], State], target: AbstractTarget, position: Array
) -> Evaluation:
    """The target at a position; `evaluates` is that of the kernel."""
    reference = target.reference_point(position)
    return Evaluation(reference, evaluates(target.relative_to(reference), position))


def start_chain(
    kernel: AbstractKernel,
    target: AbstractTarget,
    adaptation: Adaptation,
    numbers: UInt[Array, "4"],
    start: Evaluation,
) -> ChainRecord:
    """Start a chain, with the kernel's initial tuning; `numbers` are those of `drawn_start`."""
    low, high, chain, _ = numbers
    return first_record(kernel, target, adaptation, jax.random.fold_in(key_of_words(low, high), chain), start)


def first_record(
    kernel: AbstractKernel, target: AbstractTarget, adaptation: Adaptation, key: PRNGKey, start: Evaluation
) -> ChainRecord:
    """A chain at its initial values, before anything has been learned."""
    state = kernel.state_at(target, start.state)
    tuning = kernel.tuning(target, state.position)
    return ChainRecord(
        key=key,
        transition=jnp.zeros((), jnp.uint32),
        state=state,
        tuning=tuning,
        memories=adaptation.init(target, state, tuning),
        reference=start.reference,
        partial=PartialDraw.blank(kernel, state.position.dtype),
    )


def advance_chain(
    kernel: AbstractKernel,
    target: AbstractTarget,
    record: ChainRecord,
    adaptation: Adaptation,
    stretch: Stretch,
    *,
    capacity: int,
) -> tuple[ChainRecord, Draws]:
    """Make transitions until the stretch ends, and a draw after every `thin` of them, at most `capacity` draws."""
    target = target.relative_to(record.reference)
    zero, nothing = jnp.zeros((), jnp.int32), PartialDraw.blank(kernel, record.state.position.dtype)

    def is_wanted(done: Done) -> Flag:
        return (done.count < stretch.count) & (done.work < stretch.work)

    def transition(carry: tuple[ChainRecord, Done]) -> tuple[ChainRecord, Done]:
        record, done = carry
        tuning = adaptation.propose(record.memories, record.tuning)
        key = jax.random.fold_in(record.key, record.transition)
        state, info = run_transition(kernel, key, target, record.state, tuning)
        seen = Transition(target=target, before=record.state, after=state, info=info)
        partial = record.partial.add(kernel, info.values())
        record = replace(after_transition(adaptation, record, tuning, seen), partial=partial)
        return record, Done(done.count + 1, done.work + 1 + info.gradients.astype(jnp.int32))

    def is_partial(carry: tuple[ChainRecord, Done]) -> Flag:
        record, done = carry
        return (record.partial.count < stretch.thin) & is_wanted(done)

    def kept(carry: tuple[ChainRecord, Draws, Count, Done]) -> tuple[ChainRecord, Draws, Count, Done]:
        record, draws, index, done = carry
        step_size = record.tuning.step_size
        record, done = lax.while_loop(is_partial, transition, (record, done))  # one body, so that it is compiled once
        row = drawn(kernel, record, step_size, record.partial.finish(kernel))
        is_whole = record.partial.count == stretch.thin
        partial = jax.tree.map(lambda new, old: jnp.where(is_whole, new, old), nothing, record.partial)
        return replace(record, partial=partial), written(draws, row, index), index + is_whole, done

    start = record, blank_draws(kernel, record, capacity), zero, Done(zero, zero)
    record, draws, *_ = lax.while_loop(lambda carry: is_wanted(carry[3]), kept, start)
    return record, draws


def drawn(kernel: AbstractKernel, record: ChainRecord, step_size: Scalar, found: Mapping[str, Array]) -> Draws:
    """One row of draws, with the reference potential added back; `step_size` is that of the last transition."""
    reference = record.reference.potential
    shifts = {one.name: reference if one.is_potential else None for one in kernel.statistics()}
    whole = {name: found[name] if shift is None else found[name] + shift for name, shift in shifts.items()}
    whole |= {LP.name: -(record.state.potential + reference), STEP_SIZE.name: step_size}
    return Draws(positions=record.state.position, stats=whole)


def written(draws: Draws, row: Draws, index: Count) -> Draws:
    """Write one row into the draws."""
    return jax.tree.map(
        lambda all_, new: lax.dynamic_update_index_in_dim(all_, new.astype(all_.dtype), index, 0), draws, row
    )


def blank_draws(kernel: AbstractKernel, record: ChainRecord, capacity: int) -> Draws:
    """Room for `capacity` draws of one chain."""
    position = record.state.position
    return Draws(
        positions=jnp.zeros((capacity, *position.shape), position.dtype),
        stats=statistics.room(declared(kernel), capacity, position.dtype),
    )


def after_transition(adaptation: Adaptation, record: ChainRecord, tuning: Tuning, seen: Transition) -> ChainRecord:
    """The record after a transition with `tuning`, updated by the learners."""
    memories, tuning = adaptation.observe(record.memories, tuning, seen)
    return replace(record, transition=record.transition + 1, state=seen.after, tuning=tuning, memories=memories)


def finish_stage(
    kernel: AbstractKernel, target: AbstractTarget, record: ChainRecord, adaptation: Adaptation
) -> ChainRecord:
    """Let the learners finish the stage; see `Evaluation.around` for what comes before."""
    memories, tuning = adaptation.finish(
        record.memories,
        record.tuning,
        kernel=kernel,
        target=target.relative_to(record.reference),
        state=record.state,
        key=jax.random.fold_in(record.key, jnp.uint32(PROBE_KEY) - record.transition),
    )
    return replace(record, tuning=tuning, memories=memories)
