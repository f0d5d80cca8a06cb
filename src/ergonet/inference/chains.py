"""One chain as a record, and the three compiled programs that move it.

Everything a chain needs to go on is in its `ChainRecord`. `first_record` makes one, `advance_chain` runs a
chunk of transitions (warm-up and sampling are the same program; what is learned is an argument), `finish_stage` applies
what a warm-up stage has learned. Keys are `fold_in(fold_in(seed, chain), transition)`: they never depend on the number
of chains, devices or chunks.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import Array, Bool, Count, Float, Key, PRNGKey, Scalar, UInt
from ergonet.adaptation import dual_averaging, length, welford
from ergonet.adaptation.dual_averaging import DualAveraging
from ergonet.adaptation.initial_step import find_first_step
from ergonet.adaptation.length import LengthScores
from ergonet.adaptation.warmup import FEWEST_OBSERVED, Stage
from ergonet.adaptation.welford import Moments
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.models.target import Origin, Target
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, run_transition

START_KEY, PROBE_KEY = 0xFFFF_FFFF, 0xFFFF_FFFE  # fold_in numbers that transitions do not reach


class Learning(eqx.Module):
    """What the warm-up of a chain has seen, and how many of its metrics had numbers that are not finite."""

    averaging: DualAveraging
    moments: Moments
    lengths: LengthScores
    refused_metrics: Count


class ChainRecord(eqx.Module):
    """A chain between two transitions.

    Potentials in its state leave out that at `origin`, its start or the end of the last stage of its warm-up, so that
    float32 does not round whole sums (`Target.around`). Draws have it put back.
    """

    key: Key[Array, "..."]
    transition: UInt[Array, "..."]
    state: State
    tuning: Tuning
    learning: Learning
    origin: Origin


class Plan(eqx.Module):
    """What the transitions of a chunk teach; all false while sampling."""

    tune_step_size: Bool[Array, ""]
    learn_metric: Bool[Array, ""]
    tune_length: Bool[Array, ""]
    settle: Bool[Array, ""]
    target_acceptance: Float[Array, ""]

    @staticmethod
    def of(stage: Stage | None, target_acceptance: float) -> "Plan":
        """The plan of a stage; None: sampling."""
        if stage is None:
            return _plan(False, False, False, False, target_acceptance)
        return _plan(stage.tune_step_size, stage.learn_metric, stage.tune_length, stage.settle, target_acceptance)

    @staticmethod
    def of_search() -> "Plan":
        """For `finish_stage` before any transition: renew the metric from nothing seen, that is, search a step size."""
        return _plan(False, True, False, False, 0.0)


def _plan(*flags_and_target: bool | float) -> Plan:
    """By way of NumPy: `jnp.asarray` would compile a program for each kind of value."""
    *flags, target_acceptance = flags_and_target
    dtype = jax.dtypes.canonicalize_dtype(float)
    return Plan(*jax.device_put((*map(np.asarray, flags), np.asarray(target_acceptance, dtype))))


class Draws(eqx.Module):
    """What a chunk leaves behind, `[draw, ...]`; rows beyond the count that was asked for are not used.

    Also one row of it, without the draw axis, and those of a batch, `[chain, draw, ...]`.
    """

    positions: Float[Array, "..."]
    potential: Float[Array, "..."]
    step_size: Float[Array, "..."]
    info: Info


def quantities(target: Target, position: Array) -> Array:
    """What lengths are tuned in: monitored predictions, or the position itself."""
    return target.monitor(position) if target.offers("monitor") else position


def start_chain(
    kernel: AbstractKernel, target: Target, numbers: UInt[Array, "4"], position: Array | None
) -> ChainRecord:
    """A chain at `position`, or where the target's own distribution puts it, with the kernel's first tuning.

    `numbers` are the low and the high word of the seed, the chain, and how many starts have been tried before. Keys
    are of JAX's default kind, whatever the process prefers.
    """
    low, high, chain, attempt = numbers
    root = jax.random.wrap_key_data(jnp.stack([high, low]), impl="threefry2x32")
    key = jax.random.fold_in(root, chain)
    if position is None:
        position = target.initial_position(jax.random.fold_in(jax.random.fold_in(key, START_KEY), attempt))
    return first_record(kernel, target, key, position)


def first_record(kernel: AbstractKernel, target: Target, key: PRNGKey, position: Array) -> ChainRecord:
    """A chain at its starting position, before anything has been learned."""
    origin = target.origin(position)
    state = kernel.init(target.around(origin), position)
    tuning = kernel.tuning(target, position)
    learning = Learning(
        averaging=dual_averaging.restart(tuning.step_size),
        moments=welford.blank(tuning.metric.observed(position, state.gradient), tuning.metric.blank_moments(position)),
        lengths=length.blank(_lengths_seen(kernel, target, position)),
        refused_metrics=jnp.zeros((), jnp.int32),
    )
    return ChainRecord(
        key=key,
        transition=jnp.zeros((), jnp.uint32),
        state=state,
        tuning=tuning,
        learning=learning,
        origin=origin,
    )


def _lengths_seen(kernel: AbstractKernel, target: Target, position: Array) -> Array:
    return quantities(target, position) if kernel.warmup().tune_length else position[:0]


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
    """`count` kept draws of `thin` transitions each, at most `capacity` of them."""
    target = target.around(record.origin)
    blank = blank_draws(kernel, target, record, capacity)

    def transition(_: Count, carry: tuple[ChainRecord, Info]) -> tuple[ChainRecord, Info]:
        record, before = carry
        tuning = proposed_length(kernel, record, plan)
        key = jax.random.fold_in(record.key, record.transition)
        state, info = run_transition(kernel, key, target, record.state, tuning)
        learning, tuning = learn(kernel, target, record, tuning, plan, state, info)
        return ChainRecord(
            key=record.key,
            transition=record.transition + 1,
            state=state,
            tuning=tuning,
            learning=learning,
            origin=record.origin,
        ), merge_infos(before, info)

    def kept(index: Count, carry: tuple[ChainRecord, Draws]) -> tuple[ChainRecord, Draws]:
        record, draws = carry
        step_size = record.tuning.step_size
        nothing = no_info(jax.tree.map(lambda leaf: leaf[0], blank.info))
        record, info = lax.fori_loop(0, thin, transition, (record, nothing))  # one body, so one compilation of it
        row = drawn(record.state, step_size, info, record.origin)
        written = jax.tree.map(lambda all_, new: lax.dynamic_update_index_in_dim(all_, new, index, 0), draws, row)
        return record, written

    return lax.fori_loop(0, count, kept, (record, blank))


def drawn(state: State, step_size: Scalar, info: Info, origin: Origin) -> Draws:
    """A row of draws, with what was left out put back."""
    whole = eqx.tree_at(lambda one: one.energy, info, info.energy + origin.potential)
    potential = state.potential + origin.potential
    return Draws(positions=state.position, potential=potential, step_size=step_size, info=whole)


def blank_draws(kernel: AbstractKernel, target: Target, record: ChainRecord, capacity: int) -> Draws:
    """Room for `capacity` draws of one chain."""

    def info_of(record: ChainRecord) -> Info:  # of a trajectory without a step: of the same shape, and soon traced
        return kernel.conclude(kernel.begin(record.key, target, record.state, record.tuning))[1]

    info, state = jax.eval_shape(info_of, record), record.state
    shapes = Draws(positions=state.position, potential=state.potential, step_size=record.tuning.step_size, info=info)
    return jax.tree.map(lambda leaf: jnp.zeros((capacity, *leaf.shape), leaf.dtype), shapes)


def no_info(example: Info) -> Info:
    """What `merge_infos` adds to and leaves the other as it was."""
    zeros = jax.tree.map(jnp.zeros_like, example)
    return eqx.tree_at(lambda info: info.tree_depth, zeros, jnp.full_like(example.tree_depth, -1))


def merge_infos(before: Info, now: Info) -> Info:
    """The diagnostics of a kept draw: costs add up over its thinned transitions, alarms stick."""
    return Info(
        acceptance=now.acceptance,
        gradients=before.gradients + now.gradients,
        energy=now.energy,
        energy_error=now.energy_error,
        max_energy_error=_furthest(before.max_energy_error, now.max_energy_error),
        diverging=before.diverging | now.diverging,
        nonfinite=before.nonfinite | now.nonfinite,
        num_steps=before.num_steps + now.num_steps,
        tree_depth=jnp.maximum(before.tree_depth, now.tree_depth),
        moved=before.moved | now.moved,
    )


def _furthest(before: Array, now: Array) -> Array:
    """The one that is further from 0; what is not a number is furthest."""
    return jnp.where((jnp.abs(before) >= jnp.abs(now)) | jnp.isnan(before), before, now)


def proposed_length(kernel: AbstractKernel, record: ChainRecord, plan: Plan) -> Tuning:
    """The tuning of the next transition: a candidate length while lengths are tuned."""
    tuning = record.tuning
    if not kernel.warmup().tune_length:
        return tuning
    turn = record.learning.lengths.count.astype(jnp.int32)
    num_steps = jnp.where(plan.tune_length, length.candidate(turn), tuning.num_steps)
    return Tuning(step_size=tuning.step_size, metric=tuning.metric, num_steps=num_steps)


def learn(
    kernel: AbstractKernel,
    target: Target,
    record: ChainRecord,
    tuning: Tuning,
    plan: Plan,
    *after: Any,
) -> tuple[Learning, Tuning]:
    """Dual averaging, moments and length scores, each where the plan asks for it."""
    state, info = after
    needs, learning = kernel.warmup(), record.learning
    averaging, step_size = learning.averaging, tuning.step_size
    if needs.tune_step_size:
        new_averaging, new_step = dual_averaging.update(
            averaging, info.acceptance, plan.target_acceptance, settling=plan.settle
        )
        averaging = jax.tree.map(lambda n, o: jnp.where(plan.tune_step_size, n, o), new_averaging, averaging)
        step_size = jnp.where(plan.tune_step_size, new_step, step_size)
    moments = learning.moments
    if needs.learn_metric:
        seen = tuning.metric.observed(state.position, state.gradient)
        moments = lax.cond(plan.learn_metric, lambda m: welford.observe(m, seen), lambda m: m, moments)
    lengths = learning.lengths
    if needs.tune_length:

        def score(scores: LengthScores) -> LengthScores:
            turn = scores.count.astype(jnp.int32)
            before = quantities(target, record.state.position)
            return length.observe(scores, turn, before, quantities(target, state.position))

        lengths = lax.cond(plan.tune_length, score, lambda scores: scores, lengths)
    tuning = Tuning(step_size=step_size, metric=tuning.metric, num_steps=tuning.num_steps)
    refused = learning.refused_metrics
    return Learning(averaging=averaging, moments=moments, lengths=lengths, refused_metrics=refused), tuning


def finish_stage(
    kernel: AbstractKernel, target: Target, record: ChainRecord, plan: Plan, tuning_rests: Bool[Array, ""]
) -> ChainRecord:
    """Apply what a stage has learned, and take the potential's origin where the chain is now.

    The metric is renewed where all of the new one is finite, else counted as refused, and a step size searched for it;
    the best length is taken; where the tuning of the step size rests, after the last stage or for the next, its average
    stays.
    """
    origin = target.origin(record.state.position)
    target = target.around(origin)
    record = eqx.tree_at(lambda one: one.state.potential, record, target.potential(record.state.position))
    needs, learning, tuning = kernel.warmup(), record.learning, record.tuning
    metric, averaging, num_steps, lengths = (
        tuning.metric,
        learning.averaging,
        tuning.num_steps,
        learning.lengths,
    )
    step_size: Scalar = tuning.step_size
    moments, refused = learning.moments, learning.refused_metrics
    if needs.learn_metric:
        renewed = metric.learned(moments.count, moments.mean, moments.squares)
        due, finite = plan.learn_metric & (moments.count >= FEWEST_OBSERVED), _is_finite(renewed)
        usable, refused = due & finite, refused + (due & ~finite)
        metric = jax.tree.map(lambda n, o: jnp.where(usable, n, o), renewed, metric)
        fresh = welford.blank(moments.mean, moments.squares)
        moments = jax.tree.map(lambda n, o: jnp.where(plan.learn_metric, n, o), fresh, moments)
    if needs.tune_length:
        num_steps = jnp.where(plan.tune_length, length.best_length(lengths), num_steps)
        fresh_scores = jax.tree.map(jnp.zeros_like, lengths)
        lengths = jax.tree.map(lambda n, o: jnp.where(plan.tune_length, n, o), fresh_scores, lengths)
    if needs.tune_step_size:
        tuned = plan.tune_step_size & (averaging.count > 0)
        step_size = jnp.where(tuned & tuning_rests, dual_averaging.averaged(averaging), step_size)
        probe_key = jax.random.fold_in(record.key, jnp.uint32(PROBE_KEY) - record.transition)
        candidate = Tuning(step_size=dual_averaging.averaged(averaging), metric=metric, num_steps=num_steps)
        searched = find_first_step(kernel, probe_key, target, record.state, candidate)
        step_size = jnp.where(plan.learn_metric, searched, step_size)
        restarted = dual_averaging.restart(step_size)
        averaging = jax.tree.map(lambda n, o: jnp.where(plan.learn_metric, n, o), restarted, averaging)
    return ChainRecord(
        key=record.key,
        transition=record.transition,
        state=record.state,
        tuning=Tuning(step_size=step_size, metric=metric, num_steps=num_steps),
        learning=Learning(averaging=averaging, moments=moments, lengths=lengths, refused_metrics=refused),
        origin=origin,
    )


def _is_finite(metric: AbstractMetric) -> Bool[Array, ""]:
    """Whether every number of a metric is finite; one that is not would reject every transition from then on."""
    return jax.tree.reduce(lambda so_far, leaf: so_far & jnp.all(jnp.isfinite(leaf)), metric, jnp.ones((), bool))
