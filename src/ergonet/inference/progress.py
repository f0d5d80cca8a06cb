"""Progress reports: a live table in terminals and notebooks, time-stamped lines elsewhere."""

import abc
import os
import sys
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from ergonet._figures import duration

if TYPE_CHECKING:
    from ergonet.draws.recorder import Chunk

SECONDS_BETWEEN_LINES = 10.0
WARM_START = "warm start"  # the phase of jobs that come before those of a run


@dataclass(frozen=True)
class Tick:
    """The progress of one job after a chunk.

    Attributes:
        job: index of the job.
        phase: `warm start`, `warm-up` or `sampling`.
        done: number of transitions so far, in both phases.
        total: number of transitions of the whole run, or up to the next look of a stop rule.
        step_size: current step size, averaged over the job's chains.
        acceptance: mean acceptance over the chunk; None for kernels without a Metropolis correction.
        gradients: number of potential gradients so far.
        divergences: number of divergences so far while sampling.
        detail: what else there is to say about the job; may be empty.
        warmup_divergences: number of divergences so far in the warm-up.
        is_to_look: whether `total` is the next look of a stop rule, after which the run may go on.
    """

    job: int
    phase: str
    done: int
    total: int
    step_size: float
    acceptance: float | None
    gradients: int
    divergences: int
    detail: str = ""
    warmup_divergences: int = 0
    is_to_look: bool = False


@dataclass(frozen=True)
class Overall:
    """The progress of all jobs together.

    Attributes:
        phase: `warm start`, or `warm-up` until every job is `sampling`.
        jobs: number of jobs that have a tick.
        done: number of transitions so far; 0 in a warm start.
        total: number of transitions of the whole run, or up to the next look of a stop rule.
        gradients: number of potential gradients so far.
        diverged: number of divergences, in words.
        is_to_look: whether `total` is the next look of a stop rule, after which the run may go on.
    """

    phase: str
    jobs: int
    done: int
    total: int
    gradients: int
    diverged: str
    is_to_look: bool = False

    @classmethod
    def of(cls, ticks: Collection[Tick], num_jobs: int) -> "Overall":
        """Sum up the newest tick of each job that has one, of which there is at least one."""
        gradients = sum(tick.gradients for tick in ticks)
        total = max(tick.total for tick in ticks) * num_jobs
        if any(tick.phase == WARM_START for tick in ticks):
            return cls(WARM_START, len(ticks), 0, total, gradients, _divergences(0))
        phase = "sampling" if all(tick.phase == "sampling" for tick in ticks) else "warm-up"
        early, late = (sum(getattr(tick, name) for tick in ticks) for name in ("warmup_divergences", "divergences"))
        diverged = _divergences(late) if phase == "sampling" else f"{_divergences(early + late)} in the warm-up"
        if phase == "sampling" and early:
            diverged += f" (and {early} in the warm-up)"
        is_to_look = any(tick.is_to_look for tick in ticks)
        return cls(phase, len(ticks), sum(tick.done for tick in ticks), total, gradients, diverged, is_to_look)

    @property
    def aim(self) -> str:
        """Where the total ends, unless it is the end of the run: ` to the next look`."""
        return " to the next look" * self.is_to_look


class AbstractProgress(abc.ABC):
    """Receives progress reports, from the main thread only."""

    @abc.abstractmethod
    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        """The run starts."""

    @abc.abstractmethod
    def say(self, message: str) -> None:
        """Show a message to the user, also before the run starts and after it is over."""

    @abc.abstractmethod
    def tick(self, tick: Tick) -> None:
        """A chunk is done, or chunks of an earlier process that a run goes on from."""

    def watch(self, chunk: "Chunk") -> None:  # noqa: B027  most show no draws
        """Called with every chunk once it is recorded, before its `tick`."""

    @abc.abstractmethod
    def end(self) -> None:
        """The run is over; called also after errors."""


class Silent(AbstractProgress):
    """Says nothing."""

    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        return None

    def say(self, message: str) -> None:
        return None

    def tick(self, tick: Tick) -> None:
        return None

    def end(self) -> None:
        return None


