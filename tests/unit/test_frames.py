"""Calls that go deep: no depth makes Python ask the system for memory again and again."""

import resource
import time
import traceback

import pytest

from ergonet._frames import call_with_room
from ergonet.inference.drive import TimeLimit, bounded

CALLS = 500


def _leaf() -> None:
    """It needs more of a chunk than its caller, so that it crosses the end of one where its caller does not."""


_leaf.__code__ = _leaf.__code__.replace(co_stacksize=60)


def _faults(depth: int) -> int:
    """Page faults of this thread while a function so deep in the stack calls another many times."""
    if depth:
        return _faults(depth - 1)
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    for _ in range(CALLS):
        _leaf()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before


def test_no_depth_costs_a_page_fault_for_each_call():
    """Of two tries the better one counts, since the system and the garbage collector cause page faults of their own."""
    assert call_with_room(lambda: max(min(_faults(depth), _faults(depth)) for depth in range(400))) < CALLS / 2


def test_a_call_with_room_gives_the_result_and_the_error():
    assert call_with_room(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        call_with_room(lambda: 1 // 0)


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_what_a_run_traces_and_compiles_has_room(seconds):
    limits = [] if seconds is None else [TimeLimit(seconds, began=time.perf_counter())]
    names = bounded(limits, [], lambda: [frame.name for frame in traceback.extract_stack()])
    assert call_with_room.__name__ in names
