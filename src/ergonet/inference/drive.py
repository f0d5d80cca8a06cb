"""The run loop: drives jobs chunk by chunk until they are done, or until a stop rule or Ctrl-C stops them.

Between chunks, draws are passed to the recorder, progress is shown and stop rules are evaluated, all in the caller's
thread. Jobs do not wait for each other; the job that is furthest behind goes next, so that chains advance evenly.
"""

import abc
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import jax
import numpy as np

from ergonet._errors import DivergedError, Terminated, TimeLimitError
from ergonet._frames import call_with_room
from ergonet.draws.checkpoint import Memo
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.execution.base import AbstractExecutor
from ergonet.inference.jobs import AbstractJob, Say
from ergonet.inference.progress import AbstractProgress, Tick
from ergonet.inference.waiting import LateError, finish_by

T = TypeVar("T")
TIME_LIMIT = "the time limit"  # as the cause of a stop


class AbstractStopRule(abc.ABC):
    """A rule that may stop a run before all jobs are done."""

    is_final: ClassVar[bool] = False  # whether it would soon stop a run that is continued, too
    is_goal: ClassVar[bool] = False  # whether a run that it stops is complete

    def watch(self, chunk: Chunk) -> None:  # noqa: B027  most rules need no draws
        """Called with every chunk once it is recorded, in order for each chain."""

    def notes(self) -> dict[str, Any]:
        """What the rule has found out about the run, for its record `about`: JSON types by name."""
        return {}

    @abc.abstractmethod
    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        """What stops the run, as the end of "Stopped by ..."; empty while the run should continue.

        May let jobs wait for each other (`AbstractJob.pause`, `AbstractJob.look`).
        """

    @abc.abstractmethod
    def error(self, jobs: Sequence[AbstractJob]) -> BaseException:
        """The error to raise if the rule stops a run before every chain has a draw."""


class TimeLimit(AbstractStopRule):
    """Stops a run after a number of seconds."""

    def __init__(self, seconds: float, *, began: float):
        """Check and keep the settings.

        Args:
            seconds: the limit, above 0.
            began: the start of the run, by `time.perf_counter`.
        """
        self._seconds, self._began = seconds, began

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        return TIME_LIMIT if time.perf_counter() - self._began > self._seconds else ""

    def error(self, jobs: Sequence[AbstractJob]) -> TimeLimitError:
        if any(job.done for job in jobs):
            error = TimeLimitError(
                "`time_limit` was reached before every chain had a draw. Allow more time, or lower `num_warmup`."
            )
            error.during = "in the warm-up"
        else:
            error = TimeLimitError(
                "`time_limit` was reached before the first transition, in the preparation. Most of that is "
                "compilation, which cannot be interrupted. Allow more time."
            )
            error.during = "in the preparation, most of which is compilation"
        error.is_warm_started = bool(jobs) and all(job.is_warm_started for job in jobs)
        if error.is_warm_started or (jobs and all(job.done for job in jobs)):
            error.states = states_of(jobs)
        return error

    def bound(self, work: Callable[[], T], jobs: Sequence[AbstractJob]) -> T:
        """The result of work that nothing interrupts, such as compilation, if it is done in time.

        Args:
            work: is left to itself if it is not.
            jobs: tell the error where the chains are.

        Raises:
            TimeLimitError: the limit was reached.
        """
        try:
            return finish_by(self._began + self._seconds, work)
        except LateError:
            raise self.error(jobs) from None


def bounded(limits: Sequence[TimeLimit], jobs: Sequence[AbstractJob], work: Callable[[], T]) -> T:
    """The result of work that nothing interrupts, within the limit, if there is one; see `TimeLimit.bound`."""
    traced = partial(call_with_room, work)
    return limits[0].bound(traced, jobs) if limits else traced()


def states_of(jobs: Sequence[AbstractJob]) -> np.ndarray:
    """Positions of the chains of all jobs, `[chain, dim]`."""
    return by_chain(jobs, lambda job: job.positions)


def by_chain(jobs: Sequence[AbstractJob], of_job: Callable[[AbstractJob], np.ndarray]) -> np.ndarray:
    """An array `[chain, ...]` of each job as one, in the order of the chains."""
    order = np.argsort([chain for job in jobs for chain in job.chains])
    return np.concatenate([of_job(job) for job in jobs])[order]


