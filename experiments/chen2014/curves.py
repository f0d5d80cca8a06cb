"""Pictures of learning curves."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from experiments.chen2014.images import average_after, network_after
from experiments.pictures import new_figure, percent_axis, save
from experiments.record import Table

COLORS = ("#1f5f99", "#c2571a", "#3f7d3a", "#8a4f9e", "#8c6d1f", "#444444")
WIDE = 42  # characters of a label; a legend has room for two columns of these
SEEN = (
    "Test error by epoch, means over seeds; solid lines: average of the networks so far, dotted lines: network of "
    "that epoch"
)


def learning_curves(name: str) -> Callable[[Table, Path], Mapping[str, str]]:
    """A function that draws `NAME.png`: the test error of every row by epoch."""

    def draw(table: Table, folder: Path) -> Mapping[str, str]:
        figure, (axes,) = new_figure(7.2, 4.2)
        for label, color in zip(table.labels, COLORS * 4, strict=False):
            axes.plot(*points(table, label, average_after), color=color, label=label)
            axes.plot(*points(table, label, network_after), color=color, linestyle=":", alpha=0.8)
        axes.set_xscale("log")
        percent_axis(axes)
        axes.set_xlabel("epochs")
        axes.set_ylabel("test error")
        columns = 3 if max(map(len, table.labels)) < WIDE else 2
        figure.legend(loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
        save(figure, folder / f"{name}.png")
        return {f"{name}.png": SEEN}

    return draw


def points(table: Table, label: str, quantity: Callable[[int], str]) -> tuple[np.ndarray, np.ndarray]:
    """Epochs and mean errors of a row's learning curve."""
    prefix, suffix = quantity(0).split("0")
    names = (one for one in table.values[label] if one.startswith(prefix) and one.endswith(suffix))
    epochs = np.sort([int(one.removeprefix(prefix).removesuffix(suffix)) for one in names])
    means = np.array([table.mean(label, quantity(epoch)) for epoch in epochs])
    known = np.isfinite(means) & (means > 0)
    return epochs[known], means[known]
