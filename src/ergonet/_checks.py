"""Type checks for numeric settings: Python and NumPy numbers count, booleans do not."""

from numbers import Integral, Real
from typing import Any, TypeGuard

LARGEST_COUNT = 2**30  # largest count for a compiled loop, which counts in 32 bits and may overshoot


def is_number(value: Any) -> TypeGuard[float]:
    """Whether the value is a real number that a float can hold; infinities and NaN count."""
    return not isinstance(value, bool) and isinstance(value, Real) and _has_float(value)


def is_integer(value: Any) -> TypeGuard[int]:
    """Whether the value is an integer."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def _has_float(value: Real) -> bool:
    try:
        float(value)
    except (OverflowError, ValueError):  # integers and fractions beyond all floats
        return False
    return True