class Diverged(AbstractStopRule):
    """Stops a run whose chains have a fault."""

    is_final = True

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        return next((f"a chain that diverged ({_name(job)}: {job.fault})" for job in jobs if job.fault), "")

    def error(self, jobs: Sequence[AbstractJob]) -> DivergedError:
        faults = [
            f"{_name(job).capitalize()} diverged after {job.done} steps: {job.fault}." for job in jobs if job.fault
        ]
        return DivergedError(" ".join(faults))


class Interrupted(AbstractStopRule):
    """Ctrl-C, which the loop itself handles at once."""

    def __init__(self, error: KeyboardInterrupt):
        """Keep the interrupt, for a run without draws."""
        self._error = error

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        return "SIGTERM" if isinstance(self._error, Terminated) else "Ctrl-C"

    def error(self, jobs: Sequence[AbstractJob]) -> KeyboardInterrupt:
        return self._error


def _name(job: AbstractJob) -> str:
    return f"chain {job.chains[0]}" if len(job.chains) == 1 else f"chains {list(job.chains)}"


@dataclass(frozen=True)
class Ending:
    """How a run ended.

    Attributes:
        jobs: the jobs at the end.
        stopped_by: what stopped the run; None: every job was done, or it was stopped because it has enough draws.
        is_final: whether it would stop the run again if it were continued.
        seconds: wall-clock seconds of `warmup` and `sampling`, divided by the time that workers spent in each.
        notes: what the rules have found out, by name.
    """

    jobs: list[AbstractJob]
    stopped_by: str | None
    is_final: bool
    seconds: dict[str, float]
    notes: dict[str, Any]


def drive(
    jobs: Sequence[AbstractJob],
    recorder: Recorder,
    executor: Executor,
    stop_rules: Sequence[AbstractStopRule],
    reporter: AbstractProgress,
    *,
    num_workers: int,
) -> Ending:
    """Run started jobs chunk by chunk until all are done or something stops them.

    Args:
        jobs: the jobs, each with its own target.
        recorder: records the draws.
        executor: an executor with the interface of `concurrent.futures`. Each chunk submits a job and returns it with
            its draws, so that the job may run elsewhere.
        stop_rules: evaluated before the first chunk and after each; the first with a reason stops the run.
        reporter: shows progress.
        num_workers: number of chunks in progress at a time, at least 1.

    Raises:
        DivergedError: a chain diverged before every chain had a draw.
        TimeLimitError: the time limit was reached before every chain had a draw.
        KeyboardInterrupt: Ctrl-C was pressed before every chain had a draw.
    """
    loop = _Loop(list(jobs), recorder, reporter, stop_rules)
    began = time.perf_counter()
    try:
        loop.run(executor, num_workers)
    except KeyboardInterrupt as error:
        loop.stopped = loop.stopped or Interrupted(error)
        loop.collect()
    elapsed = time.perf_counter() - began
    if loop.stopped is not None and not recorder.drawn:
        raise loop.stopped.error(loop.jobs)
    busy = {phase: sum(job.busy[phase] for job in loop.jobs) for phase in ("warmup", "sampling")}
    total = sum(busy.values()) or 1.0
    return Ending(
        jobs=loop.jobs,
        stopped_by=loop.stopped.reason(loop.jobs, recorder) if loop.stopped and not loop.stopped.is_goal else None,
        is_final=loop.stopped is not None and loop.stopped.is_final,
        seconds={phase: elapsed * seconds / total for phase, seconds in busy.items()},
        notes={name: value for rule in stop_rules for name, value in rule.notes().items()},
    )


def compile_programs(jobs: Sequence[AbstractJob], executor: Executor) -> None:
    """Compile what unfinished jobs need, once for all that share it; other processes do so at their first chunk."""
    if isinstance(executor, AbstractExecutor) and executor.is_remote:
        return
    for job in {job.program: job for job in reversed(jobs) if not job.is_finished}.values():
        job.compile()


