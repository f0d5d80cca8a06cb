"""A batch of chains in one program, for accelerators: the programs of `chains.py` with a lane per chain.

Lanes do not wait for each other: a step of the loop advances every lane by one gradient, and a lane whose trajectory
has ended concludes it, learns, and begins its next transition while the others go on.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Bool, Count
from ergonet.inference import chains
from ergonet.inference.chains import ChainRecord, Draws, Plan
from ergonet.models.target import Target
from ergonet.samplers.base import AbstractKernel, Tuning


def finish_stage(
    kernel: AbstractKernel, target: Target, record: ChainRecord, plan: Plan, tuning_rests: Bool[Array, ""]
) -> ChainRecord:
    """`chains.finish_stage` for every lane."""
    return jax.vmap(lambda lane: chains.finish_stage(kernel, target, lane, plan, tuning_rests))(record)


def advance_chain(
    kernel: AbstractKernel,
    target: Target,
    record: ChainRecord,
    plan: Plan,
    count: Count,
    *,
    thin: Count,
    capacity: int,
) -> tuple[ChainRecord, Draws]:
    """`count` kept draws of `thin` transitions for every lane; draws are `[chain, draw, ...]`."""
    lanes = record.transition.shape[0]
    single = jax.tree.map(lambda leaf: leaf[0], record)
    blank = chains.blank_draws(kernel, target, single, capacity)
    draws = jax.tree.map(lambda leaf: jnp.zeros((lanes, *leaf.shape), leaf.dtype), blank)
    first = record.transition
    wanted = (count * thin).astype(first.dtype)

    def begin(lane: ChainRecord):
        tuning = chains.proposed_length(kernel, lane, plan)
        key = jax.random.fold_in(lane.key, lane.transition)
        return kernel.begin(key, target.around(lane.origin), lane.state, tuning), tuning

    def conclude(lane: ChainRecord, trajectory: Any, tuning: Tuning, lane_draws: Draws, start: Array):
        state, info = kernel.conclude(trajectory)
        learning, new_tuning = chains.learn(kernel, target, lane, tuning, plan, state, info)
        index = ((lane.transition - start) // thin.astype(start.dtype)).astype(jnp.int32)
        is_first = (lane.transition - start) % thin.astype(start.dtype) == 0
        row = chains.drawn(state, lane.tuning.step_size, info, lane.origin)
        before = jax.tree.map(lambda all_: all_[index], lane_draws)
        merged = chains.merge_infos(before.info, row.info)
        info = jax.tree.map(lambda one, both: jnp.where(is_first, one, both), row.info, merged)
        row = eqx.tree_at(lambda r: r.info, row, info)
        lane_draws = jax.tree.map(
            lambda all_, new: lax.dynamic_update_index_in_dim(all_, new.astype(all_.dtype), index, 0),
            lane_draws,
            row,
        )
        lane = ChainRecord(
            key=lane.key,
            transition=lane.transition + 1,
            state=state,
            tuning=new_tuning,
            learning=learning,
            origin=lane.origin,
        )
        return lane, *begin(lane), lane_draws

    def pending(carry: Any) -> Array:
        return jnp.any(carry[0].transition - first < wanted)

    def body(carry: Any):
        records, trajectories, tunings, all_draws = carry
        active = records.transition - first < wanted
        advanced = jax.vmap(lambda lane, t, u: kernel.advance(target.around(lane.origin), t, u))(
            records, trajectories, tunings
        )
        trajectories = _where(active, advanced, trajectories)
        ended = active & jax.vmap(kernel.finished)(trajectories)

        def turn(carry: Any):
            lanes, moving, tuned, kept = carry
            concluded = jax.vmap(conclude)(lanes, moving, tuned, kept, first)
            return tuple(_where(ended, new, old) for new, old in zip(concluded, carry, strict=True))

        carry = (records, trajectories, tunings, all_draws)
        return lax.cond(jnp.any(ended), turn, lambda unchanged: unchanged, carry)

    trajectories, tunings = jax.vmap(begin)(record)
    record, _, _, draws = lax.while_loop(pending, body, (record, trajectories, tunings, draws))
    return record, draws


def _where(mask: Array, new: Any, old: Any):
    """Lane by lane: `new` where the mask is set."""

    def choose(one: Array, other: Array):
        return jnp.where(mask.reshape(mask.shape + (1,) * (one.ndim - 1)), one, other)

    return jax.tree.map(choose, new, old)
