"""Vmapped chains, for accelerators: the programs of `chains.py` for all chains of a device at once.

Chains do not wait for each other: a step of the loop advances every chain by one gradient, and a chain whose trajectory
has ended concludes it, adapts, and begins its next transition while the others continue.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Count, Int, Position
from ergonet.adaptation.learner import Transition
from ergonet.adaptation.machine import Adaptation
from ergonet.inference import chains
from ergonet.inference.chains import ChainRecord, Draws, Evaluation, PartialDraw, Stretch
from ergonet.samplers.base import AbstractKernel, State, Tuning
from ergonet.target.contract import AbstractDensity, AbstractTarget


class _Moving(eqx.Module):
    """A chain within a transition.

    Attributes:
        record: the chain before the transition.
        trajectory: trajectory of the kernel.
        tuning: tuning of the transition.
        index: number of draws of the chunk so far.
        draws: draws of the chunk so far.
    """

    record: ChainRecord
    trajectory: Any
    tuning: Tuning
    index: Int[Array, "..."]
    draws: Draws


def evaluate(
    evaluates: Callable[[AbstractDensity, Position], State], target: AbstractTarget, positions: Array
) -> Evaluation:
    """`chains.evaluate` for every chain; leaves are `[chain, ...]`."""
    return jax.vmap(lambda position: chains.evaluate(evaluates, target, position))(positions)


def finish_stage(
    kernel: AbstractKernel, target: AbstractTarget, record: ChainRecord, adaptation: Adaptation
) -> ChainRecord:
    """`chains.finish_stage` for every chain; leaves of the record are `[chain, ...]`."""
    return jax.vmap(lambda one: chains.finish_stage(kernel, target, one, adaptation))(record)


def advance_chain(
    kernel: AbstractKernel,
    target: AbstractTarget,
    record: ChainRecord,
    adaptation: Adaptation,
    stretch: Stretch,
    *,
    capacity: int,
) -> tuple[ChainRecord, Draws]:
    """Make the transitions of the stretch for every chain, all of them; draws are `[chain, draw, ...]`."""
    nothing = PartialDraw.blank(kernel, record.state.position.dtype)
    first, wanted = record.transition, stretch.count.astype(record.transition.dtype)

    def begin(record: ChainRecord, index: Count, draws: Draws) -> _Moving:
        tuning = adaptation.propose(record.memories, record.tuning)
        key = jax.random.fold_in(record.key, record.transition)
        trajectory = kernel.begin(key, target.relative_to(record.reference), record.state, tuning)
        return _Moving(record=record, trajectory=trajectory, tuning=tuning, index=index, draws=draws)

    def advance(one: _Moving) -> Any:
        return kernel.advance(target.relative_to(one.record.reference), one.trajectory, one.tuning)

    def conclude(one: _Moving) -> _Moving:
        """Store the result of the transition, and begin the next."""
        before, (state, info) = one.record, kernel.conclude(one.trajectory)
        seen = Transition(target=target, before=before.state, after=state, info=info)
        after = chains.after_transition(adaptation, before, one.tuning, seen)
        partial = before.partial.add(kernel, info.values())
        row = chains.drawn(kernel, after, before.tuning.step_size, partial.finish(kernel))
        is_whole = partial.count == stretch.thin
        partial = jax.tree.map(lambda new, old: jnp.where(is_whole, new, old), nothing, partial)
        return begin(replace(after, partial=partial), one.index + is_whole, chains.written(one.draws, row, one.index))

    def is_pending(moving: _Moving) -> Array:
        return moving.record.transition - first < wanted

    def body(moving: _Moving) -> _Moving:
        active = is_pending(moving)
        moving = replace(moving, trajectory=_where(active, jax.vmap(advance)(moving), moving.trajectory))
        ended = active & jax.vmap(kernel.finished)(moving.trajectory)

        def turn(moving: _Moving) -> _Moving:
            return _where(ended, jax.vmap(conclude)(moving), moving)

        return lax.cond(jnp.any(ended), turn, lambda unchanged: unchanged, moving)

    def start(record: ChainRecord) -> _Moving:
        return begin(record, jnp.zeros((), jnp.int32), chains.blank_draws(kernel, record, capacity))

    moving = lax.while_loop(lambda moving: jnp.any(is_pending(moving)), body, jax.vmap(start)(record))
    return moving.record, moving.draws


def _where(mask: Array, new: Any, old: Any) -> Any:
    """Select `new` for chains whose mask is set, otherwise `old`."""

    def choose(one: Array, other: Array) -> Array:
        return jnp.where(mask.reshape(mask.shape + (1,) * (one.ndim - 1)), one, other)

    return jax.tree.map(choose, new, old)
