"""`sample`: validates its arguments, makes the jobs of a run, drives them, and returns the draws."""

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ergonet._errors import SamplingWarning, SettingError, TimeLimitError
from ergonet._fork import require_jax
from ergonet.adaptation.recipes import recipe_of
from ergonet.adaptation.stages import Warmup
from ergonet.draws.callback import AbstractCallback, NoCallback
from ergonet.draws.memory import plan_memory
from ergonet.draws.recorder import Recorder
from ergonet.draws.retention import AbstractRetention, Every
from ergonet.draws.samples import Samples
from ergonet.draws.store import AbstractStore, ZarrStore
from ergonet.draws.storing import finish_store
from ergonet.draws.versions import versions
from ergonet.execution.base import AbstractExecutor
from ergonet.execution.threads import worker_pool
from ergonet.inference.compiled import keep_compiled_programs, make_room_for_programs
from ergonet.inference.continuing import WARM_START, Start, how_it_ended, left_in, suspend
from ergonet.inference.devices import Devices, Placement, place
from ergonet.inference.drive import Diverged, Ending, TimeLimit, bounded, compile_programs, drive, search_steps
from ergonet.inference.jobs import AbstractJob, RunPlan
from ergonet.inference.looks import Looks
from ergonet.inference.minibatch_jobs import MinibatchPlan, minibatch_jobs
from ergonet.inference.pooling import SharedLength
from ergonet.inference.progress import AbstractProgress, choose_progress
from ergonet.inference.registry import WARM_STARTS
from ergonet.inference.rounding import RoundingCheck
from ergonet.inference.stopping import NoLongerSampling
from ergonet.inference.trajectory_jobs import TrajectoryPlan, trajectory_jobs
from ergonet.inference.until import Until
from ergonet.inference.validation import (
    open_store,
    validate_init,
    validate_numbers,
    validate_plugins,
    validate_size,
    validate_target,
    validate_until,
)
from ergonet.inference.warm_start import Surroundings, WarmStart
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
from ergonet.target.contract import AbstractTarget


