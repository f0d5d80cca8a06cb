"""Pictures of explanations: importance of columns, and the prediction as a function of a column."""

import numpy as np
from matplotlib.axes import Axes

from ergonet.explanation.dependence import PartialDependence
from ergonet.explanation.importance import Importance
from ergonet.plots import canvas

_MOST = 20
_MOST_POINTS = 8  # that are marked


def importance_plot(importance: Importance, *, axes: Axes | None = None) -> Axes:
    """Plot the loss of log score by column with 95 % intervals, most important column first, at most 20.

    Args:
        importance: from ``ergonet.explanation.permutation_importance``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    kept = [index for index in importance.order if np.isfinite(importance.loss[index])][:_MOST]
    axes = canvas.single_axes(axes, height=1.0 + 0.28 * max(len(kept), 4))
    if not kept:
        return canvas.say_instead(axes, "There was no time to permute any column.")
    rows = np.arange(len(kept))[::-1]
    loss, reach = importance.loss[kept], 1.96 * np.nan_to_num(importance.standard_error[kept])
    axes.axvline(0, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.errorbar(
        loss, rows, xerr=reach, fmt="o", color=canvas.SERIES[0], markersize=4.5, elinewidth=2,
    )  # fmt: skip
    _name_rows(axes, rows, [importance.names[index] for index in kept])
    axes.set_xlabel("loss of log score if permuted, nats per row")
    return axes


def dependence_plot(
    dependence: PartialDependence, *, target: int = 0, name: str = "prediction", axes: Axes | None = None
) -> Axes:
    """Plot the average prediction as a function of a column, with the 90 % band of the posterior.

    Args:
        dependence: from ``ergonet.explanation.partial_dependence``.
        target: index of the target or class.
        name: what is predicted, for the axis label.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes)
    mean, lower, upper = (one[:, target] for one in (dependence.mean, dependence.lower, dependence.upper))
    column, name = canvas.short(dependence.name), canvas.short(name)
    if dependence.values.dtype.kind in "biuf":
        axes.fill_between(dependence.values, lower, upper, color=canvas.BAND, linewidth=0)
        marker = "o" if len(mean) < _MOST_POINTS else ""
        axes.plot(dependence.values, mean, color=canvas.SERIES[0], marker=marker, markersize=4)
        axes.set_xlabel(column)
        axes.set_ylabel(name)
        return axes
    kept = np.sort(np.argsort(-mean, kind="stable")[:_MOST])
    rows = np.arange(len(kept))[::-1]
    axes.hlines(rows, lower[kept], upper[kept], color=canvas.SERIES[0], linewidth=2)
    axes.plot(mean[kept], rows, "o", color=canvas.SERIES[0], markersize=4.5)
    _name_rows(axes, rows, [str(dependence.values[index]) for index in kept])
    axes.set_xlabel(name)
    axes.set_ylabel(column)
    return axes


def _name_rows(axes: Axes, rows: np.ndarray, names: list[str]) -> None:
    axes.set_yticks(rows, [canvas.short(name) for name in names])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # names may contain dollar signs
    axes.set_ylim(-0.7, len(rows) - 0.3)
