"""Where chains run: devices, worker threads, and their compiler options.

On a CPU every chain runs by itself on one of the worker threads, one per core: threads share a compiled program, and
the draws of a chain do not depend on the number of chains. On an accelerator the chains of a device are vmapped in one
program; each chain starts its next transition as soon as its own trajectory ends.
"""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax

from ergonet._checks import is_integer
from ergonet._errors import SettingError

# A program runs on the thread that calls it; loops may use 512-bit vectors if the processor has them.
CPU_OPTIONS: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
_held = threading.local()


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

    @property
    def is_batched(self) -> bool:
        """Whether jobs have several vmapped chains in one program."""
        return any(len(group) > 1 for group in self.groups) or any(d.platform != "cpu" for d in self.devices)


def place(devices: int | Sequence[Any] | None, num_chains: int) -> Placement:
    """Assign chains to workers and devices.

    Args:
        devices: None: all cores of a CPU, or all accelerators that JAX sees; an integer: that many worker threads
            (CPU) or accelerators; or a sequence of `jax.Device`.
        num_chains: number of chains, at least 1.

    Raises:
        SettingError: `devices` is none of these, or less than 1.
    """
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
    """Number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def worker_pool(num_workers: int) -> ThreadPoolExecutor:
    """A pool whose threads have the caller's `jax.enable_x64`, which JAX stores per thread."""
    is_double = bool(jax.config.jax_enable_x64)

    def enter() -> None:
        _held.precision = jax.enable_x64(
            is_double
        )  # held for the life of the thread, since leaving the context would undo it
        _held.precision.__enter__()

    return ThreadPoolExecutor(num_workers, thread_name_prefix="ergonet", initializer=enter)