def sample(
    target: AbstractTarget,
    kernel: AbstractKernel | AbstractMinibatchKernel | None = None,
    *,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_draws: int = 1000,
    thin: int = 1,
    seed: int,
    warmup: Warmup | None = None,
    retention: AbstractRetention | None = None,
    callback: AbstractCallback | None = None,
    init: Any = None,
    warm_start: str | Mapping[str, Any] | WarmStart | None = None,
    store: str | os.PathLike[str] | AbstractStore | None = None,
    devices: Devices = None,
    executor: Executor | None = None,
    progress: bool | AbstractProgress = True,
    time_limit: float | None = None,
    until: Until | Mapping[str, Any] | None = None,
    resume: bool = False,
    stop_when_stuck: bool = True,
) -> Samples:
    """Draw from a target.

    Args:
        target: what is sampled.
        kernel: the transition kernel; None: `NUTS()`. With a minibatch kernel, such as `SGHMC()`, a draw is the state
            after an epoch unless the kernel has `steps_per_draw`.
        num_chains: number of independent chains, at least 1.
        num_warmup: number of warm-up draws, which tune the kernel or let the chain approach equilibrium and are not
            stored; at least 0.
        num_draws: number of draws of each chain after the warm-up, at least 1; with `until`, the most.
        thin: transitions per draw after the warm-up, at least 1; for minibatch kernels, epochs per stored draw.
        seed: an integer from 0 to 2^63 - 1. The draws of a chain do not depend on the numbers of chains and workers;
            those of chains that share a learned trajectory length do on that of chains.
        warmup: a recipe of stages; None: Stan's windows for what the kernel needs. Minibatch kernels have no stages.
        retention: which draws are stored: `Every(thin)` or `Last(count)`; None: all.
        callback: called with every draw, such as `RunningPrediction(model, x, y)`; None: no callback.
        init: initial values `[dim]` or `[chain, dim]`; None: drawn by the target. Minibatch kernels start from a tenth
            of such a draw, because far from the posterior gradients and their noise are large.
        warm_start: finds the starts of the chains by an optimizer, from `init` or from what would be drawn: None, a
            `WarmStart`, or its name, or a table of its `name` and settings. `time_limit` counts it.
        store: None: memory; a path: a Zarr group on disk; or a store.
        devices: None: all cores, or all accelerators; an integer: that many; JAX devices; or `RowShards(...)`, which
            divides the rows over devices. This is also the number of chunks in progress at a time.
        executor: an executor with the interface of `concurrent.futures` that advances the chains, such as
            `ergonet.execution.dask.DaskExecutor`; None: worker threads.
        progress: whether to show progress, or an `AbstractProgress`.
        time_limit: seconds after which the run stops and returns its draws, above 0; Ctrl-C does the same.
        until: stops the run once its monitored predictions, or a score, are known well enough, such as
            `Until(ess=400, rhat=1.01)`, or a table of its settings; not for minibatch kernels. `about["until"]` says
            what was found; None: no such rule.
        resume: continue the run in `store`, if there is one, or else start it. A run that was killed or stopped, in its
            warm-up too, goes on from its last checkpoint, and a larger `num_draws` adds draws to one that is complete;
            the draws are those of an uninterrupted run, bit for bit. Everything else must be as it was, except
            `devices`, `executor`, `progress`, `time_limit`, `until` and `stop_when_stuck`. On accelerators, `devices`
            must be as it was, too, because the chains of each share a program.
        stop_when_stuck: whether a run stops when every chain stands still or is in a storm of divergences, judged by at
            least 200 draws of each (`stopping.py`); not for minibatch kernels.

    Returns:
        The samples. If the run was stopped, `num_draws` is the number of draws that every chain has finished. There is
        a `curve` over all draws for minibatch kernels, for `retention=Last(...)` and with a callback, and the
        callback's `running_summary`.

    Raises:
        CapabilityError: the target and the kernel do not match.
        DivergedError: a minibatch chain diverged before the first draw; names the setting to change.
        SettingError: a setting is out of range; or the run to be continued has other settings, data or software.
        StartError: no initial values with a finite density, or no stable step size, were found.
        MemoryPlanError: the draws would not fit.
        TimeLimitError: the time limit was reached before the first draw; has the last `states` of the warm-up.
        KeyboardInterrupt: Ctrl-C was pressed before the first draw.
        ForkError: this process was forked from one that had used JAX.
        RunDirectoryError: the store exists (without `resume`), is damaged, or cannot be continued.
    """
    require_jax()
    began = time.perf_counter()
    kernel = NUTS() if kernel is None else kernel
    validate_target(target, kernel)
    validate_numbers(
        num_chains=num_chains, num_warmup=num_warmup, num_draws=num_draws, thin=thin, seed=seed, time_limit=time_limit
    )
    validate_plugins(retention, callback, executor)
    chosen, rule = _chosen(warm_start, target), Until.of(until)
    thinned = _thinning(kernel, int(thin), int(num_draws), retention)
    validate_until(rule, target, kernel, retention, num_chains=num_chains, num_draws=thinned.num_draws)
    validate_size(target, kernel, int(num_chains))
    placement = place(devices, num_chains)
    executor = placement.executor(executor)
    placement = placement.over(executor)
    plan = RunPlan(
        num_chains=int(num_chains),
        num_warmup=int(num_warmup),
        num_draws=thinned.num_draws,
        seed=int(seed),
        init=validate_init(init, target.dim, num_chains, kernel),
        callback=NoCallback() if callback is None else callback,
    )
    make = partial(_jobs, target, kernel, placement=placement, thin=thinned.thin, warmup=warmup)
    jobs = make(plan)
    reporter = choose_progress(progress)
    opened = open_store(store, resume=resume)
    recorder = Recorder(opened, thinned.retention, has_curve=_has_curve(kernel, plan, thinned.retention))
    rules = [Diverged()]
    rules += [RoundingCheck(target, recorder, reporter.say)] if isinstance(kernel, AbstractKernel) else []
    rules += [NoLongerSampling(reporter.say, thin=thinned.thin)] if stop_when_stuck else []
    rules += [] if rule is None else [Looks(rule, target, recorder, reporter.say, plan.num_draws, thin=thinned.thin)]
    rules += [SharedLength()] if isinstance(kernel, AbstractKernel) and "num_steps" in kernel.warmup().learned else []
    limits = [] if time_limit is None else [TimeLimit(time_limit, began=began)]
    reporter.begin(len(jobs), len(jobs[0].chains))
    try:
        settings = {"kernel": kernel, "warmup": warmup, "thin": thinned.thin, **placement.settings}
        with _pool(executor, placement.num_workers) as pool:
            around = Surroundings(placement, pool, limits, reporter)
            prelude = None if chosen is None else _Prelude(chosen, around, make, isinstance(kernel, AbstractKernel))
            jobs, start, seconds = _prepare(jobs, plan, recorder, settings, around, prelude=prelude)
            seconds["setup"] = time.perf_counter() - began - sum(seconds.values())
            ending = drive(jobs, recorder, pool, [*rules, *limits], reporter, num_workers=placement.num_workers)
        recorder.finish()
        told = how_it_ended(ending, recorder, thinned.retention.room(plan.num_draws))
        seconds |= start.seconds(ending, num_workers=placement.num_workers)
        seconds["total"] = max(time.perf_counter() - began, sum(seconds.values()))
        samples = _samples(target, plan, ending, recorder, seconds, chosen=chosen)
        finish_store(samples, recorder.store)
    except BaseException as error:
        suspend(error, recorder)
        raise
    finally:
        reporter.end()
        recorder.store.close()
    for sentence in told:
        reporter.say(sentence)
    for alarm in samples.alarms():
        warnings.warn(alarm, SamplingWarning, stacklevel=2)
    return samples


