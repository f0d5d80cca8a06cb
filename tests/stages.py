"""Cases of a test for the quick stage, and the others for the stage after it."""

from collections.abc import Iterable
from typing import Any

import pytest


def cases(every: Iterable[Any], *, quick: Iterable[Any]) -> list[Any]:
    """All cases for `parametrize`; those that are not `quick` are marked slow."""
    chosen = list(quick)
    every = list(every)
    unknown = [case for case in chosen if case not in every]
    assert not unknown, f"no such cases: {unknown}"
    return [case if case in chosen else slow(case) for case in every]


def slow(case: Any) -> Any:
    """A case, or a tuple of arguments, for the stage after the quick one."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.slow)
