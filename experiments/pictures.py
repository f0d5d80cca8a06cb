"""Pictures of tables; Matplotlib without a window."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.record import Quantity, Table

OURS, OTHER, THESIS = "#1f5f99", "#c2571a", "#444444"
DPI = 110
ERRORS_SEEN = (
    "Test error by row; wide bars: sd between draws, thin bars: standard error over seeds, crosses: the document"
)


def new_figure(width: float, height: float, *, columns: int = 1) -> tuple[Any, Any]:
    """A figure that needs no display, and its axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def save(figure: Any, path: Path) -> None:
    """As PNG, without a date in it."""
    figure.savefig(path, dpi=DPI, metadata={"Software": None})


def errors_by_row(table: Table, path: Path, quantities: Sequence[Quantity], *, spread: Quantity) -> None:
    """Mean and standard error of the quantities by row, the sd between draws of the first, the document's figures."""
    figure, (axes,) = new_figure(7.2, 1.1 + 0.42 * len(table.labels))
    places = np.arange(len(table.labels))[::-1]
    for quantity, color, shift in zip(quantities, (OURS, OTHER), (0.12, -0.12), strict=False):
        means = np.array([table.mean(label, quantity.name) for label in table.labels])
        errors = np.nan_to_num([table.error(label, quantity.name) for label in table.labels])
        if quantity is quantities[0]:
            sds = [table.mean(label, spread.name) for label in table.labels]
            axes.errorbar(means, places + shift, xerr=sds, fmt="none", ecolor=color, alpha=0.3, elinewidth=5)
        axes.errorbar(means, places + shift, xerr=errors, fmt="o", color=color, ms=5, capsize=3, label=quantity.name)
    theirs = [
        (table.source(label, quantities[0].name), place) for label, place in zip(table.labels, places, strict=True)
    ]
    known = [(value, place) for value, place in theirs if value is not None]
    if known:
        axes.plot(*np.transpose(known), "x", color=THESIS, ms=7, mew=1.8, label="document", zorder=3)
    axes.set_yticks(places, table.labels)
    axes.set_ylim(-0.6, len(places) - 0.4)
    axes.set_xlabel("test error, %")
    axes.set_xlim(left=0)
    axes.grid(axis="x", alpha=0.3)
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    save(figure, path)


def percent_axis(axes: Any) -> None:
    """A logarithmic y axis of percentages with readable ticks, after everything is plotted."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    fine = high / low < 4
    known = (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 80, 90, 100)
    ticks = [one for one in (known if fine else (1, 2, 3, 5, 10, 20, 50, 100)) if low < one < high]
    axes.set_yticks(ticks, [f"{one:g} %" for one in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
