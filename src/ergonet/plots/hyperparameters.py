"""Pictures of learned scales: posterior against prior, and the relevance of inputs."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from ergonet.plots import canvas

_MOST = 20
_ENDS = (5, 50, 95)


def scales_plot(
    names: Sequence[str], posterior: np.ndarray, prior: np.ndarray | None = None, *, axes: Axes | None = None
) -> Axes:
    """Plot medians and 90 % intervals of scales on a logarithmic axis, with the prior as a band behind the posterior.

    With more than 20 scales, the 20 with the largest medians are shown.

    Args:
        names: names of the scales.
        posterior: posterior draws, ``[draw, scale]``, above 0.
        prior: prior draws, ``[draw, scale]``; None: not shown.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    values = np.asarray(posterior, np.float64)
    order = np.argsort(-np.median(values, axis=0), kind="stable") if values.size else np.zeros(0, int)
    kept = np.sort(order[:_MOST])
    axes = canvas.single_axes(axes, height=1.2 + 0.28 * len(kept))
    if len(kept) == 0:
        return canvas.say_instead(axes, "No scales were learned.")
    rows = np.arange(len(kept))[::-1]
    low, middle, high = _ends(values[:, kept])
    if prior is not None:
        first, _, last = _ends(np.asarray(prior, np.float64)[:, kept])
        axes.hlines(rows, first, last, color=canvas.LINE, linewidth=7, label="prior, 90 %")
    axes.hlines(rows, low, high, color=canvas.SERIES[0], linewidth=2, label="posterior, 90 %")
    axes.plot(middle, rows, "o", color=canvas.SERIES[0], markersize=4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    near = np.concatenate([low, high])
    axes.set_xlim(near.min() / 10, near.max() * 10)  # so that a vague prior does not squeeze the posterior
    axes.set_yticks(rows, [canvas.short(str(names[row])) for row in kept])
    axes.set_ylim(-0.7, len(kept) - 0.3)
    axes.set_xlabel("learned value")
    canvas.legend(axes, columns=2, above=True)
    return axes


def relevance_plot(names: Sequence[str], draws: np.ndarray, *, axes: Axes | None = None) -> Axes:
    """Plot medians and 90 % intervals of the scales of the weights out of every input, most relevant first.

    With more than 20 inputs, the 20 most relevant are shown.

    Args:
        names: names of the inputs.
        draws: draws of the scales, ``[draw, input]``, above 0.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    values = np.asarray(draws, np.float64)
    order = np.argsort(-np.median(values, axis=0), kind="stable")
    return scales_plot([str(names[row]) for row in order], values[:, order], axes=axes)


def _ends(values: np.ndarray) -> np.ndarray:
    return np.percentile(np.maximum(values, np.finfo(np.float64).tiny), _ENDS, axis=0)
