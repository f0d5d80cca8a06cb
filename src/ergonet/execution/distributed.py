"""Processes that a cluster manager has started, on one machine or on many: `jax.distributed` brings them together.

Process 0 goes on with the program and writes the run; all others make the chunks of its chains that they are given, or
the same chunks in unison with it if each process has a part of the rows, and end with it. Nobody waits for a process
that is gone: process 0 has a connection to each of the others that does nothing but break when one of them ends, so the
other ends too, within seconds, and says why. JAX's own service would do so after minutes.
"""

import atexit
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, NoReturn

import numpy as np

from ergonet._errors import SettingError
from ergonet.execution.base import WorkerError
from ergonet.execution.crew import ON, Crew, Worker
from ergonet.execution.serving import serve
from ergonet.execution.unison import Unison

__all__ = ["Distributed", "initialize"]

ANSWER_SECONDS = 120.0
GRACE_SECONDS = 15.0  # for the program to end by itself once a process is gone
FAILED = 1
_LETTER = 512  # bytes: where process 0 listens, and a password
_KEEPALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2}  # a machine without power is noticed in 15 s
_UNISON = -1  # in the place of a slot: the connection for calls that all processes make
_NEVER = 10**6  # seconds: JAX aborts the process when its own patience ends, so ours ends first


class Distributed(Crew):
    """The chunks of all chains, made by this process and all others; made by `initialize`."""

    def __init__(
        self,
        workers: list[Worker],
        watched: list[tuple[str, Connection]],
        in_unison: Mapping[int, Worker] | None = None,
    ):
        super().__init__(workers, needs_all=True)
        self._watched = watched
        self._in_unison = {number: Crew([one], needs_all=True) for number, one in (in_unison or {}).items()}
        self._is_over = False
        atexit.register(self._end)  # before JAX's own, which waits for all processes
        for name, connection in watched:
            threading.Thread(target=self._watch, args=(name, connection), daemon=True).start()

    def in_unison(self, processes: frozenset[int]) -> Unison:
        return Unison([crew for number, crew in self._in_unison.items() if number in processes])

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as its base
        for crew in (super(), *self._in_unison.values()):
            crew.shutdown(wait, cancel_futures=cancel_futures)

    def _watch(self, name: str, connection: Connection) -> None:
        with suppress(EOFError, OSError):
            connection.recv()
        if self._is_over:
            return
        self.lose(name)
        time.sleep(GRACE_SECONDS)
        _say(f"{self._gone()}")
        os._exit(FAILED)

    def _end(self) -> None:
        """Let the other processes end with this one."""
        self._is_over = True
        self.shutdown()
        if self._lost:  # JAX would wait for the process that is gone
            for stream in (sys.stdout, sys.stderr):
                with suppress(Exception):
                    stream.flush()
            os._exit(FAILED)
        for _, connection in self._watched:
            with suppress(OSError):
                connection.send(None)


def initialize(
    address: str | None = None,
    num_processes: int | None = None,
    process: int | None = None,
    *,
    seconds: float = ANSWER_SECONDS,
) -> Distributed:
    """Bring together the processes of a cluster; call it first, in every process.

    Process 0 gets an executor for `sample`. All others work for it, and end when it ends: for them, this function does
    not return. What comes after it in a program is therefore done once.

    Args:
        address: host and port of process 0, such as `"node1:12345"`; None: as SLURM, MPI or Kubernetes say.
        num_processes: number of processes; None: the same.
        process: number of this one, from 0; None: the same.
        seconds: how long to wait for the others.

    Raises:
        SettingError: nothing says which processes there are.
        WorkerError: not all of them have come in time.
    """
    import jax

    _connect(seconds, address, num_processes, process)
    if jax.process_count() == 1:
        return Distributed(_threads(), [], {})
    if jax.process_index() == 0:
        return _lead(jax.process_count(), seconds)
    return _follow(seconds)