def _chosen(warm_start: Any, target: AbstractTarget) -> WarmStart | None:
    """The warm start of a choice, for a target that can have one."""
    if warm_start is None:
        return None
    chosen = WARM_STARTS.resolve(warm_start)
    chosen.check(target)
    return chosen


@dataclass(frozen=True)
class _Thinned:
    """The combined effect of `thin` and `retention`."""

    thin: int
    num_draws: int
    retention: AbstractRetention


def _thinning(kernel: Any, thin: int, num_draws: int, retention: AbstractRetention | None) -> _Thinned:
    """Trajectories are thinned as they are made, and their costs are summed; epochs are thinned by storage."""
    chosen = Every(1) if retention is None else retention
    if not chosen.room(num_draws):
        raise SettingError(f"`retention={chosen}` stores none of {num_draws} draws. Raise `num_draws`.")
    if isinstance(kernel, AbstractKernel):
        if not isinstance(chosen, Every):
            return _Thinned(thin, num_draws, chosen)
        return _Thinned(thin * chosen.thin, chosen.room(num_draws), Every(1))
    if thin == 1:
        return _Thinned(1, num_draws, chosen)
    if retention is not None:
        raise SettingError("Give `thin` or `retention` for a minibatch kernel, not both.")
    return _Thinned(1, num_draws * thin, Every(thin))


def _has_curve(kernel: Any, plan: RunPlan, retention: AbstractRetention) -> bool:
    """Whether the statistics of all draws are recorded, not only those of the stored ones."""
    is_trajectory = isinstance(kernel, AbstractKernel)
    return not is_trajectory or not isinstance(plan.callback, NoCallback) or retention.newest is not None


def _jobs(
    target: AbstractTarget, kernel: Any, plan: RunPlan, placement: Placement, *, thin: int, warmup: Warmup | None
) -> list[AbstractJob]:
    if isinstance(kernel, AbstractKernel):
        recipe = recipe_of(warmup, kernel.warmup(), plan.num_warmup)
        plan = replace(plan, num_warmup=recipe.num_transitions)
        return trajectory_jobs(TrajectoryPlan(kernel, recipe, thin, plan), target, placement)
    if placement.rounding:
        raise SettingError(
            f"`devices=RowShards(...)` is for kernels of all rows; `{type(kernel).__name__}` takes minibatches."
        )
    if warmup is not None:
        raise SettingError(f"`warmup` is for kernels of all rows; `{type(kernel).__name__}` has no stages.")
    return minibatch_jobs(MinibatchPlan(kernel, plan, is_alone=placement.num_workers == 1), target, placement)


def _pool(executor: Executor | None, num_workers: int) -> AbstractContextManager[Executor]:
    """Our own threads, or the user's executor, which stays open."""
    if executor is None:
        return worker_pool(num_workers)
    is_ours = isinstance(executor, AbstractExecutor) and executor.is_in_unison
    return executor if is_ours else nullcontext(executor)


