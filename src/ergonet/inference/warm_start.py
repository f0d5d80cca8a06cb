"""Warm starts: an optimizer, and then, if wanted, unadjusted dynamics, find the start of every chain of a run.

They come before the chains and are no part of them. Every chain is optimized from a start of its own, with held-out
rows and an order of minibatches of its own, so that chains remain independent, and an exact kernel converges to the
posterior from here as from anywhere.
"""

import time
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergonet._errors import CapabilityError, DivergedError, SettingError, TimeLimitError
from ergonet._fork import require_jax
from ergonet._keys import derived_seed
from ergonet._numbers import AbstractSettings
from ergonet.adaptation.recipes import recipe_of
from ergonet.draws.callback import NoCallback
from ergonet.draws.recorder import Recorder
from ergonet.draws.retention import Every
from ergonet.draws.store import MemoryStore
from ergonet.execution.threads import worker_pool
from ergonet.inference.devices import Placement, place
from ergonet.inference.drive import (
    Diverged,
    TimeLimit,
    bounded,
    by_chain,
    compile_programs,
    drive,
    search_steps,
    states_of,
)
from ergonet.inference.jobs import AbstractJob, RunPlan
from ergonet.inference.progress import WARM_START, AbstractProgress, Tick, choose_progress
from ergonet.inference.training import EarlyStopping
from ergonet.inference.training_jobs import TrainingPlan, training_jobs
from ergonet.inference.trajectory_jobs import TrajectoryJob, TrajectoryPlan, trajectory_jobs
from ergonet.inference.validation import is_streamed, validate_init, validate_numbers, validate_target
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.mclmc import MCLMC
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.stochastic.optimizers import Adam, Optimizer
from ergonet.target.capabilities import Rows
from ergonet.target.contract import AbstractTarget, Missing

PURPOSE = 1  # of the seed that warm starts derive from that of the run
RATE, BATCH, PATIENCE = 0.005, 32, 100
SHARES = 1.0, 0.5, 0.25, 0.125  # of drawn initial values, to start from: those of a wide prior give huge outputs
TOLERANCE = 1.0  # nats per row that a larger share may cost: small weights of many layers have small gradients
ADAM = Adam(learning_rate=RATE, batch_size=BATCH)


