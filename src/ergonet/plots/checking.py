"""Pictures of `ergonet.checking.check`: ranks and z, with bands that hold everything at once."""

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import binom, norm

from ergonet.checking.check import FALSE_ALARM, TESTS, Check
from ergonet.checking.p_values import NUM_BINS
from ergonet.plots import canvas


def check_ranks(found: Check, *, axes: Axes | None = None) -> Axes:
    """Plot how far the distribution functions of the ranks are from uniform, with a band for all of them at once.

    One line for each quantity. With a right model and a right kernel all lines are in the band everywhere, except in
    one of 200 checks (Bonferroni's bound over quantities and 15 points); those that leave it are red.

    Args:
        found: from ``ergonet.checking.check``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    count, quantities = found.ranks.shape
    points = np.arange(1, NUM_BINS) / NUM_BINS
    below = (found.ranks[None] < points[:, None, None] * found.num_places).mean(axis=1) - points[:, None]
    tail = FALSE_ALARM / (TESTS * quantities * len(points))
    low, high = (binom.ppf(one, count, points) / count - points for one in (tail / 2, 1 - tail / 2))
    axes.fill_between(points, low, high, color=canvas.BAND, linewidth=0, label="all lines inside if all is right")
    outside = ((below < low[:, None]) | (below > high[:, None])).any(axis=0)
    for line, is_outside in zip(below.T, outside, strict=True):
        axes.plot(points, line, color=canvas.BAD if is_outside else canvas.SERIES[0], linewidth=1, alpha=0.6)
    axes.axhline(0, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.set_xlim(0, 1)
    axes.set_xlabel("rank of a draw from the prior in its posterior")
    axes.set_ylabel("observed minus expected share")
    canvas.legend(axes, above=True)
    return axes


def check_scores(found: Check, *, axes: Axes | None = None) -> Axes:
    """Plot z of Geweke's joint test for each quantity, with the range that holds all if all is right.

    Args:
        found: from ``ergonet.checking.check``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    rows = np.arange(len(found.sizes))[::-1]
    axes = canvas.single_axes(axes, height=max(3.4, 1.2 + 0.28 * len(rows)))
    bound = float(norm.isf(FALSE_ALARM / (2 * TESTS * found.scores.size)))
    axes.axvspan(-bound, bound, color=canvas.BAND, linewidth=0, label="all points inside if all is right")
    of = np.repeat(rows, list(found.sizes.values()))
    for scores, marker in zip(found.scores, "os", strict=True):
        outside = np.abs(scores) > bound
        for chosen, color in ((~outside, canvas.SERIES[0]), (outside, canvas.BAD)):
            axes.plot(scores[chosen], of[chosen], marker, color=color, markersize=4, alpha=0.7)
    axes.axvline(0, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.set_yticks(rows, [canvas.short(name) for name in found.sizes])
    axes.set_xlabel("z of the joint test: mean (circles), mean square (squares)")
    canvas.legend(axes, above=True)
    return axes