@dataclass(frozen=True)
class _Prelude:
    """A warm start, what it shares with the run, how the run makes its jobs, and whether these take whole draws."""

    warm_start: WarmStart
    around: Surroundings
    make: Callable[[RunPlan], list[AbstractJob]]
    takes_draws: bool

    def run(self, jobs: Sequence[AbstractJob], plan: RunPlan) -> tuple[list[AbstractJob], dict[str, float]]:
        """The jobs again, at the starts that are found from their initial values; and seconds."""
        found = self.warm_start.find(jobs, plan.seed, self.around, is_drawn=self.takes_draws and plan.init is None)
        started = self.make(replace(plan, init=found.positions))
        for job in started:
            job.origin = found.origin(job.chains)
        try:
            bounded(self.around.limits, [], lambda: [job.start() for job in started])
        except TimeLimitError as error:
            error.states, error.is_warm_started = found.positions, True
            raise
        return started, {"compile": found.compile_seconds, WARM_START: found.seconds - found.compile_seconds}


def _prepare(
    jobs: list[AbstractJob],
    plan: RunPlan,
    recorder: Recorder,
    settings: Mapping[str, Any],
    around: Surroundings,
    *,
    prelude: _Prelude | None,
) -> tuple[list[AbstractJob], Start, dict[str, float]]:
    """Start the chains or continue them, allocate, compile, and search for step sizes; the jobs, and seconds."""
    if prelude is not None:
        settings = {**settings, WARM_START: prelude.warm_start}
    reporter, limits = around.reporter, around.limits
    keep_compiled_programs()
    make_room_for_programs(reporter.say)
    left = left_in(recorder.store)
    before = left.drawn if left else 0
    bounded([] if before else limits, jobs, lambda: [job.start() for job in jobs])
    fields = jobs[0].fields()
    per_draw = sum(prod(shape) * dtype.itemsize for shape, dtype in fields.values())
    start = Start.of(recorder, left, plan, jobs, settings)
    store, room = recorder.store, recorder.retention.room(plan.num_draws - before)
    folder = store.path if isinstance(store, ZarrStore) else None
    reporter.say(
        str(plan_memory(plan.num_chains, room, bytes_per_draw=per_draw, folder=folder, num_fields=len(fields)))
    )
    recorder.allocate(plan.num_chains, plan.num_draws, fields)
    new, seconds = start.put(jobs, recorder), {"compile": 0.0}
    if prelude is not None and new:
        jobs, seconds = prelude.run(jobs, plan)
        new = jobs
    with suppress(TimeLimitError) if recorder.drawn else nullcontext():  # the loop stops at once, with these draws
        began = time.perf_counter()
        bounded(limits, jobs, lambda: compile_programs(jobs, around.executor))
        seconds["compile"] += time.perf_counter() - began
        bounded(limits, jobs, lambda: search_steps(new, around.executor, reporter.say))
    if prelude is not None and new:
        recorder.begin({job.chains: job.memo() for job in jobs})
    return jobs, start, seconds


def _of_warm_start(origin: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """What a warm start has found for the chains of a job, `[chain]` by name."""
    return {f"{WARM_START}_{name}": np.asarray(origin[name]) for name in ("loss", "epoch") if origin}


def _samples(
    target: AbstractTarget,
    plan: RunPlan,
    ending: Ending,
    recorder: Recorder,
    seconds: dict[str, float],
    *,
    chosen: WarmStart | None,
) -> Samples:
    """The samples, cut to the draws that every chain has."""
    jobs = ending.jobs
    chains = np.argsort([chain for job in jobs for chain in job.chains])
    origins = [job.origin for job in jobs if job.origin]
    tunings = [job.tuning() | _of_warm_start(job.origin) for job in jobs]
    summaries = [summary for job in jobs for summary in job.summaries()]
    about = {
        "thin": recorder.retention.thin,  # or what the jobs say, if they do it
        **jobs[0].about(),
        **({WARM_START: chosen.about()} if chosen is not None else {}),
        "seed": plan.seed,
        "num_chains": plan.num_chains,
        "num_draws": recorder.drawn,
        "draws_by_chain": recorder.drawn_by_chain,
        "dim": target.dim,
        "stopped_by": ending.stopped_by,
        **ending.notes,
        "versions": versions(),
    }
    return Samples(
        positions=recorder.positions(),
        stats=recorder.stats(),
        warmup_stats=recorder.warmup_stats(),
        seconds=seconds,
        gradients=({WARM_START: sum(one["gradients"] for one in origins)} if origins else {}) | recorder.gradients(),
        tuning={name: np.concatenate([one[name] for one in tunings])[chains] for name in tunings[0]},
        about=about,
        target=target,
        curve=recorder.curve(),
        running_summary=plan.callback.join([summaries[index] for index in chains]),
    )
