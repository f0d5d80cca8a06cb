"""Work that nothing interrupts, such as compilation, done in a thread for which nobody waits beyond a deadline."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
_NAME = "preparation (ergonet)"


class LateError(Exception):
    """The work was not done by its deadline."""


def finish_by(deadline: float, work: Callable[[], T]) -> T:
    """The result of some work, in the caller's precision; what it raises is raised here.

    Args:
        deadline: by `time.perf_counter`.
        work: takes part in nothing else: after the deadline it goes on by itself, and its result is lost. The process
            ends when it is done.

    Raises:
        LateError: the deadline has passed.
    """
    import jax

    is_double, done = bool(jax.config.jax_enable_x64), Future[T]()

    def run() -> None:
        try:
            with jax.enable_x64(is_double):  # JAX stores it per thread
                done.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised again by whoever waits
            done.set_exception(error)

    left = deadline - time.perf_counter()
    if left <= 0:
        raise LateError
    threading.Thread(target=run, name=_NAME).start()
    try:
        return done.result(timeout=min(left, threading.TIMEOUT_MAX))
    except TimeoutError:  # which the work may have raised, too
        if done.done():
            raise
        raise LateError from None


def is_working() -> bool:
    """Whether work goes on for which nobody waits, so that the process would not end yet."""
    return any(thread.name == _NAME for thread in threading.enumerate())
