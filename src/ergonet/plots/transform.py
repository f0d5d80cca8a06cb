"""Pictures of the probability integral transform."""

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom

from ergonet.plots import canvas
from ergonet.prediction.ecdf import TransformCurve

_MOST_BINS, _ROWS_PER_BIN = 20, 10


def transform_histogram(transform: np.ndarray, *, axes: Axes | None = None) -> Axes:
    """Plot a histogram of the probability integral transform, with the band that holds 99 % of flat histograms' bins.

    Args:
        transform: from ``ergonet.prediction.pit.probability_transform``, ``[rows]`` or ``[rows, targets]``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    values = np.asarray(transform, np.float64).reshape(-1)
    if not values.size:
        return canvas.say_instead(axes, "No rows to show.")
    bins = int(np.clip(values.size // _ROWS_PER_BIN, 4, _MOST_BINS))
    counts, edges = np.histogram(values, bins, (0.0, 1.0))
    low, high = binom.ppf((0.005, 0.995), values.size, 1 / bins)
    axes.axhspan(low, high, color=canvas.BAND, linewidth=0, label="99 % of the bars if the model is right")
    axes.bar(edges[:-1], counts, width=np.diff(edges), align="edge", color=canvas.SERIES[0], alpha=0.75)
    axes.axhline(values.size / bins, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.set_xlim(0, 1)
    axes.set_xlabel("stated probability of at most the true value")
    axes.set_ylabel("rows")
    canvas.legend(axes, columns=1, above=True)
    return axes


def transform_curve_plot(curve: TransformCurve, *, axes: Axes | None = None) -> Axes:
    """Plot how far the distribution function of the transform is from that of uniform values, with its band.

    The line is in the band everywhere if the model is right. It is above 0 first and below 0 later if intervals are too
    narrow, and the other way round if they are too wide.

    Args:
        curve: from ``ergonet.prediction.ecdf.transform_curve``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    points, color = curve.points, canvas.SERIES[0] if curve.is_calibrated else canvas.BAD
    share = f"{100 * curve.probability:.0f} %"
    axes.fill_between(
        points, curve.lower - points, curve.upper - points, color=canvas.BAND, linewidth=0,
        label=f"whole line inside with {share} if the model is right",
    )  # fmt: skip
    axes.plot(points, curve.fraction - points, color=color, linewidth=1.6, drawstyle="steps-post")
    axes.axhline(0, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.set_xlim(0, 1)
    axes.set_xlabel("stated probability of at most the true value")
    axes.set_ylabel("observed minus stated")
    canvas.legend(axes, columns=1, above=True)
    return axes
