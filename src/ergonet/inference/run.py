"""The one run loop: places chains on workers, drives compiled chunks, and keeps whatever has been drawn.

Between chunks, in the main thread: draws go to the store, progress is shown, the clock and Ctrl-C are obeyed. Chains
do not wait for each other; the one furthest behind goes next, so draws stay level.
"""

import os
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import jax
import numpy as np

from ergonet._errors import CapabilityError, SamplingWarning, SettingError, TimeLimitError
from ergonet.adaptation.warmup import Warmup, recipe_of
from ergonet.inference.asked import check_asked, open_store
from ergonet.inference.devices import Placement, place
from ergonet.inference.jobs import Block, Job, Settings, chunk_capacity
from ergonet.inference.keeping import Every
from ergonet.inference.memory import plan_memory
from ergonet.inference.programs import programs
from ergonet.inference.progress import AbstractProgress, Tick, choose_progress
from ergonet.inference.samples import STATISTICS, Samples
from ergonet.inference.starts import given_positions, start_records
from ergonet.inference.store import POSITIONS, AbstractStore, MemoryStore, ZarrStore
from ergonet.inference.versions import versions
from ergonet.inference.workers import worker_pool
from ergonet.models.target import Target
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel

WORDS_PER_DRAW = len(STATISTICS)


def sample(
    target: Target,
    kernel: AbstractKernel | AbstractMinibatchKernel | None = None,
    *,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_draws: int = 1000,
    thin: int = 1,
    seed: int,
    warmup: Warmup | None = None,
    init: Any = None,
    store: str | os.PathLike[str] | AbstractStore | None = None,
    devices: int | Sequence[Any] | None = None,
    progress: bool | AbstractProgress = True,
    time_limit: float | None = None,
) -> Samples:
    """Draw from a target.

    Args:
        target: what is sampled.
        kernel: the transition; None: `NUTS()`. One that takes minibatches, such as `SGHMC()`, runs as in
            `sample_minibatches`: a transition of it is an epoch, unless it has `steps_per_draw`.
        num_chains: independent chains, at least 1.
        num_warmup: transitions that tune the kernel and are not kept, at least 0.
        num_draws: kept draws of each chain, at least 1, after thinning.
        thin: transitions for each kept draw, at least 1.
        seed: any integer of 0 to 2^63 - 1; a chain's draws depend on nothing else, be there
            few or many chains and workers.
        warmup: a recipe of stages; None: Stan's windows for what the kernel needs.
        init: starting positions `[dim]` or `[chain, dim]`; None: drawn by the target (a tenth of that for a kernel of
            minibatches).
        store: None: memory; a path: a Zarr group on disk; or a store.
        devices: None: every core, or every accelerator; an integer: so many; or JAX devices.
        progress: whether to show it, or an `AbstractProgress`.
        time_limit: seconds after which the run stops and keeps what it has, above 0. So does Ctrl-C.

    Returns:
        The samples. After a stop, `num_draws` of them is what every chain has finished.

    Raises:
        SettingError: a setting is out of its range.
        StartError: no finite starting point.
        MemoryPlanError: the draws would not fit.
        TimeLimitError: no draw was made within the limit.
        KeyboardInterrupt: Ctrl-C came before the first draw.
    """
    began = time.perf_counter()
    check_asked(
        target,
        num_chains=num_chains,
        num_warmup=num_warmup,
        num_draws=num_draws,
        thin=thin,
        seed=seed,
        time_limit=time_limit,
    )
    if isinstance(kernel, AbstractMinibatchKernel):
        if warmup is not None:
            raise SettingError(f"`warmup` is for kernels of all rows; `{type(kernel).__name__}` has no stages.")
        from ergonet.inference.minibatches import sample_minibatches

        found = sample_minibatches(
            target,
            kernel,
            num_chains=num_chains,
            num_warmup=num_warmup,
            num_draws=int(num_draws) * int(thin),
            seed=seed,
            keep=Every(int(thin)),
            init=init,
            store=store,
            devices=devices,
            progress=progress,
            time_limit=time_limit,
        )
        return found.samples
    kernel = NUTS() if kernel is None else kernel
    recipe = _recipe(kernel, warmup, num_warmup)
    placement = place(devices, num_chains)
    reporter = choose_progress(progress)
    itemsize = jax.eval_shape(lambda: target.initial_position(jax.random.key(0))).dtype.itemsize
    chosen_store = open_store(store)
    folder = chosen_store.path if isinstance(chosen_store, ZarrStore) else None
    bytes_per_draw = target.dim * itemsize + 4 * WORDS_PER_DRAW
    plan = plan_memory(num_chains, num_draws, bytes_per_draw=bytes_per_draw, folder=folder)
    settings = Settings(
        kernel=kernel,
        target=target,
        warmup=recipe,
        num_draws=num_draws,
        thin=thin,
        capacity=chunk_capacity(target.dim, itemsize),
    )
    run = _Run(settings, placement, reporter, chosen_store, time_limit)
    reporter.begin(len(placement.groups), len(placement.groups[0]))
    try:
        reporter.say(str(plan))
        run.prepare(int(seed), init, began)
        run.drive()
    finally:
        reporter.end()
    result = run.samples(seed)
    for alarm in result.alarms():
        warnings.warn(alarm, SamplingWarning, stacklevel=2)
    return result