class WarmStart(AbstractSettings):
    """An optimizer with early stopping, then, if wanted, a kernel, before the chains of a run.

    The optimizer minimizes the potential of the whole posterior, prior included, in the unconstrained coordinates of
    the target and from minibatches if it has rows. Each chain holds out rows of its own, and keeps the weights of the
    epoch with the highest likelihood of these rows. The chain that follows uses all rows. The optimizer
    starts from `init`, or from 1, 1/2, 1/4 or 1/8 of drawn initial values: the largest share at which the density is at
    most a nat per row below the highest.

    A target without rows has no held-out rows: the position with the highest density is kept, and an epoch is 10 steps.
    Such a density must be bounded. That of a hierarchical model with learned scales often is not, and without held-out
    rows nothing but `most_epochs` keeps the optimizer from its infinite peak.

    Attributes:
        optimizer: the optimizer, with its learning rate for the mean over rows, and its batch size, which is lowered to
            the number of rows if there are fewer.
        most_epochs: maximum number of epochs, at least 1.
        patience: number of epochs without a better value after which the optimizer stops, at least 1.
        validation: fraction of the rows that each chain holds out, in [0, 1); 0: the density itself is judged.
        then: a kernel that goes on from there, such as `MCLMC()`, whose bias does no harm here; None: no kernel.
        num_transitions: number of its transitions, which all tune it, at least 1.
    """

    optimizer: Optimizer
    most_epochs: int
    patience: int
    validation: float
    then: AbstractKernel | None
    num_transitions: int

    def __init__(
        self,
        optimizer: Optimizer | Any = ADAM,
        *,
        most_epochs: int = 1000,
        patience: int = PATIENCE,
        validation: float = 0.1,
        then: AbstractKernel | Any = None,
        num_transitions: int = 1000,
    ):
        """Check and keep the settings.

        Raises:
            SettingError: a setting is out of its range or has the wrong type.
        """
        if not isinstance(optimizer, Optimizer):
            raise SettingError(
                f"`WarmStart(optimizer=...)` must be an optimizer such as `ergonet.baselines.Adam()`, got "
                f"{optimizer!r}."
            )
        if then is not None and not isinstance(then, AbstractKernel):
            raise SettingError(f"`WarmStart(then=...)` must be None or a kernel of all rows, got {then!r}.")
        for name, value in (
            ("most_epochs", most_epochs),
            ("patience", patience),
            ("num_transitions", num_transitions),
        ):
            check.require_integer("WarmStart", name, value, 1)
        check.require_share("WarmStart", "validation", validation)
        self.optimizer, self.then = optimizer, then
        self.most_epochs, self.patience = int(most_epochs), int(patience)
        self.validation, self.num_transitions = float(validation), int(num_transitions)

    def run(
        self,
        target: AbstractTarget,
        *,
        num_chains: int = 4,
        seed: int,
        init: Any = None,
        devices: int | Sequence[Any] | None = None,
        progress: bool | AbstractProgress = False,
        time_limit: float | None = None,
    ) -> np.ndarray:
        """Find the starts of chains, `[chain, dim]`: those that `sample` with this `warm_start` finds for NUTS.

        Args:
            target: what is to be sampled.
            num_chains: number of chains, at least 1.
            seed: an integer from 0 to 2^63 - 1; a start does not depend on the numbers of chains and workers.
            init: where the optimizer starts, `[dim]` or `[chain, dim]`; None: drawn by the target.
            devices: as in `sample`.
            progress: as in `sample`.
            time_limit: seconds after which it stops with an error, above 0; None: no limit.

        Raises:
            CapabilityError: the rows of the target are streamed.
            DivergedError: a chain is not finite; names the learning rate.
            SettingError: a setting is out of its range.
            StartError: no initial values with a finite density were found.
            TimeLimitError: the time limit was reached.
        """
        require_jax()
        began = time.perf_counter()
        validate_target(target, kernel := self.then or NUTS())
        validate_numbers(num_chains=num_chains, num_warmup=0, num_draws=1, thin=1, seed=seed, time_limit=time_limit)
        self.check(target)
        placement, reporter = place(devices, num_chains), choose_progress(progress)
        jobs = _jobs_of(
            kernel, 0, _plan(seed, validate_init(init, target.dim, num_chains, kernel), num_chains), target, placement
        )
        limits = [] if time_limit is None else [TimeLimit(time_limit, began=began)]
        reporter.begin(len(jobs), len(jobs[0].chains))
        try:
            bounded(limits, jobs, lambda: [job.start() for job in jobs])
            with worker_pool(placement.num_workers) as pool:
                around = Surroundings(placement, pool, limits, reporter)
                return self.find(jobs, seed, around, is_drawn=init is None).positions
        finally:
            reporter.end()

    def check(self, target: AbstractTarget) -> None:
        """Check that the target can be optimized.

        Raises:
            CapabilityError: its rows are streamed.
        """
        if is_streamed(target):
            raise CapabilityError(
                "`warm_start` keeps all rows on the device: `target` must not be streamed. Leave `warm_start` out, or "
                "pass `init`, such as the last draw of `sample(target, Adam(...))`."
            )

    def find(self, jobs: Sequence[AbstractJob], seed: int, around: "Surroundings", *, is_drawn: bool) -> "Found":
        """Find the starts of the chains of jobs that are at their initial values.

        Args:
            jobs: the jobs of the run.
            seed: seed of the run.
            around: what is shared with it.
            is_drawn: whether the initial values are draws of the target.
        """
        began, target = time.perf_counter(), jobs[0].target
        own, stages = derived_seed(seed, PURPOSE), Stages(around)
        stopping = EarlyStopping(np.asarray(self.patience, np.int32), np.asarray(self.most_epochs, np.int32))
        starts = bounded(around.limits, jobs, lambda: _shrunk(jobs, target)) if is_drawn else states_of(jobs)
        plan = TrainingPlan(self.optimizer, stopping, self.validation, starts, own)
        trained = stages.run(training_jobs(plan, target, around.placement))
        positions = states_of(trained)
        if self.then is not None and target.dim > 1:  # one coordinate has no direction to turn
            num_chains = len(positions)
            moved = _jobs_of(
                self.then, self.num_transitions, _plan(own, positions, num_chains), target, around.placement
            )
            try:
                positions = states_of(stages.run(moved))
            except TimeLimitError as error:
                error.states, error.is_warm_started = positions, True
                raise
        if not np.isfinite(positions).all():
            raise DivergedError(
                f"A chain of `warm_start` is not finite after {self.num_transitions} transitions of {self.then!r}. "
                f"Give it a smaller `step_size`, or leave `then` out."
            )
        return Found(
            positions, _origins(trained, stages.gradients), time.perf_counter() - began, stages.compile_seconds
        )

    def about(self) -> dict[str, Any]:
        """The settings for the record of a run, in JSON types."""
        stage = (
            {"then": _in_one_line(self.then), "num_transitions": self.num_transitions} if self.then is not None else {}
        )
        return {
            "optimizer": _in_one_line(self.optimizer),
            "most_epochs": self.most_epochs,
            "patience": self.patience,
            "validation": self.validation,
            **stage,
        }


