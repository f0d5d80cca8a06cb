"""Checks of kernel settings, worded once."""

from typing import Any

from ergonet._checks import LARGEST_COUNT, is_integer, is_number
from ergonet._errors import SettingError, suggest
from ergonet.hamiltonian.metric import metric_names


def require_at_least(owner: str, name: str, value: Any, least: float) -> None:
    """`value` must be a number of at least `least`."""
    if not is_number(value) or not value >= least:
        raise SettingError(f"`{owner}({name}=...)` must be at least {least}, got {value!r}.")


def require_integer(owner: str, name: str, value: Any, least: int) -> None:
    """`value` must be an integer of at least `least` that compiled loops can count to."""
    if not is_integer(value) or value < least:
        raise SettingError(f"`{owner}({name}=...)` must be an integer of at least {least}, got {value!r}.")
    if value > LARGEST_COUNT:
        raise SettingError(f"`{owner}({name}=...)` must be at most {LARGEST_COUNT}, got {value!r}.")


def require_between(owner: str, name: str, value: Any, low: int, high: int) -> None:
    """`value` must be a number strictly inside (low, high)."""
    if not is_number(value) or not low < value < high:
        raise SettingError(f"`{owner}({name}=...)` must be between {low} and {high}, got {value!r}.")


def require_share(owner: str, name: str, value: Any) -> None:
    """`value` must be a number in [0, 1)."""
    if not is_number(value) or not 0 <= value < 1:
        raise SettingError(f"`{owner}({name}=...)` must be at least 0 and below 1, got {value!r}.")


def require_flag(owner: str, name: str, value: Any) -> None:
    """`value` must be True or False."""
    if not isinstance(value, bool):
        raise SettingError(f"`{owner}({name}=...)` must be True or False, got {value!r}.")


def require_positive(owner: str, name: str, value: Any) -> None:
    """`value` must be a finite number above 0."""
    if not is_number(value) or not 0 < value < float("inf"):
        raise SettingError(f"`{owner}({name}=...)` must be a finite number above 0, got {value!r}.")


def require_metric(owner: str, name: str) -> None:
    """`name` must be a known metric."""
    if name not in metric_names():
        raise SettingError(f"`{owner}(metric={name!r})` is not known. {suggest(str(name), metric_names())}")


def require_adapted(owner: str, step_size: float | None, metric: str, target_acceptance: float) -> None:
    """The settings of every kernel that a warm-up adapts: a step size or None, a metric, an acceptance."""
    if step_size is not None:
        require_positive(owner, "step_size", step_size)
    require_between(owner, "target_acceptance", target_acceptance, 0, 1)
    require_metric(owner, metric)
