"""Chains of a run share the length of their trajectories, which each has learned from few transitions.

A chain whose length is too short by chance is the one that limits the effective sample size. Chains therefore wait for
each other once, at the end of the warm-up, and go on with the length that is best by what all have learned.
Which that is depends on neither the machine nor interruptions: a run that is continued after one chain has gone on
takes its length.
"""

from collections.abc import Sequence

import jax
import numpy as np

from ergonet.draws.recorder import Chunk, Recorder
from ergonet.inference.drive import AbstractStopRule
from ergonet.inference.jobs import AbstractJob
from ergonet.inference.trajectory_jobs import TrajectoryJob


class SharedLength(AbstractStopRule):
    """Lets chains wait for each other at the end of the warm-up, where they take one length. Stops nothing."""

    def __init__(self):
        self._reached: dict[tuple[int, ...], int] = {}  # transitions that are recorded, by chains of a job
        self._is_done = False

    def watch(self, chunk: Chunk) -> None:
        if chunk.is_warmup:
            self._reached[chunk.chains] = chunk.start + chunk.count

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        if not self._is_done:
            self._wait([job for job in jobs if isinstance(job, TrajectoryJob)])
        return ""

    def _wait(self, jobs: Sequence[TrajectoryJob]) -> None:
        if not self._reached:  # no job is at work yet
            self._reached = {job.chains: job.done for job in jobs}
            for job in jobs:
                job.pause = max(job.num_warmup, job.done)
        if all(self._reached[job.chains] >= job.num_warmup for job in jobs):
            self._share(jobs)

    def _share(self, jobs: Sequence[TrajectoryJob]) -> None:
        gone_on = [job for job in jobs if job.done > job.num_warmup]
        shared = round(gone_on[0].lengths[0].item() if gone_on else _best(jobs))
        for job in jobs:
            if job not in gone_on:
                job.take_length(shared)
            job.pause = None
        self._is_done = True

    def error(self, jobs: Sequence[AbstractJob]) -> BaseException:
        raise AssertionError("it stops nothing")


def _best(jobs: Sequence[TrajectoryJob]) -> float:
    """The length that is best for the chains of all jobs."""
    learners, memories = zip(*(job.learned_lengths for job in jobs), strict=True)
    memory = jax.tree.map(lambda *leaves: np.concatenate(leaves), *memories)
    return learners[0].shared(memory, np.concatenate([job.lengths for job in jobs]))
