"""Pictures of prior predictive checks."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from ergonet.plots import canvas

_MOST_FUNCTIONS = 30


def prior_functions(
    grid: np.ndarray, values: np.ndarray, *, name: str = "input", target: str = "target", axes: Axes | None = None
) -> Axes:
    """Plot functions drawn from the prior along one input.

    Args:
        grid: values of the input, ``[points]``.
        values: values of the functions, ``[draw, points]``; at most 30 functions are shown.
        name: name of the input, for the axis label.
        target: name of the target, for the axis label.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes)
    for number, function in enumerate(np.asarray(values)[:_MOST_FUNCTIONS]):
        axes.plot(grid, function, color=canvas.color_of(number), linewidth=1, alpha=0.7)
    axes.set_xlabel(canvas.short(name))
    axes.set_ylabel(canvas.short(target))
    return axes


def prior_histogram(
    prior: np.ndarray, data: np.ndarray | None = None, *, name: str = "target", axes: Axes | None = None
) -> Axes:
    """Plot prior predictions and data as densities, over a range somewhat wider than that of the data.

    Args:
        prior: prior predictions, any shape.
        data: observed targets, any shape; None: not shown.
        name: name of the target, for the axis label.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes)
    drawn = canvas.finite(prior)
    if drawn.size == 0:
        return canvas.say_instead(axes, "No finite predictions.")
    truth = canvas.finite(data) if data is not None else drawn
    low, high = truth.min(), truth.max()
    width = max(high - low, 1e-9) if data is not None else 0.0
    edges = np.linspace(low - width, high + width + 1e-12, 61)
    share = np.mean((drawn < edges[0]) | (drawn > edges[-1]))
    axes.hist(drawn, edges, density=True, color=canvas.SERIES[0], alpha=0.5, label=f"prior ({share:.0%} outside)")
    if data is not None:
        axes.hist(truth, edges, density=True, histtype="step", color=canvas.INK, label="data")
    axes.set_xlabel(canvas.short(name))
    axes.set_yticks([])
    canvas.legend(axes, columns=2, above=True)
    return axes


def save_side_by_side(path: str, *draws: Callable[[Axes], Axes], width: float = 10.0, height: float = 3.6) -> None:
    """Call each function of `draws` on its axes in a row of panels, and save the figure."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    for axes, draw in zip(np.ravel(figure.subplots(1, len(draws), squeeze=False)), draws, strict=True):
        draw(axes)
    figure.savefig(path, dpi=130)
