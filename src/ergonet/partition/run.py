"""Sampling of the parts of a partition: independent jobs, in this process or wherever an executor makes them."""

import os
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergonet._errors import PartError, SettingError
from ergonet._keys import derived_seed
from ergonet.draws.samples import Samples
from ergonet.execution.in_process import InProcess
from ergonet.execution.shared import Shared, share
from ergonet.execution.threads import num_cores
from ergonet.hamiltonian.box import Box
from ergonet.inference import run
from ergonet.inference.devices import Devices, place
from ergonet.inference.progress import AbstractProgress, Silent, Tick
from ergonet.inference.validation import validate_numbers
from ergonet.partition.regions import Partition
from ergonet.partition.starts import find_starts
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.constrained import ConstrainedHMC
from ergonet.samplers.hmc import HMC
from ergonet.target.contract import AbstractTarget
from ergonet.target.shards import RowShards

PARTS = 0x50617274  # purpose of the seeds
INTERRUPTS = ("Ctrl-C", "SIGTERM")


@dataclass(frozen=True)
class PartJob:
    """The sampling of one part: a pure function of its attributes, which are those of `ergonet.sample`.

    Attributes:
        target: sent to each process once.
        store: the folder of the part's run, which is continued if it is there; None: memory.
        is_double: the precision of the process that has made the job.
    """

    target: Shared
    kernel: ConstrainedHMC
    init: np.ndarray | None
    num_chains: int
    num_warmup: int
    num_draws: int
    thin: int
    seed: int
    devices: Devices
    store: Path | None
    is_double: bool

    def run(self, progress: bool | AbstractProgress = False) -> Samples:  # noqa: FBT001, FBT002  as in `ergonet.sample`
        """Draw from the part; the samples come without their target, which whoever asks for them has."""
        with jax.enable_x64(self.is_double):
            found = run.sample(
                self.target.value,
                self.kernel,
                num_chains=self.num_chains,
                num_warmup=self.num_warmup,
                num_draws=self.num_draws,
                thin=self.thin,
                seed=self.seed,
                init=self.init,
                devices=self.devices,
                store=self.store,
                resume=self.store is not None,
                progress=progress,
            )
        if found.about["stopped_by"] in INTERRUPTS:
            raise KeyboardInterrupt
        return replace(found, target=None)


def sample(
    target: AbstractTarget,
    parts: Partition,
    kernel: AbstractKernel | None = None,
    *,
    pilot: Any = None,
    num_chains: int = 4,
    num_warmup: int = 1000,
    num_draws: int = 1000,
    thin: int = 1,
    seed: int,
    store: str | os.PathLike[str] | None = None,
    devices: Devices = None,
    executor: Executor | None = None,
) -> tuple[Samples, ...]:
    """Draw from each part of a target on its own.

    The draws of a part do not depend on the other parts, on their order, or on where they are made. All parts share
    their compiled programs.

    Args:
        target: what is sampled.
        parts: the partition.
        kernel: the kernel whose trajectories are reflected from the walls (`ConstrainedHMC(update=...)`); None:
            `HMC()`.
        pilot: draws `[..., dim]` of a pilot run, among which the chains of each part start; None: they start at initial
            values that the target draws, mirrored into the part.
        num_chains: as in `ergonet.sample`, for each part.
        num_warmup: as in `ergonet.sample`.
        num_draws: as in `ergonet.sample`.
        thin: as in `ergonet.sample`.
        seed: an integer from 0 to 2^63 - 1; each part has a seed derived from it.
        store: a folder in which each part has a stored run, `part-0.zarr` and so on. If they are there, they are
            continued, as by `ergonet.sample(..., resume=True)`: after an error, an interrupt or the end of the process,
            the same call makes what is missing, and the draws are those of an uninterrupted run. Workers on other
            machines have to see the folder under the same path. None: memory.
        devices: as in `ergonet.sample`; if there are more than the chains of a part need, several parts are sampled at
            a time.
        executor: an executor with the interface of `concurrent.futures`, to which each part is submitted, with
            `devices` as they are there; None: this process.

    Returns:
        The samples of the parts, in their order.

    Raises:
        PartError: some parts could not be sampled, or Ctrl-C was pressed; has the samples of the others.
        SettingError: the partition is of another dimension, or a setting is out of range; or a stored run is another.
        StartError: no start was found in a part; names the part.
    """
    if parts.dim != target.dim:
        raise SettingError(f"`parts` is a partition of {parts.dim} coordinates, but the target has {target.dim}.")
    validate_numbers(
        num_chains=num_chains, num_warmup=num_warmup, num_draws=num_draws, thin=thin, seed=seed, time_limit=None
    )
    free = rooms(devices, num_chains) if executor is None else [devices]
    starts = None if pilot is None else find_starts(target, parts, pilot, num_chains=num_chains, seed=seed)
    update = HMC() if kernel is None else kernel
    own, shared = derived_seed(seed, PARTS), share(target)
    folder = None if store is None else Path(store).absolute()
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        PartJob(
            target=shared,
            kernel=_confined(update, box),
            init=None if starts is None else starts[number],
            num_chains=num_chains,
            num_warmup=num_warmup,
            num_draws=num_draws,
            thin=thin,
            seed=derived_seed(own, number),
            devices=free[0],
            store=None if folder is None else folder / f"part-{number}.zarr",
            is_double=bool(jax.config.jax_enable_x64),
        )
        for number, box in enumerate(parts.boxes)
    ]
    submitted = _here(jobs, free) if executor is None else _over(jobs, lambda job: executor.submit(PartJob.run, job))
    return tuple(_all(submitted, target, parts, folder))


