"""Calls that several processes make at the same time, because each of them has a part of the rows.

A program whose arrays are divided over the devices of several processes runs only if all of them start it. Process 0
decides what is run next, and all make the same calls with the same arguments in the same order.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ClassVar

from ergonet.execution.base import AbstractExecutor
from ergonet.execution.crew import Crew, Worker
from ergonet.execution.shared import pack, unpack

PATIENCE_SECONDS = 30.0  # for another process to say why it has failed, once a call has failed here


class Unison(AbstractExecutor):
    """Makes each call in this process and in others, one call after the other; the result is that of this process."""

    is_in_unison: ClassVar[bool] = True

    def __init__(self, others: Sequence[Crew]):
        """Take over connections.

        Args:
            others: a crew of one worker for each of the other processes; they stay open.
        """
        self._others = tuple(others)
        self._here = Crew([Worker("This process", None)])

    @property
    def num_workers(self) -> int:
        return 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if kwargs:
            raise TypeError("`submit` takes positional arguments.")
        packed, _ = pack((fn, args))
        function, arguments = unpack(packed)  # a copy: what is sent to the others must not change meanwhile
        ours: Future[Any] = Future()
        ours.set_running_or_notify_cancel()
        there = [crew.submit(_make, fn, args) for crew in self._others]
        for one in there:  # a process that is gone is noticed while this one waits for it in a sum
            one.add_done_callback(lambda done: done.exception() is None or _fail(ours, done.exception()))

        def together() -> Any:
            try:
                found = function(*arguments)
            finally:
                for one in there:
                    with suppress(TimeoutError):
                        one.result(PATIENCE_SECONDS)
            return found

        self._here.submit(together).add_done_callback(lambda done: _pass_on(done, ours))
        return ours

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002  as its base
        """Let the thread of this process end; it may be waiting for a process that is gone."""
        self._here.shutdown(wait=False, cancel_futures=cancel_futures)


def _make(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """A call whose result process 0 has as well."""
    function(*arguments)


def _fail(ours: Future[Any], error: BaseException | None) -> None:
    if not ours.done():
        ours.set_exception(error)


def _pass_on(done: Future[Any], ours: Future[Any]) -> None:
    error = done.exception()
    if error is not None:
        _fail(ours, error)
    elif not ours.done():
        ours.set_result(done.result())
