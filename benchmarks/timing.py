"""Interleaved timing: compared functions run in turn, so that a slow moment of the machine affects all of them."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median and a range."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: list[float]) -> "Spread":
        """Median, smallest and largest of at least one value."""
        return Spread(statistics.median(values), min(values), max(values))

    def text(self, pattern: str = "{:.2f}") -> str:
        """The text `median (low to high)`."""
        return f"{pattern.format(self.median)} ({pattern.format(self.low)} to {pattern.format(self.high)})"


def interleaved(functions: Mapping[str, Callable[[], object]], *, turns: int, per_call: int) -> dict[str, list[float]]:
    """Microseconds per unit of work of each function, one value per turn.

    Args:
        functions: blocking functions, each of which does `per_call` units of work; called once before the timing.
        turns: number of timed calls of each function.
        per_call: units of work per call.
    """
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(turns):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            seconds[name].append((time.perf_counter() - began) / per_call * 1e6)
    return seconds


def ratios(numerator: list[float], denominator: list[float]) -> Spread:
    """The ratios of two interleaved series, turn by turn, as a median and a range."""
    return Spread.of([one / other for one, other in zip(numerator, denominator, strict=True)])
