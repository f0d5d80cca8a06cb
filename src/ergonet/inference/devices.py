"""Where chains run: devices and worker threads.

On a CPU every chain runs by itself on one of the worker threads, one per core: threads share a compiled program, and
the draws of a chain do not depend on the number of chains, unless they share a learned length. On an accelerator the
chains of a device are vmapped in one program; each chain starts its next transition as soon as its own trajectory ends.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import jax

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet.execution.base import AbstractExecutor, WorkerError, slot
from ergonet.execution.threads import num_cores
from ergonet.target.shards import RowShards, chosen_of

Devices = int | Sequence[Any] | RowShards | None  # as a user gives them


@dataclass(frozen=True)
class Placement:
    """The assignment of chains to workers and devices.

    Attributes:
        num_workers: number of worker threads.
        groups: chains of each job; one chain per job on a CPU, all chains of a device on an accelerator.
        devices: the device of each job.
    """

    num_workers: int
    groups: tuple[tuple[int, ...], ...]
    devices: tuple[Any, ...]

    def over(self, executor: Executor | None) -> "Placement":
        """The same chains on the workers of an executor: chunks wait for workers, so that none of these is idle."""
        if not isinstance(executor, AbstractExecutor) or executor.is_in_unison:
            return self
        num_chains, num_workers = sum(map(len, self.groups)), executor.num_workers
        if not self.is_batched:
            return replace(self, num_workers=min(2 * num_workers, num_chains))
        used = min(num_workers, num_chains)
        groups = tuple(tuple(range(start, num_chains, used)) for start in range(used))
        return Placement(num_workers=used, groups=groups, devices=tuple(self.devices[:1] * used))

    def executor(self, given: Executor | None) -> Executor | None:
        """The executor for these devices: if several processes share the rows, one that makes each call in all of them.

        Raises:
            SettingError: the executor cannot do that, or there is none.
        """
        shards = self.shards
        if shards is None or (given is None and not shards.is_spread):
            return given
        if isinstance(given, AbstractExecutor) and not given.is_remote:
            return given
        if not shards.own:
            raise SettingError("`devices=RowShards(...)` has no device of process 0. Give it at least one of them.")
        found = given.in_unison(shards.processes) if isinstance(given, AbstractExecutor) else None
        if found is None:
            raise SettingError(
                "`devices=RowShards(...)` divides the rows within this process, or over those of "
                "`executor=ergonet.distributed.initialize()`. Use that, or leave out `executor`."
            )
        return found

    @property
    def shards(self) -> RowShards | None:
        """How rows are divided; None: they are not."""
        return next((device for device in self.devices if isinstance(device, RowShards)), None)

    @property
    def rounding(self) -> str:
        """What the rounding of sums over divided rows depends on, in words; empty if they are not divided."""
        return "" if self.shards is None else self.shards.rounding

    @property
    def settings(self) -> dict[str, str]:
        """What draws depend on, by name, for the fingerprint of a run."""
        return {"rows": self.rounding} if self.rounding else {}

    @property
    def is_batched(self) -> bool:
        """Whether jobs have several vmapped chains in one program."""
        return any(len(group) > 1 for group in self.groups) or any(d.platform != "cpu" for d in self.devices)


@dataclass(frozen=True)
class DevicePlace:
    """A device without its process: the same one of the same kind, as far as another process has it."""

    platform: str
    index: int

    @staticmethod
    def of(device: Any) -> "DevicePlace":
        """The place of one of the devices of this process."""
        return DevicePlace(device.platform, jax.local_devices(backend=device.platform).index(device))

    def device(self) -> Any:
        """The device in this process.

        Raises:
            WorkerError: this process has no device of that kind.
        """
        try:
            seen = jax.local_devices(backend=self.platform)
        except RuntimeError as error:
            raise WorkerError(
                f"A worker has no {self.platform.upper()} that JAX can use. Start the workers on machines that have "
                f"one, or pass `devices=jax.devices('cpu')`."
            ) from error
        return seen[(self.index + slot.index) % len(seen)]


def place(devices: Devices, num_chains: int) -> Placement:
    """Assign chains to workers and devices.

    Args:
        devices: None: all cores of a CPU, or all accelerators that JAX sees; an integer: that many worker threads
            (CPU) or accelerators; a sequence of `jax.Device`; or `RowShards`, which divides the rows over devices.
        num_chains: number of chains, at least 1.

    Raises:
        SettingError: `devices` is none of these, or less than 1.
    """
    if isinstance(devices, RowShards):  # two programs at a time would wait for each other's sums
        chains = tuple(range(num_chains))
        groups = tuple((chain,) for chain in chains) if devices.platform == "cpu" else (chains,)
        return Placement(num_workers=1, groups=groups, devices=(devices,) * len(groups))
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        if not devices or not all(hasattr(device, "platform") for device in devices):
            raise SettingError(f"`devices` must contain at least one `jax.Device`, got {devices!r}.")
        chosen = list(devices)
        workers = len(chosen)
    else:
        if devices is not None and (not is_integer(devices) or devices < 1):
            raise SettingError(f"`devices` must be None, an integer of at least 1, or JAX devices, got {devices!r}.")
        seen = jax.local_devices()
        if seen[0].platform == "cpu":
            chosen, workers = seen[:1], devices or num_cores()
        else:
            chosen = chosen_of(seen, devices) if devices else seen
            workers = len(chosen)
    if chosen[0].platform == "cpu":
        groups = tuple((chain,) for chain in range(num_chains))
        return Placement(
            num_workers=min(workers, num_chains),
            groups=groups,
            devices=tuple(chosen[chain % len(chosen)] for chain in range(num_chains)),
        )
    used = chosen[: min(len(chosen), num_chains)]
    groups = tuple(tuple(range(i, num_chains, len(used))) for i in range(len(used)))
    return Placement(num_workers=len(used), groups=groups, devices=tuple(used))
