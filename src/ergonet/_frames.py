"""Calls that go deep, such as JAX's tracing.

Python keeps frames in chunks of 16 KiB. Versions from before March 2026 ask the system for a chunk whenever a call
crosses the end of one, and give it back when the call returns (python/cpython#142183): a loop at such a place costs two
system calls for each iteration, and interrupts every other core. A function that claims a deep stack gets a chunk of
its own, which has room for what it calls.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def call_with_room(work: Callable[[], T]) -> T:
    """The result of a call that goes deep; the same in every other respect."""
    return work()


call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=2**15)  # 256 KiB, so the chunk has 512
