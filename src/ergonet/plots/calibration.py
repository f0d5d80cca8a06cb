"""Pictures of calibration: observed frequencies against stated probabilities."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from ergonet.plots import canvas
from ergonet.prediction.calibration import CoverageCurve, ReliabilityCurve
from ergonet.prediction.selective import RiskCurve


def reliability_diagram(curve: ReliabilityCurve, *, axes: Axes | None = None) -> Axes:
    """Plot accuracy against confidence with the band of calibrated probabilities, and the rows at each confidence.

    Each bar of the band is as long as it must be for all points to be inside with 95 % if the probabilities are right.

    Args:
        curve: from ``ergonet.prediction.calibration.reliability_curve``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    _diagonal(axes)
    share = curve.counts / max(curve.counts.sum(), 1)
    axes.bar(
        curve.edges[:-1], share, width=0.92 * np.diff(curve.edges), align="edge", color=canvas.BAND,
        label="share of rows",
    )  # fmt: skip
    used = curve.counts > 0
    axes.plot(
        curve.confidence[used], curve.accuracy[used], color=canvas.SERIES[0], marker="o", markersize=4.5, linewidth=1.2,
        label="fraction correct",
    )  # fmt: skip
    axes.vlines(
        curve.confidence[used], curve.band_lower[used], curve.band_upper[used], color=canvas.MUTED, alpha=0.35,
        linewidth=7, label="all points inside with 95 % if right",
    )  # fmt: skip
    outside = curve.is_outside
    axes.plot(
        curve.confidence[outside], curve.accuracy[outside], color=canvas.BAD, marker="o", markersize=6, linewidth=0,
    )  # fmt: skip
    axes.set_xlabel("stated probability of the predicted class")
    axes.set_ylabel("fraction of correct rows")
    canvas.legend(axes, columns=2, above=True)
    return axes


def coverage_plot(curve: CoverageCurve, *, axes: Axes | None = None) -> Axes:
    """Plot the coverage of predictive intervals against their stated probability.

    Args:
        curve: from ``ergonet.prediction.calibration.coverage_curve``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    _diagonal(axes)
    ends = np.stack([curve.lower, curve.upper])
    _points(axes, curve.nominal, curve.coverage, ends=ends, label="coverage, 95 % interval")
    axes.set_xlabel("stated probability of the interval")
    axes.set_ylabel("fraction of true values inside")
    canvas.legend(axes, columns=2, above=True)
    return axes


def risk_plot(curve: RiskCurve, *, axes: Axes | None = None) -> Axes:
    """Plot the mean loss of the rows of which the model is surest, against their share.

    Args:
        curve: from ``ergonet.prediction.selective.risk_coverage``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    axes.plot(curve.coverage, curve.risk, color=canvas.SERIES[0], linewidth=1.6)
    axes.axhline(curve.risk[-1], color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.set_xlim(0, 1.01)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.set_xlabel("share of rows that are predicted, surest first")
    axes.set_ylabel("mean loss of these rows")
    return axes


def _diagonal(axes: Axes) -> None:
    axes.plot([0, 1], [0, 1], color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.text(0.9, 0.42, "too sure", ha="right", color=canvas.MUTED, fontsize="small", style="italic")
    axes.text(0.03, 0.92, "too cautious", ha="left", color=canvas.MUTED, fontsize="small", style="italic")
    axes.set_xlim(0, 1.01)
    axes.set_ylim(0, 1.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))


def _points(axes: Axes, stated: np.ndarray, found: np.ndarray, *, ends: np.ndarray, label: str) -> None:
    reach = np.clip(np.stack([found - ends[0], ends[1] - found]), 0.0, None)
    axes.errorbar(
        stated, found, yerr=reach, color=canvas.SERIES[0], marker="o", markersize=4.5, linewidth=1.2,
        elinewidth=1, capsize=2, label=label,
    )  # fmt: skip
