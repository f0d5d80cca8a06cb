"""The simplest executor."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from ergonet.execution.base import AbstractExecutor


class InProcess(AbstractExecutor):
    """Runs every call at once, in the thread that submits it."""

    is_remote = False

    @property
    def num_workers(self) -> int:
        return 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  it belongs to whoever asks for the result
            future.set_exception(error)
        return future
