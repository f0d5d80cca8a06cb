"""Pictures of convergence: traces, ranks, R-hat and effective sample sizes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from ergonet.diagnostics.advice import LARGEST_RHAT, SMALLEST_ESS_PER_CHAIN
from ergonet.diagnostics.chains import ess_bulk as effective_draws
from ergonet.plots import canvas

_MOST_POINTS = 500
_MOST_STRIPS = 16


def log_posterior_trace(
    log_posterior: np.ndarray, warmup: np.ndarray | None = None, *, axes: Axes | None = None
) -> Axes:
    """Plot the log posterior density, draw by draw, with the warm-up to the left of 0.

    The vertical range is that of the stored draws; a warm-up that starts far below it is cut off.

    Args:
        log_posterior: log density of the stored draws up to a constant, ``[chain, draw]``.
        warmup: log density of the warm-up draws, ``[chain, draw]``, or None.
        axes: axes to draw on; None makes a new figure.

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


def rank_plot(
    values: np.ndarray, weights: np.ndarray | None = None, *, bins: int = 20, axes: Axes | None = None
) -> Axes:
    """Plot histograms of the ranks of each chain's draws among the draws of all chains, one strip per chain.

    Level histograms mean that the chains explore the same values. The band shows two standard deviations of chance
    variation at the effective sample size of a chain. With more than 16 chains, the 16 with the least level histograms
    are shown.

    Args:
        values: one quantity, ``[chain, draw]``.
        weights: weight of each draw, ``[chain, draw]``, at least 0, which ranks and bars count; None: all are equal.
            Chains of weight 0 are not shown.
        bins: number of bins; reduced so that each has at least ten draws on average.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    weights = np.ones(values.shape) if weights is None else np.atleast_2d(np.asarray(weights, np.float64))
    numbers = np.flatnonzero(weights.any(axis=1))
    values, weights = values[numbers], weights[numbers]
    num_chains, num_draws = len(numbers), int((weights > 0).sum(axis=1).min(initial=values.shape[1]))
    strips = min(num_chains, _MOST_STRIPS)
    axes = canvas.single_axes(axes, height=max(3.1, 0.8 + 0.4 * strips))
    counted = values[weights > 0]
    if num_chains < 2:
        return canvas.say_instead(axes, "Ranks compare chains, but there is only one.")
    if num_draws < 8 or not np.isfinite(counted).all() or counted.min() == counted.max():
        return canvas.say_instead(axes, "Too few distinct draws to compare ranks.")
    bins = max(2, min(bins, num_draws // 10))
    ranks = _ranks(values, weights)
    shares = weights / weights.sum(axis=1, keepdims=True)
    counts = num_draws * np.stack(
        [np.histogram(chain, bins=bins, range=(0, 1), weights=one)[0] for chain, one in zip(ranks, shares, strict=True)]
    )
    expected = num_draws / bins
    inflation = max(1.0, num_draws / _effective_draws_of_a_chain(values, weights))
    chance = 2 * np.sqrt(expected * (1 - 1 / bins) * inflation)
    worst = np.argsort(-np.square(counts - expected).sum(axis=1), kind="stable")[:strips]
    shown = np.sort(worst)
    scale = 0.86 / max(counts.max(), expected + chance)
    edges = np.linspace(0, 100, bins + 1)
    for strip, chain in enumerate(shown[::-1]):
        bottom = max(expected - chance, 0.0)
        band = (0, strip + scale * bottom)
        axes.add_patch(Rectangle(band, 100, scale * (expected + chance - bottom), color=canvas.BAND, lw=0))
        axes.bar(
            edges[:-1], scale * counts[chain], width=0.86 * np.diff(edges), bottom=strip, align="edge",
            color=canvas.color_of(int(numbers[chain])), alpha=0.75,
        )  # fmt: skip
        axes.hlines(strip + scale * expected, 0, 100, color=canvas.INK, linewidth=0.8, linestyle=(0, (3, 2)))
    axes.set_yticks(np.arange(strips) + 0.4, [f"chain {chain}" for chain in numbers[shown[::-1]]])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlim(0, 100)
    axes.set_ylim(-0.02, strips)
    axes.set_xlabel("rank among the draws of all chains, in %")
    return axes


def convergence_plot(
    rhat: np.ndarray, ess_bulk: np.ndarray, *, num_chains: int, axes: Sequence[Axes] | None = None
) -> list[Axes]:
    """Plot histograms of R-hat and ESS over many quantities, with their recommended limits.

    Args:
        rhat: R-hat, ``[quantity]``; NaN where it cannot be computed.
        ess_bulk: bulk ESS, ``[quantity]``; NaN where it cannot be computed.
        num_chains: number of chains, which determines the limit on the ESS.
        axes: two axes to draw on; None makes a new figure.

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
        why = "R-hat needs two chains." if num_chains < 2 else "R-hat: too few distinct draws."
        canvas.say_instead(upper, why)
    known = canvas.finite(ess_bulk)
    if known.size:
        limit = float(SMALLEST_ESS_PER_CHAIN * num_chains)
        _against_limit(lower, known, limit=limit, good_below=False)
        lower.set_xlabel("effective draws (should be right of the line)")
    else:
        canvas.say_instead(lower, "Effective draws: too few distinct draws.")
    return [upper, lower]


def _ranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The share of the weight below each draw and half of that of equal draws, 0 to 1."""
    _, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place.reshape(-1), weights=weights.reshape(-1))
    return ((np.cumsum(mass) - mass / 2) / mass.sum())[place].reshape(values.shape)


def _effective_draws_of_a_chain(values: np.ndarray, weights: np.ndarray) -> float:
    """Median ESS of single chains, so that disagreement between chains does not widen the band."""
    chains = zip(values, weights, strict=True)
    alone = canvas.finite(np.array([effective_draws(one[None, :, None], each[None])[0] for one, each in chains]))
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
