"""What counts as a number in a setting: Python's and NumPy's, but no flag."""

from numbers import Integral, Real
from typing import Any, TypeGuard

LARGEST_COUNT = 2**30  # that a compiled loop is asked for: it counts in 32 bits, some beyond what is asked


def is_number(value: Any) -> TypeGuard[float]:
    """A real number, infinite and NaN among them."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_integer(value: Any) -> TypeGuard[int]:
    """An integer."""
    return isinstance(value, Integral) and not isinstance(value, bool)
