"""Pictures of agreement between chains: traces, ranks, R-hat and effective sample sizes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from scipy.stats import rankdata

from ergonet.diagnostics.advice import FEWEST_EFFECTIVE_DRAWS_PER_CHAIN, LARGEST_RHAT
from ergonet.diagnostics.chains import ess_bulk as effective_draws
from ergonet.plots import canvas

_MOST_POINTS = 500
_MOST_LANES = 16


def log_posterior_trace(
    log_posterior: np.ndarray, warmup: np.ndarray | None = None, *, axes: Axes | None = None
) -> Axes:
    """The log posterior density, draw by draw, with the warm-up to the left of 0.

    The scale is that of the kept draws; a warm-up that starts far below leaves the picture at its lower edge.

    Args:
        log_posterior: of kept draws, ``[chain, draw]``, up to a constant.
        warmup: of warm-up draws, ``[chain, draw]``, or None.
        axes: where to draw; a new figure when None.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes)
    kept = np.atleast_2d(np.asarray(log_posterior, dtype=np.float64))
    early = np.empty((len(kept), 0)) if warmup is None else np.atleast_2d(np.asarray(warmup, np.float64))
    if canvas.finite(kept).size == 0:
        return canvas.say_instead(axes, "No draw with a finite log posterior.")
    for chain in range(len(kept)):
        color = canvas.color_of(chain)
        for values, start, opacity in ((early[chain], -early.shape[1], 0.45), (kept[chain], 0, 0.9)):
            stride = -(-len(values) // _MOST_POINTS) or 1
            draws = np.arange(len(values))[::stride] + start + 1
            marker = "." if len(values) == 1 else ""
            axes.plot(draws, values[::stride], color=color, alpha=opacity, linewidth=0.7, marker=marker)
    low, high = canvas.finite(kept).min(), canvas.finite(kept).max()
    room = max(high - low, 1e-6 * max(abs(high), 1.0))
    if early.shape[1]:
        axes.axvline(0.5, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
        axes.text(
            -0.01 * early.shape[1], 1.0, "warm-up ", transform=axes.get_xaxis_transform(),
            ha="right", va="top", color=canvas.MUTED, fontsize="small",
        )  # fmt: skip
        axes.set_ylim(low - 1.5 * room, high + 0.5 * room)
    else:
        axes.set_ylim(low - 0.1 * room, high + 0.1 * room)
    axes.set_xlim(-early.shape[1], max(kept.shape[1], 1) + 1)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_xlabel("draw")
    axes.set_ylabel("log posterior")
    return axes


def rank_plot(values: np.ndarray, *, bins: int = 20, axes: Axes | None = None) -> Axes:
    """How the ranks of each chain's draws are spread among those of all chains, a lane for each chain.

    Level lanes mean that chains explore the same values. The band is what chance would do (two standard
    deviations) with as many draws as a chain's are worth by itself. Of more than 16 chains those with the
    least level lanes are shown.

    Args:
        values: one quantity, ``[chain, draw]``.
        bins: bars in a lane; fewer where there are fewer than ten draws for each.
        axes: where to draw; a new figure when None.

    Returns:
        The axes.
    """
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    num_chains, num_draws = values.shape
    lanes = min(num_chains, _MOST_LANES)
    axes = canvas.single_axes(axes, height=max(3.1, 0.8 + 0.4 * lanes))
    usable = canvas.finite(values)
    if num_chains < 2:
        return canvas.say_instead(axes, "Ranks compare chains, and there is only one.")
    if num_draws < 8 or usable.size < values.size or usable.min() == usable.max():
        return canvas.say_instead(axes, "Too few different draws to compare ranks.")
    bins = max(2, min(bins, num_draws // 10))
    ranks = (rankdata(values).reshape(values.shape) - 0.5) / values.size
    counts = np.stack([np.histogram(chain, bins=bins, range=(0, 1))[0] for chain in ranks])
    expected = num_draws / bins
    inflation = max(1.0, num_draws / _effective_draws_of_a_chain(values))
    chance = 2 * np.sqrt(expected * (1 - 1 / bins) * inflation)
    worst = np.argsort(-np.square(counts - expected).sum(axis=1), kind="stable")[:lanes]
    shown = np.sort(worst)
    scale = 0.86 / max(counts.max(), expected + chance)
    edges = np.linspace(0, 100, bins + 1)
    for lane, chain in enumerate(shown[::-1]):
        bottom = max(expected - chance, 0.0)
        band = (0, lane + scale * bottom)
        axes.add_patch(Rectangle(band, 100, scale * (expected + chance - bottom), color=canvas.BAND, lw=0))
        axes.bar(
            edges[:-1], scale * counts[chain], width=0.86 * np.diff(edges), bottom=lane, align="edge",
            color=canvas.color_of(int(chain)), alpha=0.75,
        )  # fmt: skip
        axes.hlines(lane + scale * expected, 0, 100, color=canvas.INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_yticks(np.arange(lanes) + 0.4, [f"chain {chain}" for chain in shown[::-1]])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.02, lanes)
    axes.set_xlabel("rank among the draws of all chains, in %")
    return axes


def convergence_plot(
    rhat: np.ndarray, ess_bulk: np.ndarray, *, num_chains: int, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """How R-hat and effective sample size are spread over many quantities, with the limits to keep.

    Args:
        rhat: R-hat, ``[quantity]``; NaN where it cannot be told.
        ess_bulk: effective sample sizes in the bulk, ``[quantity]``; NaN where they cannot be told.
        num_chains: on which the limit of the effective sample size depends.
        axes: two of them; a new figure when None.

    Returns:
        The axes of R-hat and those of the effective sample sizes.
    """
    upper, lower = canvas.several_axes(axes, 2, 1, height=3.6)
    known = canvas.finite(rhat)
    if known.size:
        _against_limit(upper, known, limit=LARGEST_RHAT, good_below=True)
        infinite = int(np.isinf(rhat).sum())
        beyond = f"; {infinite} infinite, not drawn" if infinite else ""
        upper.set_xlabel(f"R-hat (should be left of the line{beyond})")
    else:
        why = "R-hat needs two chains." if num_chains < 2 else "R-hat: too few different draws."
        canvas.say_instead(upper, why)
    known = canvas.finite(ess_bulk)
    if known.size:
        limit = float(FEWEST_EFFECTIVE_DRAWS_PER_CHAIN * num_chains)
        _against_limit(lower, known, limit=limit, good_below=False)
        lower.set_xlabel("effective draws (should be right of the line)")
    else:
        canvas.say_instead(lower, "Effective draws: too few different draws.")
    return [upper, lower]


def _effective_draws_of_a_chain(values: np.ndarray) -> float:
    """Median over the chains, each by itself: their disagreement must not widen the band of chance."""
    alone = canvas.finite(effective_draws(values.T[None]))
    return float(np.median(alone)) if alone.size else float(values.shape[1])


def _against_limit(axes: Axes, values: np.ndarray, *, limit: float, good_below: bool) -> None:
    low, high = (1.0, limit) if good_below else (0.0, limit)
    low, high = min(low, values.min()), max(high, values.max())
    room = 0.06 * (high - low)
    low, high = (low - room, high + room) if good_below else (0.0, high + room)
    bins = np.linspace(low, high, 41)
    good = values <= limit if good_below else values >= limit
    axes.hist([values[good], values[~good]], bins=list(bins), stacked=True, color=[canvas.SERIES[0], canvas.BAD])
    axes.axvline(limit, color=canvas.GOOD, linewidth=1.4)
    axes.set_xlim(low, high)
    axes.set_ylabel("predictions")
    axes.yaxis.set_major_locator(MaxNLocator(3, integer=True))
