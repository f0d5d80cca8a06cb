"""Numbers, durations and settings as text."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ergonet._figures import duration as duration  # noqa: PLC0414 - a name of this module

WARM_START = "warm_start"
_LONGEST_NUMBER = 7  # characters of a setting that is shown with all its digits
STAGES = {
    "setup": "Set-up",
    "compile": "Compilation",
    WARM_START: "Warm start",
    "warmup": "Warm-up",
    "sampling": "Sampling",
}
"""Stages of a run, as they are named in its figures and in words."""


def number(value: float | None, digits: int = 3) -> str:
    """Format a number to so many significant digits, without exponent between 1e-4 and 1e6: ``0.0213``, ``12 400``."""
    if value is None or math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    size = abs(value)
    if size >= 1e6 or 0 < size < 1e-4:
        return f"{value:.{max(digits - 1, 0)}e}"
    decimals = digits - 1 - math.floor(math.log10(size)) if size else 0
    return grouped(round(value, max(decimals, 0)), max(decimals, 0))


def grouped(value: float, decimals: int = 0) -> str:
    """Format a number with its thousands separated: ``12 400``."""
    return f"{value:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def with_error(value: float | None, error: float | None, *, percent: bool = False) -> tuple[str, str]:
    """Format a value and its standard error, rounded to two digits of the error: ``("0.42", "± 0.09")``.

    Percentages have one decimal, ``("4.2 %", "± 0.9")``, unless the error is below 0.05 %.

    Args:
        value: the score, or None.
        error: its standard error; None or NaN if unknown.
        percent: multiply by 100 and append the percent sign.

    Returns:
        The value, and the error or an empty string.
    """
    if value is None or not math.isfinite(value):
        return number(value), ""
    factor, unit = (100.0, " %") if percent else (1.0, "")
    value = factor * value
    if error is None or not math.isfinite(error) or error <= 0:
        return (f"{value:.1f}{unit}" if percent else number(value)), ""
    error = factor * error
    decimals = 1 - math.floor(math.log10(error))
    if percent and error >= 0.05:  # smaller ones would be rounded to 0
        decimals = 1
    if decimals < 0 or decimals > 6:
        return f"{number(value)}{unit}", f"± {number(error, 2)}"
    return f"{grouped(value, decimals)}{unit}", f"± {grouped(error, decimals)}"


def plural(count: int, noun: str, several: str | None = None) -> str:
    """Format a count with its noun: ``1 chain``, ``4 chains``, ``0 chains``."""
    word = noun if count == 1 else (several or f"{noun}s")
    return f"{grouped(float(count))} {word}"


def in_words(value: Any) -> str:
    """Format a setting for readers: ``Normal (scale 1.0)``, ``35, 20``, ``yes``."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        named = {str(key): item for key, item in value.items()}
        name = next((str(named.pop(key)) for key in ("name", "kind", "type") if key in named), "")
        rest = ", ".join(f"{key.replace('_', ' ')} {in_words(item)}" for key, item in named.items())
        return f"{name} ({rest})" if name and rest else name or rest
    if isinstance(value, (list, tuple)):
        return ", ".join(in_words(item) for item in value)
    if isinstance(value, float) and len(str(value)) > _LONGEST_NUMBER:
        return f"{value:.4g}"
    return str(value)


def scored_draws(metrics: Mapping[str, Any]) -> str:
    """That scores are from some of the draws, as a sentence; empty if they are from all."""
    count = metrics.get("scored_draws")
    if count is None:
        return ""
    return (
        f"The scores are from {count} of {metrics.get('num_draws')} draws of each chain, evenly spaced, because of the "
        f"time limit; predictions of new rows use all."
    )


def setting(settings: Mapping[str, Any], *names: str) -> Any:
    """Find the first setting with one of these names at any depth, shallow ones first; None if there is none."""
    for name in names:
        level: list[Mapping[str, Any]] = [settings]
        while level:
            for table in level:
                if name in table:
                    return table[name]
            level = [item for table in level for item in table.values() if isinstance(item, Mapping)]
    return None


def flat_settings(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield all settings as rows such as ``kernel.name``, ``NUTS``."""
    for key, value in settings.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from flat_settings(value, f"{path}.")
        else:
            yield path, in_words(value)


def real(record: Mapping[str, Any], name: str) -> float | None:
    """Return a number from a table, or None if it is absent or unknown."""
    value = record.get(name)
    if value is None or not isinstance(value, (int, float, np.number)) or math.isnan(value):
        return None
    return float(value)


def target_names(metrics: Mapping[str, Any], count: int) -> list[str]:
    """Names of so many targets."""
    data = metrics.get("data")
    names = data.get("target") if isinstance(data, Mapping) else None
    if isinstance(names, (list, tuple)) and len(names) == count:
        return [str(name) for name in names]
    if isinstance(names, str) and names:
        return [names] if count == 1 else [f"{names} {index}" for index in range(count)]
    return ["target"] if count == 1 else [f"target {index}" for index in range(count)]


def target_errors(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Root mean square error of each of several targets, by name; empty for one."""
    trust = metrics.get("trust")
    errors = trust.get("target_rmse", ()) if isinstance(trust, Mapping) else ()
    return dict(zip(target_names(metrics, len(errors)), errors, strict=True))
