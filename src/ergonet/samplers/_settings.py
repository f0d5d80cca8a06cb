"""Checks of kernel settings, worded once."""

from numbers import Integral
from typing import Any

from ergonet._errors import SettingError, suggest
from ergonet.hamiltonian.metric import metric_names


def require_at_least(owner: str, name: str, value: Any, least: float) -> None:
    """`value` must be a number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
        raise SettingError(f"`{owner}({name}=...)` must be at least {least}, got {value!r}.")


def require_integer(owner: str, name: str, value: Any, least: int) -> None:
    """`value` must be an integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise SettingError(f"`{owner}({name}=...)` must be an integer of at least {least}, got {value!r}.")


def require_between(owner: str, name: str, value: Any, low: int, high: int) -> None:
    """`value` must be a number strictly inside (low, high), `low` included where it is 0."""
    inside = isinstance(value, int | float) and not isinstance(value, bool) and low <= value < high
    if not inside or (value == low and low != 0):
        raise SettingError(f"`{owner}({name}=...)` must be between {low} and {high}, got {value!r}.")


def require_positive(owner: str, name: str, value: Any) -> None:
    """`value` must be a finite number above 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 < value < float("inf"):
        raise SettingError(f"`{owner}({name}=...)` must be a finite number above 0, got {value!r}.")


def require_metric(owner: str, name: str) -> None:
    """`name` must be a known metric."""
    if name not in metric_names():
        raise SettingError(f"`{owner}(metric={name!r})` is not known. {suggest(str(name), metric_names())}")
