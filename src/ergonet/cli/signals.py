"""How a command ends early: by SIGINT (Ctrl-C), SIGTERM, or its time limit.

The first signal stops the work at the next point where nothing is lost. The second, or a time limit that is overrun,
ends the process at once, whatever it is doing: a thread reads the signals, because the main thread may be in a
compilation, which nothing interrupts.
"""

import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from ergonet._errors import Terminated, visible
from ergonet.inference.progress import AbstractProgress, Tick

if TYPE_CHECKING:
    from ergonet.draws.recorder import Chunk
    from ergonet.draws.replacement import Claim

SIGNAL_CODES, TIME_LIMIT = 128, 124  # as shells and `timeout` have them
GRACE_SHARE, GRACE_SECONDS = 0.1, 4.0  # by which a time limit may be overrun before the process is ended
_HANDLED = (signal.SIGINT, signal.SIGTERM)
_SHOW_CURSOR = "\x1b[?25h"


def last_end(limit: float, began: float) -> float:
    """When the process of a fit with a time limit is ended, by `time.perf_counter`."""
    return began + (1 + GRACE_SHARE) * limit + GRACE_SECONDS


class Signals:
    """The signals of a command.

    Attributes:
        received: the first signal; None so far.
        kept: says what is kept and how to go on; empty for commands that keep nothing.
    """

    def __init__(self):
        self.received: int | None = None
        self.kept: Callable[[], str] = str
        self._deferred: tuple[int, ...] = ()
        self._doing = "preparation"
        self._deadline: float | None = None
        self._limit = 0.0

    @property
    def code(self) -> int:
        """The exit code after a signal."""
        return SIGNAL_CODES + (self.received or 0)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the process is ended; None: no limit."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def limit(self, seconds: float, *, began: float) -> None:
        """End the process if a time limit is overrun by more than a tenth and 4 seconds.

        Args:
            seconds: the limit.
            began: the start of the command, by `time.perf_counter`.
        """
        left = last_end(seconds, began) - time.perf_counter()
        self._limit, self._deadline = seconds, time.monotonic() + left

    @contextmanager
    def deferred(self, *numbers: int, doing: str) -> Generator[None]:
        """Do not interrupt the block at the first of these signals, but note it."""
        before, self._deferred, self._doing = self._deferred, numbers, doing
        try:
            yield
        finally:
            self._deferred = before

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal was deferred."""
        if self.received is not None:
            raise _interrupt(self.received)

    def on_signal(self, number: int, _frame: Any) -> None:
        """Runs in the main thread, between two of its instructions."""
        is_first, self.received = self.received is None, self.received or number
        if is_first and number not in self._deferred:
            raise _interrupt(number)

    def watch(self, incoming: socket.socket) -> None:
        """Read signals in a thread of its own, until the other side is closed."""
        seen = 0
        while True:
            left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            if left == 0.0:
                return self._end(TIME_LIMIT, self._overrun(), otherwise="Allow more time.")
            ready, _, _ = select.select([incoming], [], [], 1.0 if left is None else min(1.0, left))
            if not ready:
                continue
            numbers = incoming.recv(64)
            if not numbers:
                return None
            for number in filter(_HANDLED.__contains__, numbers):
                seen += 1
                if seen > 1:
                    return self._end(SIGNAL_CODES + number, "Stopped at once.")
                again = " Press Ctrl-C again to stop at once." if number == signal.SIGINT else ""
                _say(f"Stopping.{again}")

    def _overrun(self) -> str:
        return f"The time limit of {self._limit:g} s has passed during the {self._doing}, which is ended."

    def _end(self, code: int, said: str, *, otherwise: str = "") -> None:
        with suppress(Exception):
            _say(f"{said} {self.kept() or otherwise}".rstrip())
        with suppress(Exception):
            if sys.stderr.isatty():
                sys.stderr.write(_SHOW_CURSOR)
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


class BetweenChunks(AbstractProgress):
    """Stops a run after a chunk, where nothing is being written; shows progress as another one does."""

    def __init__(self, shown: AbstractProgress, signals: Signals):
        self._shown, self._signals = shown, signals
        self._block: Any = None
        self._is_stopping = False

    def begin(self, num_jobs: int, chains_per_job: int) -> None:
        self._shown.begin(num_jobs, chains_per_job)

    def say(self, message: str) -> None:
        self._shown.say(message)

    def watch(self, chunk: "Chunk") -> None:
        self._shown.watch(chunk)

    def tick(self, tick: Tick) -> None:
        self._shown.tick(tick)
        if self._block is None:
            self._block = self._signals.deferred(*_HANDLED, doing="sampling")
            self._block.__enter__()
        if not self._is_stopping and self._signals.received is not None:
            self._is_stopping = True
            self._signals.check()

    def end(self) -> None:
        if self._block is not None:
            self._block.__exit__(None, None, None)
        self._shown.end()


_active = [Signals()]


def active() -> Signals:
    """The signals of the command that is running."""
    return _active[-1]


@contextmanager
def handled() -> Generator[Signals]:
    """Handle SIGINT and SIGTERM as described above; a signal that the parent process ignores stays ignored."""
    found = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield found
        return
    _active.append(found)
    incoming, outgoing = socket.socketpair()
    outgoing.setblocking(False)
    before = {number: signal.getsignal(number) for number in _HANDLED}
    wakeup = signal.set_wakeup_fd(outgoing.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=found.watch, args=(incoming,), name="ergonet-signals", daemon=True)
    watcher.start()
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, found.on_signal)
        yield found
    finally:
        _active.pop()
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        outgoing.close()
        watcher.join()
        incoming.close()


def how_to_go_on(claim: "Claim") -> str:
    """What a run has and the commands that use it, in a sentence or two; empty if there is nothing."""
    from ergonet.draws.manifest import read_manifest
    from ergonet.runs.directory import RunDirectory

    name = visible(str(claim.path))
    with suppress(OSError):  # whatever it is, something else is being reported
        draws = RunDirectory(claim.folder).draws
        count = min(read_manifest(draws)["draws_by_chain"])
        if count > 0:
            kept = f"{count} draw{'s' * (count > 1)} of each chain {'are' if count > 1 else 'is'} kept in {name}."
            return f"{kept} `ergonet resume {name}` goes on, `ergonet diagnose {name}` shows what there is."
        if any(draws.glob("checkpoint*")):
            return f"The warm-up so far is kept: `ergonet resume {name}` goes on."
    return ""


def _interrupt(number: int) -> KeyboardInterrupt:
    return KeyboardInterrupt() if number == signal.SIGINT else Terminated()


def _say(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")
    sys.stderr.flush()