def search_steps(jobs: Sequence[AbstractJob], executor: Executor, say: Say) -> None:
    """Search for initial step sizes unless they are given, here or in all processes that share the rows."""
    for job in jobs:
        if isinstance(executor, AbstractExecutor) and executor.is_in_unison:
            job.restore(executor.submit(_search, job, bool(jax.config.jax_enable_x64)).result())
        else:
            job.search(say)


class _Loop:
    """The state of the loop."""

    def __init__(
        self,
        jobs: list[AbstractJob],
        recorder: Recorder,
        reporter: AbstractProgress,
        stop_rules: Sequence[AbstractStopRule],
    ):
        self.jobs = jobs
        self.stopped: AbstractStopRule | None = None
        self._recorder, self._reporter, self._rules = recorder, reporter, stop_rules
        self._pending: dict[Future[tuple[AbstractJob, Chunk]], int] = {}
        self._early = [0] * len(self.jobs)  # divergences in the warm-up

    def run(self, executor: Executor, num_workers: int) -> None:
        is_double = bool(jax.config.jax_enable_x64)
        for number, job in enumerate(self.jobs):
            if job.done:  # in an earlier process
                self._show(number, is_warmup=job.is_warmup, acceptance=None)
        self._apply()
        self._submit(executor, num_workers, is_double=is_double)
        while self._pending:
            finished, _ = wait(self._pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in finished:
                self._keep(self._pending[future], future)
                del self._pending[future]  # only now, so that Ctrl-C while a chunk is recorded does not lose it
            self._apply()
            self._submit(executor, num_workers, is_double=is_double)

    def _submit(self, executor: Executor, num_workers: int, *, is_double: bool) -> None:
        """Let the jobs that are furthest behind go on, as many as there are idle workers."""
        busy = set(self._pending.values())
        idle = [number for number, job in enumerate(self.jobs) if number not in busy and not job.is_waiting]
        idle.sort(key=lambda number: self.jobs[number].done)
        for number in idle[: num_workers - len(busy)] if self.stopped is None else ():
            self._pending[executor.submit(_step, self.jobs[number], is_double)] = number

    def _apply(self) -> None:
        if self.stopped is None and not all(job.done >= job.total and not job.fault for job in self.jobs):
            self.stopped = next((rule for rule in self._rules if rule.reason(self.jobs, self._recorder)), None)

    def collect(self) -> None:
        """Wait for the chunks that are still running, at most about half a second, and record them."""
        for future, number in self._pending.items():
            self._keep(number, future)

    def _keep(self, number: int, future: Future[tuple[AbstractJob, Chunk]]) -> None:
        job, chunk = future.result()
        self.jobs[number] = job
        self._recorder.keep(chunk)
        self._reporter.watch(chunk)
        for rule in self._rules:
            rule.watch(chunk)
        if chunk.is_warmup and "diverging" in chunk.fields:
            self._early[number] += int(chunk.fields["diverging"].sum())
        rates = chunk.fields.get("acceptance_rate", np.empty(0))
        known = rates[np.isfinite(rates)]
        self._show(number, is_warmup=chunk.is_warmup, acceptance=float(known.mean()) if known.size else None)

    def _show(self, number: int, *, is_warmup: bool, acceptance: float | None) -> None:
        job = self.jobs[number]
        self._reporter.tick(
            Tick(
                job=number,
                phase="warm-up" if is_warmup else "sampling",
                done=job.done,
                total=job.stretch,
                is_to_look=job.stretch < job.total,
                step_size=job.step_size,
                acceptance=acceptance,
                gradients=job.counters["gradients"],
                divergences=job.counters["divergences"],
                warmup_divergences=self._early[number],
                detail=job.detail,
            )
        )


def _search(job: AbstractJob, is_double: bool) -> Memo:  # noqa: FBT001  executors take it by place
    """Search for the step size of a job, which nobody sees here."""
    with jax.enable_x64(is_double):
        job.search(lambda _: None)
        return job.memo()


def _step(job: AbstractJob, is_double: bool) -> tuple[AbstractJob, Chunk]:  # noqa: FBT001  executors take it by place
    """Run a chunk in the caller's precision, which JAX stores per thread."""
    with jax.enable_x64(is_double):
        return job, job.step()
