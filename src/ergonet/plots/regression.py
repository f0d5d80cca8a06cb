"""Pictures of predicted against true values."""

import numpy as np
from matplotlib.axes import Axes

from ergonet.plots import canvas

_MOST_ROWS = 400


def prediction_vs_truth(
    mean: np.ndarray,
    truth: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    name: str = "target",
    axes: Axes | None = None,
) -> Axes:
    """Plot predictive intervals against true values; intervals that miss the true value have another color.

    With more than 400 rows, 400 evenly spaced ones in the order of the true values are shown. Intervals are cut where
    they go beyond the true and predicted values by more than the range of these.

    Args:
        mean: predictive means of one target, ``[rows]``.
        truth: true values, ``[rows]``.
        lower: lower ends of the intervals, ``[rows]``.
        upper: upper ends of the intervals, ``[rows]``.
        name: name of the target, for the axis labels.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    shown = _spread_rows(truth)
    if len(shown) == 0:
        return canvas.say_instead(axes, "No rows to compare.")
    mean, truth, lower, upper = (np.asarray(each, np.float64)[shown] for each in (mean, truth, lower, upper))
    inside = (lower <= truth) & (truth <= upper)
    ends = np.concatenate([truth, mean])
    limits = [ends.min(), ends.max()]
    room = limits[1] - limits[0]
    low, high = max(lower.min(), limits[0] - room), min(upper.max(), limits[1] + room)
    cut = int(np.sum((lower < low) | (upper > high)))
    axes.plot(limits, limits, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    for chosen, color, place in ((inside, canvas.SERIES[0], "inside"), (~inside, canvas.BAD, "outside")):
        if chosen.any():
            label = f"truth {place}: {chosen.sum()}"
            shown_ends = np.clip([lower[chosen], upper[chosen]], low, high)
            axes.vlines(truth[chosen], *shown_ends, color=color, alpha=0.3, linewidth=1)
            axes.plot(truth[chosen], mean[chosen], "o", color=color, markersize=3, label=label)
    beyond = f" ({cut} of the intervals end beyond the picture)" if cut else ""
    axes.set_xlabel(f"true {canvas.short(name)}{beyond}")
    axes.set_ylabel(f"predicted {canvas.short(name)}")
    canvas.legend(axes, columns=2, above=True)
    return axes


def residual_plot(
    mean: np.ndarray, truth: np.ndarray, sd: np.ndarray, *, name: str = "target", axes: Axes | None = None
) -> Axes:
    """Plot errors in units of the predictive standard deviation against predictions, with a band from -2 to 2.

    With more than 400 rows, 400 evenly spaced ones in the order of the predictions are shown.

    Args:
        mean: predictive means of one target, ``[rows]``.
        truth: true values, ``[rows]``.
        sd: predictive standard deviations, noise included, ``[rows]``, above 0.
        name: name of the target, for the axis label.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    shown = _spread_rows(mean)
    mean, truth, sd = (np.asarray(each, np.float64)[shown] for each in (mean, truth, sd))
    usable = sd > 0
    if not usable.any():
        return canvas.say_instead(axes, "No rows with a standard deviation above 0.")
    errors = (truth[usable] - mean[usable]) / sd[usable]
    axes.axhspan(-2, 2, color=canvas.BAND, linewidth=0)
    axes.axhline(0, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    far = np.abs(errors) > 2
    for chosen, color in ((~far, canvas.SERIES[0]), (far, canvas.BAD)):
        axes.plot(mean[usable][chosen], errors[chosen], "o", color=color, markersize=3, alpha=0.8)
    reach = max(3.2, 1.08 * float(np.abs(errors).max()))
    axes.set_ylim(-reach, reach)
    axes.set_xlabel(f"predicted {canvas.short(name)}")
    axes.set_ylabel("(truth - prediction) / stated sd")
    return axes


def _spread_rows(key: np.ndarray) -> np.ndarray:
    order = np.argsort(np.asarray(key, dtype=np.float64), kind="stable")
    if len(order) <= _MOST_ROWS:
        return order
    return order[np.linspace(0, len(order) - 1, _MOST_ROWS).round().astype(np.int64)]
