"""Continues runs that were killed or stopped: from their checkpoint, if they are the same run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ergonet._errors import DivergedError, SettingError, TimeLimitError
from ergonet.diagnostics.finding import UNTIL
from ergonet.draws.recorder import Recorder
from ergonet.draws.store import AbstractResumableStore, AbstractStore, Left
from ergonet.inference.drive import Ending
from ergonet.inference.fingerprint import fingerprint, require_equal
from ergonet.inference.jobs import AbstractJob, RunPlan

WARM_START = "warm_start"  # in seconds, gradients, tuning and the fingerprint


def left_in(store: AbstractStore) -> Left | None:
    """What an earlier process has left in a store; None for a new run.

    Raises:
        RunDirectoryError: it is damaged or cannot be continued.
    """
    return store.left() if isinstance(store, AbstractResumableStore) else None


@dataclass(frozen=True)
class Start:
    """Where a run starts.

    Attributes:
        left: what an earlier process has left; None for a new run.
        identity: the fingerprint; empty if the store keeps no checkpoints.
    """

    left: Left | None
    identity: Mapping[str, str]

    @staticmethod
    def of(
        recorder: Recorder, left: Left | None, plan: RunPlan, jobs: Sequence[AbstractJob], settings: Mapping[str, Any]
    ) -> "Start":
        """Check that what an earlier process has left can be continued.

        Args:
            recorder: the recorder, with its store.
            left: from `left_in`.
            plan: what the jobs have in common.
            jobs: the jobs, started.
            settings: settings that are not in the plan, by name.

        Raises:
            SettingError: the stored run is another one, or has more draws already.
        """
        if not isinstance(recorder.store, AbstractResumableStore):
            return Start(None, {})
        identity = fingerprint(plan, jobs, **settings, retention=recorder.retention)
        if left is None:
            return Start(None, identity)
        require_equal(left.fingerprint, identity)
        most, wanted = max(left.checkpoint.done) if left.checkpoint else 0, plan.num_draws
        if recorder.retention.newest is None:  # what is stored counts; or else there is always room for the newest
            most, wanted = (recorder.retention.room(count) for count in (most, wanted))
        if most > wanted:
            raise SettingError(
                f"`num_draws`: the stored run has {most} draws of a chain already, more than {wanted}. Give at least "
                f"as many, or use what there is by `ergonet.load`."
            )
        return Start(left, identity)

    def put(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> list[AbstractJob]:
        """Bring jobs and recorder, with its store allocated, to this point; returns the jobs that are new.

        Raises:
            RunDirectoryError: the checkpoint or a file to which draws would be added does not fit or is damaged.
        """
        if self.left is None:
            if isinstance(recorder.store, AbstractResumableStore):
                recorder.store.write_fingerprint(self.identity)
            return list(jobs)
        if self.left.checkpoint is None:
            return list(jobs)
        recorder.restore(self.left.checkpoint)
        memos = self.left.checkpoint.memos
        for job in jobs:
            if job.chains in memos:
                job.restore(memos[job.chains])
        return [job for job in jobs if job.chains not in memos]

    def seconds(self, ending: Ending, *, num_workers: int) -> dict[str, float]:
        """Wall-clock seconds of the phases, and of a warm start, in all processes that have worked on the run."""
        memos = self.left.checkpoint.memos.values() if self.left and self.left.checkpoint else ()
        earlier = {phase: sum(memo.busy[phase] for memo in memos) for phase in ending.seconds}
        busy = {phase: sum(job.busy[phase] for job in ending.jobs) - earlier[phase] for phase in ending.seconds}
        elapsed, total = sum(ending.seconds.values()), sum(busy.values()) or 1.0
        origin = ending.jobs[0].origin
        found = {WARM_START: origin["seconds"]} if origin else {}
        return found | {phase: earlier[phase] / num_workers + elapsed * busy[phase] / total for phase in ending.seconds}


def how_it_ended(ending: Ending, recorder: Recorder, room: int) -> list[str]:
    """Sentences about a run that was stopped with draws of every chain, how it is continued, and its stop rule."""
    counts = recorder.drawn_by_chain
    by_chain = f" ({', '.join(map(str, counts))} by chain)" if len(set(counts)) > 1 else ""
    sentence = f"Stopped by {ending.stopped_by}: {recorder.drawn} of {room} draws of each chain are stored{by_chain}."
    sentence = sentence if ending.is_final else f"{sentence} {recorder.store.how_to_continue}".rstrip()
    return [sentence] * bool(ending.stopped_by) + [
        ending.notes[name]["sentence"] for name in {UNTIL} & ending.notes.keys()
    ]


def suspend(error: BaseException, recorder: Recorder) -> None:
    """Keep what a run that ends by an error needs to continue, and say in the error how that is done."""
    if isinstance(error, DivergedError) or not recorder.suspend():
        return
    if isinstance(error, TimeLimitError | KeyboardInterrupt):
        text = str(error) or "Interrupted before every chain had a draw."
        error.args = (f"{text} {recorder.store.how_to_continue}",)
