"""Figures as text that every layer shows in the same way."""

import math


def duration(seconds: float | None) -> str:
    """Format a duration: ``0.4 s``, ``41 s``, ``12 min 5 s`` or ``3 h 20 min``."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
