"""The run loop: drives jobs chunk by chunk until they are done, or until a stop rule or Ctrl-C stops them.

Between chunks, draws are passed to the recorder, progress is shown and stop rules are evaluated, all in the caller's
thread. Jobs do not wait for each other; the job that is furthest behind goes next, so that chains advance evenly.
"""

import abc
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from ergonet._errors import DivergedError, Terminated, TimeLimitError
from ergonet.draws.recorder import Chunk, Recorder
from ergonet.inference.jobs import AbstractJob
from ergonet.inference.progress import AbstractProgress, Tick

TIME_LIMIT = "the time limit"  # as the cause of a stop


class AbstractStopRule(abc.ABC):
    """A rule that may stop a run before all jobs are done."""

    is_final: ClassVar[bool] = False  # whether it would soon stop a run that is continued, too

    def watch(self, chunk: Chunk) -> None:  # noqa: B027  most rules need no draws
        """Called with every chunk once it is recorded, in order for each chain."""

    def notes(self) -> dict[str, Any]:
        """What the rule has found out about the run, for its record `about`: JSON types by name."""
        return {}

    @abc.abstractmethod
    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        """What stops the run, as the end of "Stopped by ..."; empty while the run should continue."""

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
        if not any(job.done for job in jobs):
            took = time.perf_counter() - self._began
            return TimeLimitError(
                f"`time_limit` of {self._seconds:g} s was reached before the first transition: the preparation took "
                f"{took:.1f} s, most of it for compilation, which cannot be interrupted. Allow more time."
            )
        error = TimeLimitError(
            f"`time_limit` of {self._seconds:g} s was reached before every chain had a draw. "
            f"Allow more time, or lower `num_warmup`."
        )
        if all(job.done for job in jobs):
            order = np.argsort([chain for job in jobs for chain in job.chains])
            error.states = np.concatenate([job.positions for job in jobs])[order]
        return error


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
        stopped_by: what stopped the run; None: every job was done.
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
        stopped_by=loop.stopped.reason(loop.jobs, recorder) if loop.stopped else None,
        is_final=loop.stopped is not None and loop.stopped.is_final,
        seconds={phase: elapsed * seconds / total for phase, seconds in busy.items()},
        notes={name: value for rule in stop_rules for name, value in rule.notes().items()},
    )


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

    def run(self, executor: Executor, num_workers: int) -> None:
        is_double = bool(jax.config.jax_enable_x64)
        waiting = [number for number, job in enumerate(self.jobs) if not job.is_finished]
        self._apply()
        if self.stopped is not None:
            waiting.clear()
        while waiting or self._pending:
            waiting.sort(key=lambda number: self.jobs[number].done)
            while waiting and len(self._pending) < num_workers:
                number = waiting.pop(0)
                self._pending[executor.submit(_step, self.jobs[number], is_double)] = number
            finished, _ = wait(self._pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in finished:
                number = self._pending[future]
                self._keep(number, future)
                del self._pending[future]  # only now, so that Ctrl-C while a chunk is recorded does not lose it
                if not self.jobs[number].is_finished:
                    waiting.append(number)
            self._apply()
            if self.stopped is not None:
                waiting.clear()

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
        for rule in self._rules:
            rule.watch(chunk)
        rates = chunk.fields.get("acceptance_rate", np.empty(0))
        known = rates[np.isfinite(rates)]
        self._reporter.tick(
            Tick(
                job=number,
                phase="warm-up" if chunk.is_warmup else "sampling",
                done=job.done,
                total=job.total,
                step_size=job.step_size,
                acceptance=float(known.mean()) if known.size else None,
                gradients=job.counters["gradients"],
                divergences=job.counters["divergences"],
                detail=job.detail,
            )
        )


def _step(job: AbstractJob, is_double: bool) -> tuple[AbstractJob, Chunk]:  # noqa: FBT001  executors take it by place
    """Run a chunk in the caller's precision, which JAX stores per thread."""
    with jax.enable_x64(is_double):
        return job, job.step()
