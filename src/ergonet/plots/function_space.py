"""Pictures of chains in function space: a map by predictive distance, and what each chain says of the worst points."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ergonet.diagnostics.averages import estimates
from ergonet.diagnostics.chain_map import ChainMap
from ergonet.diagnostics.chains import mcse_mean
from ergonet.plots import canvas

_MOST_CHAINS = 16  # in a strip
_MOST_STRIPS = 4


def chain_map_plot(found: ChainMap | None, *, axes: Axes | None = None) -> Axes:
    """Plot a map of chains by the distance between what they predict.

    A point is a chain, with a line from the first to the second half of its draws. Points that are no further apart
    than lines are long are chains that agree.

    Args:
        found: the map, from ``ergonet.diagnostics.chain_map``; None: there is none.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.6)
    if found is None:
        return canvas.say_instead(axes, "A map compares chains: two with eight draws are needed.")
    for number, chain in enumerate(found.chains):
        color, (early, late) = canvas.color_of(chain), found.halves[number]
        path = np.stack([early, found.points[number], late])
        axes.plot(*path.T, color=color, linewidth=1.2, alpha=0.6)
        axes.plot(*late, color=color, marker="o", markersize=3, alpha=0.6)
        axes.plot(*found.points[number], color=color, marker="o", markersize=8)
        axes.annotate(
            str(chain), found.points[number], xytext=(6, 5), textcoords="offset points", color=canvas.INK,
            fontsize="small",
        )  # fmt: skip
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.15)
    for side, axis in enumerate((axes.xaxis, axes.yaxis)):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_label_text(f"axis {side + 1}: {100 * found.shares[side]:.0f} % of squared distances")
    return axes


def chain_intervals(
    values: np.ndarray,
    names: Sequence[str],
    weights: np.ndarray | None = None,
    *,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Plot what each chain says of some predictions: mean with two Monte Carlo errors, and the middle 90 % of draws.

    Args:
        values: draws of at most four predictions, ``[chain, draw, prediction]``, the worst first. With more than 16
            chains, evenly spaced ones are shown.
        names: name of each prediction.
        weights: weight of each draw, ``[chain, draw]``, at least 0; None: all are equal. Chains of weight 0 are not
            shown.
        axes: axes to draw on, one for each prediction; None makes a new figure.

    Returns:
        The axes, one for each prediction.
    """
    values = np.asarray(values, np.float64)[:, :, :_MOST_STRIPS]
    weights = np.ones(values.shape[:2]) if weights is None else np.asarray(weights, np.float64)
    used = np.flatnonzero(weights.any(axis=1))
    shown = used[np.unique(np.linspace(0, len(used) - 1, min(len(used), _MOST_CHAINS)).astype(int))]
    count = values.shape[2]
    made = canvas.several_axes(axes, count, 1, height=count * (0.75 + 0.13 * len(shown)))
    for number, one in enumerate(made):
        for place, chain in enumerate(shown):
            draws, own, color = values[[chain], :, number, None], weights[[chain]], canvas.color_of(int(chain))
            found, error = estimates(own), 2 * mcse_mean(draws, own)[0]
            mean, (low, high) = found.mean(draws)[0], (found.quantile(draws, level)[0] for level in (0.05, 0.95))
            one.hlines(place, low, high, color=color, linewidth=1.2, alpha=0.6)
            if np.isfinite(error):
                one.hlines(place, mean - error, mean + error, color=color, linewidth=5)
            one.plot(mean, place, marker="o", markersize=3.5, color=color)
        one.set_ylim(len(shown) - 0.4, -0.6)
        one.set_yticks(range(len(shown)), [str(chain) for chain in shown])
        one.tick_params(axis="y", length=0)
        one.spines["left"].set_visible(False)
        one.xaxis.set_major_locator(MaxNLocator(5))
        one.set_title(" ".join(names[number].split())[:64], loc="left", fontsize="small", color=canvas.INK)
        one.set_ylabel("chain")
    return made