def rooms(devices: Devices, num_chains: int) -> list[Devices]:
    """The devices of the parts that are sampled at a time: as many as their chains use, for as many as fit."""
    place(devices, num_chains)  # checks them
    if isinstance(devices, RowShards):
        return [devices]
    seen = list(devices) if isinstance(devices, Sequence) else jax.local_devices()
    if not isinstance(devices, Sequence) and seen[0].platform == "cpu":
        count = devices or num_cores()
        used = min(count, num_chains)
        return [used] * (count // used)
    seen = seen[:devices] if isinstance(devices, int) else seen
    used = min(len(seen), num_chains)
    return [seen[start : start + used] for start in range(0, len(seen) - used + 1, used)]


class Together(Silent):
    """What parts that are sampled at a time have in common: the first one compiles for all, and Ctrl-C ends all."""

    def __init__(self, begun: Callable[[], None]):
        """Keep what to do once a run makes its chunks, so that its programs are compiled."""
        self._begun = begun
        self.interrupted = threading.Event()

    def tick(self, tick: Tick) -> None:
        self._begun()
        if self.interrupted.is_set():  # only the main thread receives Ctrl-C
            raise KeyboardInterrupt


def _here(jobs: Sequence[PartJob], free: Sequence[Devices]) -> list[Future[Samples]]:
    """Sample in this process, with as many parts at a time as there are rooms, once the first one has compiled."""
    if len(free) == 1:
        return _over(jobs, lambda job: InProcess().submit(job.run))
    left: queue.SimpleQueue[Devices] = queue.SimpleQueue()
    left.put(free[0])
    closed = list(free[1:])

    def open_others() -> None:
        with suppress(IndexError):  # another part may do so at the same time
            while True:
                left.put(closed.pop())

    together = Together(open_others)

    def run_one(job: PartJob) -> Samples:
        room = left.get()
        try:
            return replace(job, devices=room).run(together)
        finally:
            left.put(room)
            open_others()

    pool = ThreadPoolExecutor(len(free))
    try:
        return _over(jobs, lambda job: pool.submit(run_one, job))
    finally:
        together.interrupted.set()  # for parts that run after Ctrl-C
        with suppress(KeyboardInterrupt):  # a second one does not wait for their chunks
            pool.shutdown()


def _over(jobs: Sequence[PartJob], submit: Callable[[PartJob], Future[Samples]]) -> list[Future[Samples]]:
    """Submit the jobs, and wait until all are over, or until Ctrl-C cancels those that have not begun."""
    futures: list[Future[Samples]] = []
    try:
        for job in jobs:
            futures.append(submit(job))  # noqa: PERF401  those before Ctrl-C count
        wait(futures)
    except KeyboardInterrupt:
        futures += [Future() for _ in jobs[len(futures) :]]
        for one in futures:
            one.cancel()
    return futures


def _all(
    futures: Sequence[Future[Samples]], target: AbstractTarget, parts: Partition, folder: Path | None
) -> list[Samples]:
    """The samples of all parts.

    Raises:
        PartError: some have none, and others have.
        Exception: the first part's error, if none has samples.
    """
    finished, failed = dict[int, Samples](), dict[int, BaseException]()
    for number, one in enumerate(futures):
        error = one.exception() if one.done() and not one.cancelled() else KeyboardInterrupt()
        if error is None:
            finished[number] = replace(one.result(), target=target)
        else:
            failed[number] = error
    if not failed:
        return list(finished.values())
    number, cause = next(iter(failed.items()))
    where = "" if folder is None else f" Draws are kept in `{folder}`; the same call again makes what is missing."
    if not finished:
        if isinstance(cause, KeyboardInterrupt):
            cause = KeyboardInterrupt(f"Interrupted before a part was sampled.{where}")
        raise cause
    told = "interrupted" if isinstance(cause, KeyboardInterrupt) else str(cause)
    error = PartError(
        f"{len(failed)} of {len(parts)} parts could not be sampled, part {number} ({parts.describe(number)}) first: "
        f"{told.rstrip('.')}. The attribute `finished` of this error has the samples of the others.{where}"
    )
    error.finished = finished
    raise error from cause


def _confined(update: AbstractKernel, box: Box) -> ConstrainedHMC:
    return ConstrainedHMC(box.lower, box.upper, update=update)
