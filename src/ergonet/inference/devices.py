"""Where chains run.

On a CPU every chain is a program of its own, and one worker thread per core runs them: threads share one compiled
program, and a chain's draws do not depend on how many run beside it. On an accelerator the chains of a device are
batched in one program; each lane starts its next transition as soon as its own trajectory ends.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax

from ergonet._checks import is_integer
from ergonet._errors import SettingError


@dataclass(frozen=True)
class Placement:
    """Which chains run where.

    Attributes:
        num_workers: worker threads.
        groups: chains of each job; one chain each on a CPU, all chains of a device on an accelerator.
        devices: the device of each job.
    """

    num_workers: int
    groups: tuple[tuple[int, ...], ...]
    devices: tuple[Any, ...]

    @property
    def is_batched(self) -> bool:
        """Whether jobs hold several chains in one program."""
        return any(len(group) > 1 for group in self.groups) or any(d.platform != "cpu" for d in self.devices)


def place(devices: int | Sequence[Any] | None, num_chains: int) -> Placement:
    """Assign chains to workers and devices.

    Args:
        devices: None: all cores of a CPU, or all accelerators that JAX sees; an integer: that many worker threads
            (CPU) or accelerators; or a sequence of `jax.Device`.
        num_chains: at least 1.

    Raises:
        SettingError: not of these, or fewer than 1.
    """
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        if not devices or not all(hasattr(device, "platform") for device in devices):
            raise SettingError(f"`devices` must hold at least one `jax.Device`, got {devices!r}.")
        chosen = list(devices)
        workers = len(chosen)
    else:
        if devices is not None and (not is_integer(devices) or devices < 1):
            raise SettingError(f"`devices` must be None, an integer of at least 1, or JAX devices, got {devices!r}.")
        seen = jax.local_devices()
        if seen[0].platform == "cpu":
            chosen, workers = seen[:1], devices or num_cores()
        else:
            chosen = seen[:devices] if devices else seen
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


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
