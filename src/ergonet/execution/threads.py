"""Worker threads of this process, and how programs for them are compiled."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

# A program runs on the thread that calls it; loops may use 512-bit vectors if the processor has them.
CPU_OPTIONS: dict[str, Any] = {"xla_cpu_multi_thread_eigen": False, "xla_cpu_prefer_vector_width": 512}
_held = threading.local()


def options(platform: str, *, effort: int | None = None) -> dict[str, Any]:
    """Options of `jax.jit` for programs that run on worker threads.

    Args:
        platform: platform of their device.
        effort: level of optimization of compilers for CPUs, 0 to 3; None: that of the process, by default 3. At 0,
            loops take several times as long, but not matrix products: for programs that run a few dozen times.
    """
    chosen = {} if effort is None else {"xla_backend_optimization_level": effort}
    return {"compiler_options": CPU_OPTIONS | chosen} if platform == "cpu" else {}


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
