"""Worker threads that compute in the precision of the thread that made them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import jax

_held = threading.local()


def worker_pool(num_workers: int) -> ThreadPoolExecutor:
    """A pool whose threads see the caller's `jax.enable_x64`, which JAX keeps by thread."""
    is_double = bool(jax.config.jax_enable_x64)

    def enter() -> None:
        _held.precision = jax.enable_x64(is_double)  # held for the thread's life: leaving it would undo it
        _held.precision.__enter__()

    return ThreadPoolExecutor(num_workers, thread_name_prefix="ergonet", initializer=enter)
