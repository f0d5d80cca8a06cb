"""Sampling of the parts of a partition: independent jobs, in this process or wherever an executor makes them."""

import queue
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ergonet._errors import SettingError
from ergonet._keys import derived_seed
from ergonet.draws.samples import Samples
from ergonet.execution.shared import Shared, share
from ergonet.execution.threads import num_cores
from ergonet.hamiltonian.box import Box
from ergonet.inference import run
from ergonet.inference.devices import Devices, place
from ergonet.inference.validation import validate_numbers
from ergonet.partition.regions import Partition
from ergonet.partition.starts import find_starts
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.constrained import ConstrainedHMC
from ergonet.samplers.hmc import HMC
from ergonet.target.contract import AbstractTarget
from ergonet.target.shards import RowShards

PARTS = 0x50617274  # purpose of the seeds


@dataclass(frozen=True)
class PartJob:
    """The sampling of one part: a pure function of its attributes, which are those of `ergonet.sample`.

    Attributes:
        target: sent to each process once.
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
    is_double: bool

    def run(self) -> Samples:
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
                progress=False,
            )
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
        devices: as in `ergonet.sample`; if there are more than the chains of a part need, several parts are sampled at
            a time.
        executor: an executor with the interface of `concurrent.futures`, to which each part is submitted, with
            `devices` as they are there; None: this process.

    Returns:
        The samples of the parts, in their order.

    Raises:
        SettingError: the partition is of another dimension, or a setting is out of range.
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
            is_double=bool(jax.config.jax_enable_x64),
        )
        for number, box in enumerate(parts.boxes)
    ]
    if executor is None:
        made = _here(jobs, free)
    else:
        futures = [executor.submit(PartJob.run, job) for job in jobs]
        made = [future.result() for future in futures]
    return tuple(replace(one, target=target) for one in made)


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


def _here(jobs: Sequence[PartJob], free: Sequence[Devices]) -> list[Samples]:
    """Sample in this process, with as many parts at a time as there are rooms; the first one compiles for all."""
    first = jobs[0].run()
    if len(free) == 1:
        return [first, *(job.run() for job in jobs[1:])]
    left: queue.SimpleQueue[Devices] = queue.SimpleQueue()
    for one in free:
        left.put(one)

    def run_one(job: PartJob) -> Samples:
        room = left.get()
        try:
            return replace(job, devices=room).run()
        finally:
            left.put(room)

    pool = ThreadPoolExecutor(len(free))
    try:
        return [first, *pool.map(run_one, jobs[1:])]
    finally:
        pool.shutdown(cancel_futures=True)


def _confined(update: AbstractKernel, box: Box) -> ConstrainedHMC:
    return ConstrainedHMC(box.lower, box.upper, update=update)