@dataclass(frozen=True)
class Surroundings:
    """What a warm start shares with the run around it.

    Attributes:
        placement: where the chains are.
        executor: advances the jobs.
        limits: the time limit, if there is one.
        reporter: shows progress.
    """

    placement: Placement
    executor: Executor
    limits: Sequence[TimeLimit]
    reporter: AbstractProgress


@dataclass(frozen=True)
class Found:
    """What a warm start has found.

    Attributes:
        positions: a start of each chain, `[chain, dim]`.
        origins: the loss of each chain on its held-out rows, its epoch, and its share of the gradients, `[chain]`.
        seconds: wall-clock seconds in all.
        compile_seconds: those of compilation.
    """

    positions: np.ndarray
    origins: dict[str, np.ndarray]
    seconds: float
    compile_seconds: float

    def origin(self, chains: Sequence[int]) -> dict[str, Any]:
        """What a job of the run with these chains remembers, in JSON types; the jobs of a warm start may be others."""
        own = {name: values[list(chains)].tolist() for name, values in self.origins.items()}
        return own | {"gradients": round(sum(own["gradients"])), "seconds": self.seconds - self.compile_seconds}


def _origins(jobs: Sequence[AbstractJob], gradients: Sequence[int]) -> dict[str, np.ndarray]:
    """`Found.origins`, from the trained jobs and their gradients."""
    pairs = zip(jobs, gradients, strict=True)
    own = {job.chains: job.tuning() | {"gradients": np.full(len(job.chains), n / len(job.chains))} for job, n in pairs}
    return {name: by_chain(jobs, lambda job, name=name: own[job.chains][name]) for name in own[jobs[0].chains]}


class Stages:
    """Runs the stages of a warm start one after the other, and adds up their costs."""

    def __init__(self, around: Surroundings):
        self._around = around
        self.gradients = [0] * len(around.placement.groups)
        self.compile_seconds = 0.0

    def run(self, jobs: Sequence[AbstractJob]) -> list[AbstractJob]:
        """Run the jobs of a stage from their start to their end."""
        try:
            done = self._run(jobs, self._around)
        except TimeLimitError as error:
            late = TimeLimitError(
                "`time_limit` was reached in the warm start, before the first chain. Allow more time, or lower "
                "`most_epochs` or `num_transitions` of `warm_start`."
            )
            late.during = "in the warm start"
            late.states, late.is_warm_started = error.states, error.is_warm_started
            raise late from error
        self.gradients = [before + job.counters["gradients"] for before, job in zip(self.gradients, done, strict=True)]
        return done

    def _run(self, jobs: Sequence[AbstractJob], around: Surroundings) -> list[AbstractJob]:
        bounded(around.limits, jobs, lambda: [job.start() for job in jobs])
        recorder = Recorder(MemoryStore(), Every(1), has_curve=False)  # of warm-ups only, so there is nothing to store
        recorder.allocate(sum(len(job.chains) for job in jobs), 1, jobs[0].fields())
        began = time.perf_counter()
        bounded(around.limits, jobs, lambda: compile_programs(jobs, around.executor))
        self.compile_seconds += time.perf_counter() - began
        bounded(around.limits, jobs, lambda: search_steps(jobs, around.executor, around.reporter.say))
        return drive(
            jobs,
            recorder,
            around.executor,
            [Diverged(), *around.limits],
            _Shown(around.reporter, jobs),
            num_workers=around.placement.num_workers,
        ).jobs