def _connect(seconds: float, address: str | None, num_processes: int | None, process: int | None) -> None:
    """Start `jax.distributed` in a thread, because it ends the process if it fails."""
    import jax

    jax.config.update("jax_enable_preemption_service", False)  # it would take SIGTERM from the command
    found: list[Exception] = []

    def start() -> None:
        try:
            jax.distributed.initialize(address, num_processes, process, initialization_timeout=_NEVER)
        except Exception as error:  # noqa: BLE001  said below
            found.append(error)

    thread = threading.Thread(target=start, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise WorkerError(
            f"Not all processes have come within {seconds:g} s. Check that as many were started as were announced, and "
            f"that they can reach {address or 'the first one'}."
        )
    if found:
        raise SettingError(
            f"The processes of this run are not known: {found[0]} Start them by SLURM (`srun`), MPI (`mpirun`) or "
            f"Kubernetes, or call `initialize(address, num_processes, process)`."
        ) from found[0]


def _lead(num_processes: int, seconds: float) -> Distributed:
    password = secrets.token_bytes(32)
    with Listener(("", 0), backlog=1024, authkey=password) as listener:
        port = listener.address[1]
        _letter(f"{port} {password.hex()} {' '.join(_our_addresses())}")
        listener._listener._socket.settimeout(seconds)  # type: ignore[attr-defined]  # noqa: SLF001  it has no name
        workers, watched, missing = _threads(), list[tuple[str, Connection]](), num_processes - 1
        in_unison = dict[int, Worker]()
        try:
            while missing:
                connection = listener.accept()
                process, name, count, slot = connection.recv()
                missing -= 1
                if slot is None:
                    _keep_alive(connection)
                    watched.append((name, connection))
                    missing += count + 1
                elif slot == _UNISON:
                    in_unison[process] = Worker(name, connection)
                else:
                    workers.append(Worker(name, connection, slot))
        except (OSError, EOFError) as error:
            raise WorkerError(f"A process did not connect to process 0 within {seconds:g} s: {error}.") from error
    return Distributed(workers, watched, in_unison)


def _follow(seconds: float) -> NoReturn:
    """Work for process 0 until it ends."""
    import jax

    port, password, *hosts = _letter("").split()
    for number in (signal.SIGINT, signal.SIGTERM):  # process 0 decides what is done then
        signal.signal(number, signal.SIG_IGN)
    connect = _connector(hosts, int(port), bytes.fromhex(password), seconds)
    name, count = f"Process {jax.process_index()} on {socket.gethostname()}", len(_threads())
    connections: list[Connection] = []
    for slot in (None, _UNISON, *range(count)):
        connections.append(connect())
        connections[-1].send((jax.process_index(), name, count, slot))
    control, *others = connections
    _keep_alive(control)
    threads = [threading.Thread(target=serve, args=(one,), daemon=True) for one in others]
    for thread in threads:
        thread.start()
    try:
        control.recv()
    except (EOFError, OSError):
        _say(f"Process 0 has ended before its work was done, so process {jax.process_index()} ends. {ON}")
        os._exit(FAILED)
    for thread in threads:
        thread.join(GRACE_SECONDS)
    sys.exit(0)


def _letter(text: str) -> str:
    """What process 0 says to all."""
    from jax.experimental import multihost_utils

    sent = np.frombuffer(text.encode()[:_LETTER].ljust(_LETTER), np.uint8)
    return bytes(np.asarray(multihost_utils.broadcast_one_to_all(sent))).decode().strip()


def _our_addresses() -> list[str]:
    """Names and numbers by which other machines may reach this one."""
    found = [socket.gethostname()]
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent: this chooses the interface that leads outside
        found.append(probe.getsockname()[0])
    return [*found, "127.0.0.1"]


def _connector(hosts: list[str], port: int, password: bytes, seconds: float) -> Any:
    """A function that connects to process 0, at the first of its addresses that answers."""

    def connect() -> Connection:
        until = time.monotonic() + seconds
        while True:
            for host in hosts:
                with suppress(OSError, EOFError):
                    return Client((host, port), authkey=password)
            if time.monotonic() > until:
                raise WorkerError(f"Process 0 did not answer at port {port} of {', '.join(hosts)} in {seconds:g} s.")
            time.sleep(0.2)

    return connect


def _threads() -> list[Worker]:
    """Workers of this process: one per core, or one per accelerator."""
    import jax

    from ergonet.execution.threads import num_cores

    devices = jax.local_devices()
    count = num_cores() if devices[0].platform == "cpu" else len(devices)
    return [Worker(f"Process {jax.process_index()}", None, slot) for slot in range(count)]


def _keep_alive(connection: Connection) -> None:
    with socket.socket(fileno=os.dup(connection.fileno())) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE.items():
            if hasattr(socket, name):
                one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _say(text: str) -> None:
    with suppress(Exception):
        sys.stderr.write(f"\n{text}\n")
        sys.stderr.flush()