class Lines(AbstractProgress):
    """Plain time-stamped lines, one every ten seconds and at the ends; for log files and pipes."""

    def __init__(self, stream: TextIO | None = None, *, path: str | os.PathLike[str] | None = None):
        """Check and keep the settings.

        Args:
        stream: where lines are written; None: standard error.
        path: a log file to append to instead.
        """
        self._path = Path(path) if path is not None else None
        self._stream = stream
        self._last = 0.0
        self._pace = Pace()
        self._ticks: dict[int, Tick] = {}
        self._num_jobs = 0

    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        self._num_jobs = num_jobs
        self._ticks, self._pace = {}, Pace()
        self._last = time.monotonic()

    def say(self, message: str) -> None:
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {message}\n"
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        else:
            stream = self._stream or sys.stderr
            stream.write(line)
            stream.flush()

    def tick(self, tick: Tick) -> None:
        if any(one.phase == WARM_START for one in self._ticks.values()):
            self._ticks = {}  # of a warm start only the newest is shown
        self._ticks[tick.job] = tick
        if time.monotonic() - self._last >= SECONDS_BETWEEN_LINES:
            self._report()

    def end(self) -> None:
        if self._ticks:
            self.say(self._so_far(self._overall()))

    def _report(self) -> None:
        self._last = time.monotonic()
        one = self._overall()
        seconds = self._pace.left(one, now=self._last)
        self.say(self._so_far(one) + ("" if seconds is None else f", about {duration(seconds)} left"))

    def _overall(self) -> Overall:
        return Overall.of(self._ticks.values(), self._num_jobs)

    def _so_far(self, one: Overall) -> str:
        if one.phase == WARM_START:
            *_, newest = self._ticks.values()
            return f"{WARM_START}: {newest.detail}, {newest.gradients} gradients"
        share = f"{100 * one.done / one.total:.0f} %"
        return f"{one.phase}: {share} of {one.total} transitions{one.aim}, {one.gradients} gradients, {one.diverged}"


def _divergences(count: int) -> str:
    return f"{count} divergence{'s' * (count != 1)}"


class Pace:
    """Estimates the time left from the pace in the current phase, once all jobs that have begun are counted."""

    def __init__(self):
        self._stage, self._done, self._since = ("", 0), 0, 0.0

    def left(self, one: Overall, *, now: float) -> float | None:
        """Seconds left; None if nothing is left, or the phase or a job has just begun.

        Args:
            one: the progress so far.
            now: the time, in seconds.
        """
        if (one.phase, one.jobs) != self._stage:
            self._stage, self._done, self._since = (one.phase, one.jobs), one.done, now
            return None
        made, spent = one.done - self._done, now - self._since
        return spent * (one.total - one.done) / made if made > 0 and one.done < one.total else None


class Live(AbstractProgress):
    """A live bar per chain, in a terminal or a notebook."""

    def __init__(self):
        self._bars: Any = None
        self._tasks: list[Any] = []

    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=not _in_notebook()),
        )
        names = [f"chain {job}" if chains_per_job == 1 else f"batch {job}" for job in range(num_jobs)]
        self._tasks = [self._bars.add_task(name, total=1, detail="compiling") for name in names]
        self._bars.start()

    def say(self, message: str) -> None:
        if self._bars is not None:
            self._bars.console.print(message, markup=False, highlight=False)
        else:
            sys.stderr.write(message + "\n")

    def tick(self, tick: Tick) -> None:
        tested = "" if tick.acceptance is None else f"  accept {tick.acceptance:.2f}"
        divergences = tick.divergences if tick.phase == "sampling" else tick.warmup_divergences
        figures = f"step {tick.step_size:.3g}{tested}  div {divergences}"
        detail = f"{tick.phase:8s} {tick.detail or figures}"
        self._bars.update(self._tasks[tick.job], completed=tick.done, total=tick.total, detail=detail)

    def end(self) -> None:
        if self._bars is not None:
            self._bars.stop()
            self._bars = None


def choose_progress(progress: Any) -> AbstractProgress:
    """True: live in a terminal or notebook, otherwise lines; False: nothing; an `AbstractProgress`: itself."""
    if isinstance(progress, AbstractProgress):
        return progress
    if not progress:
        return Silent()
    return Live() if sys.stderr.isatty() or _in_notebook() else Lines()


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    active = shell.get_ipython() if shell is not None else None
    return active is not None and "IPKernelApp" in getattr(active, "config", {})
