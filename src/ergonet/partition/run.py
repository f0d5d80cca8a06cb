"""Sampling of the parts of a partition: independent jobs, in this process or wherever an executor makes them."""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._errors import SettingError
from ergonet._keys import derived_seed
from ergonet.draws.samples import Samples
from ergonet.hamiltonian.box import Box
from ergonet.inference import run
from ergonet.partition.regions import Partition
from ergonet.partition.starts import find_starts
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.constrained import ConstrainedHMC
from ergonet.samplers.hmc import HMC
from ergonet.target.contract import AbstractTarget

PARTS = 0x50617274  # purpose of the seeds


@dataclass(frozen=True)
class PartJob:
    """The sampling of one part: a pure function of its attributes, which are those of `ergonet.sample`."""

    target: AbstractTarget
    kernel: ConstrainedHMC
    init: np.ndarray | None
    num_chains: int
    num_warmup: int
    num_draws: int
    thin: int
    seed: int
    devices: int | Sequence[Any] | None

    def run(self) -> Samples:
        """Draw from the part."""
        return run.sample(
            self.target,
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
    devices: int | Sequence[Any] | None = None,
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
        devices: as in `ergonet.sample`.
        executor: an executor with the interface of `concurrent.futures`, to which each part is submitted; None: one
            part after the other, here.

    Returns:
        The samples of the parts, in their order.

    Raises:
        SettingError: the partition is of another dimension, or a setting is out of range.
        StartError: no start was found in a part; names the part.
    """
    if parts.dim != target.dim:
        raise SettingError(f"`parts` is a partition of {parts.dim} coordinates, but the target has {target.dim}.")
    starts = None if pilot is None else find_starts(target, parts, pilot, num_chains=num_chains, seed=seed)
    update = HMC() if kernel is None else kernel
    own = derived_seed(seed, PARTS)
    jobs = [
        PartJob(
            target=target,
            kernel=_confined(update, box),
            init=None if starts is None else starts[number],
            num_chains=num_chains,
            num_warmup=num_warmup,
            num_draws=num_draws,
            thin=thin,
            seed=derived_seed(own, number),
            devices=devices,
        )
        for number, box in enumerate(parts.boxes)
    ]
    if executor is None:
        return tuple(PartJob.run(job) for job in jobs)
    futures = [executor.submit(PartJob.run, job) for job in jobs]
    return tuple(future.result() for future in futures)


def _confined(update: AbstractKernel, box: Box) -> ConstrainedHMC:
    return ConstrainedHMC(box.lower, box.upper, update=update)
