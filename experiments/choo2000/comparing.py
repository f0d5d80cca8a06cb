"""Ratios of g over seeds, and the rules of the verdicts, shared by `choo-performance` and `choo-modern`.

Each seed has its own initial states and chains. The logarithm of a ratio is averaged over seeds; its standard error
follows from the widths of the paired bootstrap intervals of the seeds. A ratio differs from 1 if the 90 % interval of
that mean excludes 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from experiments.choo2000.means import G_HIGH, G_LOW, G, ratio_quantities
from experiments.pictures import OTHER, OURS, THESIS, new_figure, save
from experiments.record import Table

QUANTILE = 1.6449  # 95 % quantile of the standard normal distribution
COLORS = (THESIS, "#8a6d1d", OURS, OTHER)
RULE = """
Each seed takes other initial states from the same master run. *g*: the geometric mean of the variances of means rho
without the output bias, with the 90 % interval of 1000 bootstrap resamples of the chains; smaller is better. *Ratios*:
paired by initial state, with 90 % intervals; the verdict averages log ratios over seeds, with the standard error that
follows from these intervals, and calls a ratio different from 1 if the 90 % interval of that mean excludes 1.
*Rejected*: one minus the acceptance probability of the last trajectory of each super-transition.
"""


def label(method: str, units: int) -> str:
    """The label of a row."""
    return f"{method}, {units} units"


@dataclass(frozen=True)
class LogRatio:
    """Mean over seeds of the logarithm of a ratio of g, and its standard error; NaN where it was not measured."""

    value: float
    error: float

    def show(self) -> str:
        """The ratio and its interval as text, such as `0.81 (0.70 to 0.94)`."""
        low, high = (math.exp(self.value + sign * QUANTILE * self.error) for sign in (-1, 1))
        return f"{math.exp(self.value):.2f} ({low:.2f} to {high:.2f})"

    @property
    def is_below(self) -> bool | None:
        """Whether the ratio is significantly below 1; None if it was not measured."""
        return None if math.isnan(self.value) else self.value + QUANTILE * self.error < 0

    @property
    def is_above(self) -> bool | None:
        """Whether the ratio is significantly above 1; None if it was not measured."""
        return None if math.isnan(self.value) else self.value - QUANTILE * self.error > 0


def log_ratio(table: Table, row: str, reference: str) -> LogRatio:
    """The log ratio of a row's g to the g of a method, over seeds."""
    if row not in table.labels:
        return LogRatio(math.nan, math.nan)
    value, low, high = (np.log(table.of(row, quantity.name)) for quantity in ratio_quantities(reference))
    if not len(value):
        return LogRatio(math.nan, math.nan)
    errors = (high - low) / (2 * QUANTILE)
    return LogRatio(float(value.mean()), float(np.sqrt(np.sum(errors**2)) / len(value)))


def beats(found: Sequence[LogRatio]) -> bool | None:
    """Whether all ratios are significantly below 1; False if one is significantly above 1; None if undecided."""
    if any(one.is_above for one in found):
        return False
    return True if found and all(one.is_below for one in found) else None


def units_of(table: Table, method: str) -> list[int]:
    """The widths at which a method was run."""
    return [units for units in (8, 12, 16, 20) if label(method, units) in table.labels]


def slope(table: Table, method: str, reference: str) -> LogRatio:
    """Change of the log ratio per doubling of the units, by weighted least squares."""
    units = units_of(table, method)
    found = [log_ratio(table, label(method, one), reference) for one in units]
    if len(found) < 2 or any(math.isnan(one.value) for one in found):
        return LogRatio(math.nan, math.nan)
    weights = np.array([one.error**-2 for one in found])
    at = np.log2(units)
    centered = at - np.sum(weights * at) / weights.sum()
    spread = np.sum(weights * centered**2)
    value = np.sum(weights * centered * [one.value for one in found]) / spread
    return LogRatio(float(value), float(spread**-0.5))


def trend(table: Table, method: str) -> LogRatio:
    """Log g at the most units minus log g at the fewest, with a standard error from the two intervals."""
    units = units_of(table, method)
    ends = []
    for one in (units[0], units[-1]):
        value, low, high = (np.log(table.of(label(method, one), quantity.name)) for quantity in (G, G_LOW, G_HIGH))
        ends.append((value.mean(), np.sum(((high - low) / (2 * QUANTILE)) ** 2) / len(value) ** 2))
    if len(units) < 2:
        return LogRatio(math.nan, math.nan)
    return LogRatio(float(ends[1][0] - ends[0][0]), float(np.sqrt(ends[0][1] + ends[1][1])))


def draw_g(table: Table, path: Path, methods: Sequence[str], ratios: Sequence[tuple[str, str]]) -> None:
    """Draw g by units (Fig. 5.13) and its ratios (Fig. 5.15), with bootstrap intervals."""
    figure, (left, right) = new_figure(9.6, 4.0, columns=2)
    for number, method in enumerate(methods):
        units = units_of(table, method)
        labels = [label(method, one) for one in units]
        at = np.array(units) + 0.25 * (number - (len(methods) - 1) / 2)
        middle, low, high = (np.array([table.mean(row, q.name) for row in labels]) for q in (G, G_LOW, G_HIGH))
        errors = [np.maximum(middle - low, 0), np.maximum(high - middle, 0)]
        left.errorbar(at, middle, yerr=errors, fmt="o", ms=5, capsize=3, color=COLORS[number], label=method)
        known = [(x, table.source(row, G.name)) for x, row in zip(at, labels, strict=True)]
        shown = [pair for pair in known if pair[1] is not None]
        if shown:
            left.plot(*np.transpose(shown), "x", color=COLORS[number], ms=7, alpha=0.7)
    left.set(xlabel="hidden units", ylabel="g (crosses: thesis)", yscale="log")
    left.legend(frameon=False, fontsize=8)
    for number, (method, reference) in enumerate(ratios):
        units = units_of(table, method)
        found = [log_ratio(table, label(method, one), reference) for one in units]
        at = np.array(units) + 0.25 * (number - (len(ratios) - 1) / 2)
        middle, spread = (np.array([getattr(one, name) for one in found]) for name in ("value", "error"))
        ends = [np.exp(middle + sign * QUANTILE * spread) for sign in (-1, 1)]
        color = COLORS[(number + 1) % len(COLORS)]
        errors = [np.exp(middle) - ends[0], ends[1] - np.exp(middle)]
        right.errorbar(
            at, np.exp(middle), yerr=errors, fmt="o", ms=5, capsize=3, color=color, label=f"{method} / {reference}"
        )
    right.axhline(1, color="gray", lw=0.8, ls="--")
    right.set(xlabel="hidden units", ylabel="ratio of g", yscale="log")
    right.legend(frameon=False, fontsize=8)
    save(figure, path)
