"""Processes of this machine, each a new interpreter: nothing is forked, so JAX's threads are where they belong."""

import os
import socket
import subprocess
import sys
from multiprocessing.connection import Connection
from typing import Any

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet.execution.crew import Crew, Worker

SETTINGS = (
    "jax_platforms",
    "jax_compilation_cache_dir",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


class Processes(Crew):
    """Processes of this machine, which end with the block or with the process that has started them.

    Worker threads, the default of `sample`, are as fast for chains on a CPU. Processes are for targets that hold the
    lock of the interpreter, and for jobs that are not chains.
    """

    def __init__(self, num_workers: int):
        """Start the processes.

        Args:
            num_workers: how many, at least 1.

        Raises:
            SettingError: `num_workers` is no such number.
        """
        if not is_integer(num_workers) or num_workers < 1:
            raise SettingError(f"`num_workers` must be an integer of at least 1, got {num_workers!r}.")
        started = [_start() for _ in range(num_workers)]
        self._processes = [process for process, _ in started]
        super().__init__([Worker(f"process {process.pid}", connection) for process, connection in started])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as its base
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for process in self._processes:
                process.wait()


def _start() -> tuple[subprocess.Popen[bytes], Connection]:
    import jax

    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "ergonet.execution.serving", str(theirs.fileno())]
    path = os.pathsep.join(one for one in sys.path if one)
    with theirs:
        process = subprocess.Popen(  # noqa: S603  this interpreter and a module of ours
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path}
        )
    connection = Connection(ours.detach())
    settings: dict[str, Any] = {name: getattr(jax.config, name) for name in SETTINGS}
    connection.send((sys.path, settings))
    return process, connection