class _Shown(AbstractProgress):
    """Progress of a warm start, within that of a run."""

    def __init__(self, shown: AbstractProgress, jobs: Sequence[AbstractJob]):
        self._shown, self._jobs = shown, jobs

    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        return None

    def say(self, message: str) -> None:
        self._shown.say(message)

    def tick(self, tick: Tick) -> None:
        chains = ", ".join(map(str, self._jobs[tick.job].chains))
        detail = tick.detail or f"{tick.done} of {tick.total} transitions, step {tick.step_size:.3g}"
        self._shown.tick(replace(tick, phase=WARM_START, detail=f"chain {chains}, {detail}"))

    def end(self) -> None:
        return None


def adam(
    *,
    learning_rate: float = RATE,
    batch_size: int = BATCH,
    most_epochs: int = 1000,
    patience: int = PATIENCE,
    validation: float = 0.1,
) -> WarmStart:
    """Adam with early stopping; its settings as numbers, for settings files."""
    optimizer = Adam(learning_rate=learning_rate, batch_size=batch_size)
    return WarmStart(optimizer, most_epochs=most_epochs, patience=patience, validation=validation)


def adam_then_mclmc(
    *,
    learning_rate: float = RATE,
    batch_size: int = BATCH,
    most_epochs: int = 1000,
    patience: int = PATIENCE,
    validation: float = 0.1,
    num_transitions: int = 1000,
) -> WarmStart:
    """Adam with early stopping, then `MCLMC`, whose energy errors, large at first, become small."""
    return WarmStart(
        Adam(learning_rate=learning_rate, batch_size=batch_size),
        most_epochs=most_epochs,
        patience=patience,
        validation=validation,
        then=MCLMC(metric="identity", first_energy_variance=0.1, energy_variance=1e-3),
        num_transitions=num_transitions,
    )


def _shrunk(jobs: Sequence[AbstractJob], target: AbstractTarget) -> np.ndarray:
    """The largest share of the starts of each chain with hardly less than the highest density, `[chain, dim]`."""
    data = target.capability(Rows)
    num_rows = 1 if isinstance(data, Missing) else data.num_rows

    def of_job(job: AbstractJob) -> np.ndarray:
        assert isinstance(job, TrajectoryJob)
        shares = np.asarray(SHARES, job.positions.dtype)
        losses = np.stack([job.potentials(share * job.positions) for share in shares]) / num_rows
        losses[~np.isfinite(losses)] = np.inf
        return shares[np.argmax(losses <= losses.min(0) + TOLERANCE, axis=0)][:, None] * job.positions

    return by_chain(jobs, of_job)


def _in_one_line(part: Any) -> str:
    return " ".join(repr(part).split())


def _plan(seed: int, init: np.ndarray | None, num_chains: int) -> RunPlan:
    return RunPlan(num_chains, num_warmup=0, num_draws=0, seed=seed, init=init, callback=NoCallback())


def _jobs_of(
    kernel: AbstractKernel, num_transitions: int, plan: RunPlan, target: AbstractTarget, placement: Placement
) -> list[AbstractJob]:
    """Jobs whose transitions all belong to a warm-up."""
    recipe = recipe_of(None, kernel.warmup(), num_transitions)
    plan = replace(plan, num_warmup=recipe.num_transitions)
    return trajectory_jobs(TrajectoryPlan(kernel, recipe, 1, plan), target, placement)
