"""Checks of kernel settings, with common error messages."""

from collections.abc import Collection
from typing import Any

from ergonet._checks import LARGEST_COUNT, is_integer, is_number
from ergonet._errors import SettingError, shown, suggest
from ergonet.hamiltonian.metric import AbstractMetric, require_usable
from ergonet.hamiltonian.registry import METRICS


def require_at_least(owner: str, name: str, value: Any, least: float) -> None:
    """Check for a number of at least `least`."""
    if not is_number(value) or not value >= least:
        raise SettingError(f"`{owner}({name}=...)` must be at least {least}, got {shown(value)}.")


def require_integer(owner: str, name: str, value: Any, least: int) -> None:
    """Check for an integer of at least `least` that compiled loops can count to."""
    if not is_integer(value) or value < least:
        raise SettingError(f"`{owner}({name}=...)` must be an integer of at least {least}, got {shown(value)}.")
    if value > LARGEST_COUNT:
        raise SettingError(f"`{owner}({name}=...)` must be at most {LARGEST_COUNT}, got {shown(value)}.")


def require_between(owner: str, name: str, value: Any, low: int, high: int) -> None:
    """Check for a number strictly between `low` and `high`."""
    if not is_number(value) or not low < value < high:
        raise SettingError(f"`{owner}({name}=...)` must be between {low} and {high}, got {shown(value)}.")


def require_share(owner: str, name: str, value: Any) -> None:
    """Check for a number in [0, 1)."""
    if not is_number(value) or not 0 <= value < 1:
        raise SettingError(f"`{owner}({name}=...)` must be at least 0 and below 1, got {shown(value)}.")


def require_flag(owner: str, name: str, value: Any) -> None:
    """Check for True or False."""
    if not isinstance(value, bool):
        raise SettingError(f"`{owner}({name}=...)` must be True or False, got {shown(value)}.")


def require_positive(owner: str, name: str, value: Any) -> None:
    """Check for a finite number above 0."""
    require_above(owner, name, value, 0.0)


def require_above(owner: str, name: str, value: Any, bound: float) -> None:
    """Check for a finite number above `bound`."""
    if not is_number(value) or not bound < value < float("inf"):
        raise SettingError(f"`{owner}({name}=...)` must be a finite number above {bound:g}, got {shown(value)}.")


def require_tuple(owner: str, name: str, value: Any, kind: type, wanted: str) -> None:
    """Check for a tuple whose elements are all of one type, `wanted` in words."""
    if not isinstance(value, tuple) or not all(isinstance(one, kind) for one in value):
        raise SettingError(f"`{owner}({name}=...)` must be a tuple of {wanted}, got {shown(value)}.")


def require_one_of(owner: str, name: str, value: Any, known: Collection[str]) -> None:
    """Check for one of the known names."""
    if not isinstance(value, str) or value not in known:
        raise SettingError(f"`{owner}({name}={shown(value)})` is not known. {suggest(str(value), known)}")


def require_metric(owner: str, choice: Any) -> None:
    """Check for the name of a metric, or a metric whose factor is finite and has a positive diagonal."""
    if isinstance(choice, AbstractMetric):
        require_usable(owner, choice)
    else:
        METRICS.entry(choice, owner=owner)


def require_adapted(owner: str, step_size: float | None, metric: Any, target_acceptance: float) -> None:
    """Check the settings shared by all adapted kernels: a step size or None, a metric, a target acceptance."""
    if step_size is not None:
        require_positive(owner, "step_size", step_size)
    require_between(owner, "target_acceptance", target_acceptance, 0, 1)
    require_metric(owner, metric)


def require_length(owner: str, num_steps: int | None, step_jitter: float, length_jitter: float) -> None:
    """Check the settings shared by all kernels with a length and jitter."""
    if num_steps is not None:
        require_integer(owner, "num_steps", num_steps, 1)
    require_share(owner, "step_jitter", step_jitter)
    require_share(owner, "length_jitter", length_jitter)


def without_minibatches(owner: str) -> str:
    """Why a microcanonical kernel takes no minibatches, and what does."""
    return (
        f"`{owner}` needs all rows in every gradient, because it keeps the energy constant along a trajectory: the "
        f"noise of a minibatch gradient is an error of the energy that no step size removes, which `MAMS` would reject "
        f"and `MCLMC` would turn into bias. Use `SGHMC(batch_size=...)`, whose friction balances that noise, or all "
        f"rows."
    )


def require_doublings(owner: str, max_doublings: int, most: int, remark: str = "") -> None:
    """Check the maximum tree depth of kernels with doubling trajectories."""
    require_integer(owner, "max_doublings", max_doublings, 1)
    if max_doublings > most:
        raise SettingError(f"`{owner}(max_doublings=...)` must be at most {most}{remark}, got {max_doublings}.")