def _recipe(kernel: Any, warmup: Warmup | None, num_warmup: int) -> Warmup:
    if not isinstance(kernel, AbstractKernel):
        raise CapabilityError(f"`kernel` must be a kernel such as `ergonet.NUTS()`, got {kernel!r}.")
    return recipe_of(warmup, kernel.warmup(), num_warmup)


class _Run:
    """The state of one call of `sample`."""

    def __init__(
        self,
        settings: Settings,
        placement: Placement,
        reporter: AbstractProgress,
        store: AbstractStore,
        time_limit: float | None,
    ):
        self._settings = settings
        self._placement = placement
        self._reporter = reporter
        self._store = store
        self._time_limit = time_limit
        self._jobs: list[Job] = []
        self._warmup_store = MemoryStore()
        self._kept: dict[Job, int] = {}  # draws that are in the store; a job may be a chunk ahead
        self._gradients: dict[Job, int] = {}
        self._divergences: dict[Job, int] = {}
        self._seconds: dict[str, float] = {}
        self._stopped = ""
        self._began = time.perf_counter()

    def prepare(self, seed: int, init: Any, began: float) -> None:
        """Make the jobs, compile, and find the first step sizes."""
        self._began = began
        for chains, device in zip(self._placement.groups, self._placement.devices, strict=True):
            batched = self._placement.is_batched
            job = Job(
                self._settings,
                programs(device.platform, is_batched=batched),
                chains=chains,
                device=device,
                is_batched=batched,
            )
            self._jobs.append(job)
            self._kept[job], self._gradients[job], self._divergences[job] = 0, 0, 0
        s, setup_done = self._settings, time.perf_counter()
        num_chains = sum(len(job.chains) for job in self._jobs)
        start = programs(self._placement.devices[0].platform, is_batched=False).start
        given = None if init is None else given_positions(s.target, num_chains, init)
        records = start_records(s.kernel, s.target, given, start=start, num_chains=num_chains, seed=seed)
        for job in self._jobs:
            job.start([records[chain] for chain in job.chains])
        self._jobs[0].compile()
        compiled = time.perf_counter()
        self._seconds = {"setup": setup_done - began, "compile": compiled - setup_done}
        for job in self._jobs:
            job.search()
        self._allocate(records[0].state.position.dtype)

    def _allocate(self, dtype: Any) -> None:
        s = self._settings
        kinds = {"n_steps": np.int32, "gradients": np.int32, "tree_depth": np.int32}
        kinds |= {"diverging": np.bool_, "nonfinite": np.bool_, "moved": np.bool_}
        fields: dict[str, tuple[tuple[int, ...], np.dtype]] = {
            name: ((), np.dtype(kinds.get(name, dtype))) for name in STATISTICS
        }
        num_chains = sum(len(job.chains) for job in self._jobs)
        self._warmup_store.allocate(num_chains, s.warmup.num_transitions, fields)
        fields[POSITIONS] = ((s.target.dim,), np.dtype(dtype))
        self._store.allocate(num_chains, s.num_draws, fields)

    def drive(self) -> None:
        """Run chunks until every job is done, the time is up, or Ctrl-C."""
        began = time.perf_counter()
        pending: dict[Future[Block], Job] = {}
        waiting = list(self._jobs)
        with worker_pool(self._placement.num_workers) as pool:
            try:
                while waiting or pending:
                    self._submit(pool, waiting, pending)
                    finished, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in finished:
                        job = pending[future]
                        self._keep(job, future.result())
                        del pending[future]  # only now: a Ctrl-C while a block is kept must not lose it
                        if not job.is_finished and not self._stopped:
                            waiting.append(job)
                    self._look_at_clock(waiting)
            except KeyboardInterrupt:
                self._stopped = "Ctrl-C"
                self._collect(pending)
        self._divide_seconds(time.perf_counter() - began)
        if self._stopped and self._drawn() == 0:
            if self._stopped == "Ctrl-C":
                raise KeyboardInterrupt
            raise TimeLimitError(
                f"`time_limit` of {self._time_limit} s was over before every chain had a draw. "
                f"Allow more time, or lower `num_warmup`."
            )

    def _submit(self, pool: ThreadPoolExecutor, waiting: list[Job], pending: dict[Future[Block], Job]) -> None:
        waiting.sort(key=lambda job: job.transitions)
        while waiting and len(pending) < self._placement.num_workers:
            job = waiting.pop(0)
            pending[pool.submit(job.step)] = job

    def _look_at_clock(self, waiting: list[Job]) -> None:
        over = self._time_limit is not None and time.perf_counter() - self._began > self._time_limit
        if over and not self._stopped:
            self._stopped = "the time limit"
            waiting.clear()

    def _collect(self, pending: dict[Future[Block], Job]) -> None:
        """Keep the chunks that are still running; a chunk is half a second at most."""
        for future, job in pending.items():
            self._keep(job, future.result())
        pending.clear()

    def _keep(self, job: Job, block: Block) -> None:
        store = self._warmup_store if block.is_warmup else self._store
        for lane, chain in enumerate(job.chains):
            store.write(chain, block.start, {name: values[lane] for name, values in block.fields.items()})
        self._gradients[job] += int(block.fields["gradients"].sum())
        if not block.is_warmup:
            self._kept[job] = block.start + block.count
            self._divergences[job] += int(block.fields["diverging"].sum())
        self._reporter.tick(
            Tick(
                job=self._jobs.index(job),
                phase="warm-up" if block.is_warmup else "sampling",
                done=job.transitions,
                total=job.total,
                step_size=float(block.fields["step_size"][:, -1].mean()),
                acceptance=float(block.fields["acceptance_rate"].mean()),
                gradients=self._gradients[job],
                divergences=self._divergences[job],
            )
        )

    def _drawn(self) -> int:
        return min(self._kept.values())

    def _divide_seconds(self, elapsed: float) -> None:
        """Wall-clock of the loop, shared out by the time that workers spent in each phase."""
        busy = {phase: sum(job.busy[phase] for job in self._jobs) for phase in ("warmup", "sampling")}
        total = sum(busy.values()) or 1.0
        for phase, seconds in busy.items():
            self._seconds[phase] = elapsed * seconds / total

    def samples(self, seed: int) -> Samples:
        """What has been drawn, cut to what every chain has."""
        s, draws = self._settings, self._drawn()
        if self._stopped:
            self._reporter.say(f"Stopped by {self._stopped}: {draws} of {s.num_draws} draws of each chain are kept.")
        stats = {name: np.asarray(self._store.field(name)[:, :draws]) for name in STATISTICS}
        warm = {name: self._warmup_store.field(name) for name in STATISTICS} if s.warmup.num_transitions else {}
        positions = self._store.field(POSITIONS)
        self._seconds["total"] = time.perf_counter() - self._began
        result = Samples(
            positions=positions if draws == s.num_draws else np.asarray(positions[:, :draws]),
            stats=stats,
            warmup_stats=warm,
            seconds=dict(self._seconds),
            gradients={
                "warmup": int(warm["gradients"].sum()) if warm else 0,
                "sampling": int(stats["gradients"].sum()),
            },
            tuning=self._tuning(),
            about=self._about(seed, draws),
            target=s.target,
        )
        if isinstance(self._store, ZarrStore):
            result.finish_store(self._store)
        else:
            self._store.finish(result.about)
        return result

    def _tuning(self) -> dict[str, np.ndarray]:
        records = {}
        for job in self._jobs:
            for lane, chain in enumerate(job.chains):
                one = job.record
                records[chain] = jax.tree.map(lambda leaf, i=lane: leaf[i], one) if len(job.chains) > 1 else one
        if self._placement.is_batched:
            records = {
                c: (r if r.state.position.ndim == 1 else jax.tree.map(lambda x: x[0], r)) for c, r in records.items()
            }
        ordered = [records[chain] for chain in sorted(records)]
        return {
            "step_size": np.stack([np.asarray(r.tuning.step_size) for r in ordered]),
            "num_steps": np.stack([np.asarray(r.tuning.num_steps) for r in ordered]),
            "refused_metrics": np.stack([np.asarray(r.learning.refused_metrics) for r in ordered]),
            "inverse_mass_matrix": np.stack(
                [np.asarray(r.tuning.metric.inverse_mass_matrix(r.state.position)) for r in ordered]
            ),
        }

    def _tunes_step_size(self) -> bool:
        s = self._settings
        return s.kernel.warmup().tune_step_size and any(stage.tune_step_size for stage in s.warmup.stages)

    def _about(self, seed: int, draws: int) -> dict[str, Any]:
        s = self._settings
        return {
            "kernel": type(s.kernel).__name__,
            "kernel_settings": repr(s.kernel),
            "target_acceptance": s.warmup.target_acceptance if self._tunes_step_size() else None,
            "max_doublings": getattr(s.kernel, "max_doublings", None),
            "seed": seed,
            "num_chains": len(self._placement.groups)
            if not self._placement.is_batched
            else sum(len(j.chains) for j in self._jobs),
            "num_warmup": s.warmup.num_transitions,
            "num_draws": draws,
            "thin": s.thin,
            "dim": s.target.dim,
            "stopped_by": self._stopped or None,
            "versions": versions(),
        }
