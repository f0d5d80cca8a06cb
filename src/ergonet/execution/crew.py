"""Calls run by processes at the other ends of connections, one call at a time in each."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from ergonet.execution.base import AbstractExecutor, WorkerError, slot
from ergonet.execution.shared import Arithmetic, pack, unpack

LOOK_SECONDS = 0.5  # between two looks at an idle worker
CALL, END = "call", "end"  # what a worker is told
RESULT, ERROR, LACKS = "result", "error", "lacks"  # what it answers
ON = "A run in a `store` goes on with `resume=True`, and that of a command with `ergonet resume RUN`."


@dataclass(frozen=True)
class Worker:
    """A process that makes calls, one at a time.

    Attributes:
        name: its name in messages.
        connection: the connection to it; None: a thread of this process.
        slot: index of the worker within its process.
    """

    name: str
    connection: Connection | None
    slot: int = 0


@dataclass
class _Call:
    """A call on its way."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    future: Future[Any] = field(default_factory=Future)
    is_running: bool = False


class Crew(AbstractExecutor):
    """Workers at the other ends of connections; each is looked after by a thread.

    A call whose worker has died is given to another one. When all are gone, every call fails.
    """

    def __init__(self, workers: Sequence[Worker], *, needs_all: bool = False):
        """Take over the workers.

        Args:
            workers: the workers.
            needs_all: whether every call fails once a worker is gone.
        """
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._names, self._needs_all = [worker.name for worker in workers], needs_all
        self._lost: list[str] = []
        self._is_closed = False
        self._threads = [threading.Thread(target=self._manage, args=(worker,), daemon=True) for worker in workers]
        for thread in self._threads:
            thread.start()

    @property
    def num_workers(self) -> int:
        return max(1, len(self._names) - len(self._lost))

    @property
    def _is_broken(self) -> bool:
        return len(self._lost) >= (1 if self._needs_all else len(self._names))

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if kwargs:
            raise TypeError("`submit` takes positional arguments.")
        with self._lock:
            if self._is_closed:
                raise WorkerError("These workers have been told to end. Make new ones.")
            if self._is_broken:
                raise self._gone()
            call = _Call(fn, args)
            self._calls.put(call)
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as its base
        """Let the workers end; calls that wait are made first, or cancelled."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        if cancel_futures:
            self._empty(lambda call: call.future.cancel())
        for _ in self._names:
            self._calls.put(None)
        if wait and not self._is_broken:
            for thread in self._threads:
                thread.join()

    def lose(self, name: str, call: _Call | None = None) -> None:
        """Note that a worker is gone, and give its call to another one."""
        with self._lock:
            if name not in self._lost:
                self._lost.append(name)
            if call is not None:
                self._calls.put(call)
            if self._is_broken:
                self._empty(lambda one: one.future.done() or one.future.set_exception(self._gone()))

    def _manage(self, worker: Worker) -> None:
        """Give calls to a worker until there are no more, or until it is gone; runs in a thread of its own."""
        known: set[str] = set()
        call: _Call | None = None
        try:
            while (call := self._next(worker)) is not None:
                if call.is_running or call.future.set_running_or_notify_cancel():
                    call.is_running = True
                    self._make(worker, call, known)
                call = None  # it is no longer this worker's, should this one end while it waits
            if worker.connection is not None:
                worker.connection.send((END,))
        except (EOFError, OSError):
            self.lose(worker.name, call)
        finally:
            if worker.connection is not None:
                worker.connection.close()

    def _next(self, worker: Worker) -> _Call | None:
        """The next call, or None at the end.

        Raises:
            EOFError: the worker has died in the meantime.
        """
        while True:
            try:
                return self._calls.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if worker.connection is not None and worker.connection.poll():  # an idle worker says nothing
                    raise EOFError from None

    def _make(self, worker: Worker, call: _Call, known: set[str]) -> None:
        """Make a call, here or there.

        Raises:
            EOFError, OSError: the worker is gone.
        """
        try:
            if worker.connection is None:
                slot.index = worker.slot
                call.future.set_result(call.function(*call.arguments))
                return
            packed, used = pack((call.function, call.arguments))
            contents = {token: one.content for token, one in used.items() if token not in known}
        except Exception as error:  # noqa: BLE001  it belongs to whoever asks for the result
            call.future.set_exception(error)
            return
        while True:
            worker.connection.send((CALL, worker.slot, packed, list(used), contents, Arithmetic.ours()))
            kind, answer = worker.connection.recv()
            if kind != LACKS:
                break
            contents = {token: used[token].content for token in answer}
        known |= set(used)
        if kind == ERROR:
            call.future.set_exception(answer)
            return
        try:
            call.future.set_result(unpack(answer))
        except Exception as error:  # noqa: BLE001  it belongs to whoever asks for the result
            call.future.set_exception(error)

    def _empty(self, do: Callable[[_Call], Any]) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                return
            if call is not None:
                do(call)

    def _gone(self) -> WorkerError:
        all_of_them = "" if self._needs_all else "All workers have ended before their work was done: "
        verb = " has ended before its work was done" if self._needs_all else ""
        return WorkerError(
            f"{all_of_them}{', '.join(self._lost)}{verb}. Look at what was printed there, and at the memory. {ON}"
        )
