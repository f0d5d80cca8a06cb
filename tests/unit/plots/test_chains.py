"""Pictures of chains hold the numbers they are drawn from, and say so where there are too few."""

# Matplotlib types what its artists hold as anything that might become an array.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false

import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ergonet import plots
from ergonet.diagnostics import chain_map


def drawn(figure):
    """Every text of a figure, after it was really drawn."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return " | ".join(text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text")))


@pytest.fixture
def draws():
    return np.random.default_rng(0).normal(size=(4, 200))


def test_pictures_need_no_window_and_leave_no_global_figure(draws):
    plots.rank_plot(draws)
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_axes_that_are_given_are_drawn_on(draws):
    axes = Figure().subplots(1, 2)
    assert plots.rank_plot(draws, axes=axes[0]) is axes[0]
    assert plots.energy_plot(draws, axes=axes[1]) is axes[1]
    with pytest.raises(ValueError, match="2 axes for this picture, got 1"):
        plots.convergence_plot(np.ones(3), np.ones(3), num_chains=4, axes=[axes[0]])


def test_rank_bars_count_every_draw_of_every_chain(draws):
    axes = plots.rank_plot(draws, bins=10)
    bars = list(axes.containers)
    assert len(bars) == 4
    heights = np.asarray([[bar.get_height() for bar in strip] for strip in bars])
    # The scale is common to all strips, so each strip's sum stands for the same 200 draws.
    np.testing.assert_allclose(heights.sum(axis=1), heights.sum(axis=1)[0])
    # All chains together fill the ranks evenly.
    np.testing.assert_allclose(heights.sum(axis=0), heights.sum() / 10)


def test_a_chain_that_lies_apart_has_its_ranks_at_one_end(draws):
    draws[2] += 10
    axes = plots.rank_plot(draws, bins=4)
    strips = {
        label.get_text(): [bar.get_height() for bar in strip]
        for label, strip in zip(axes.get_yticklabels(), axes.containers, strict=True)
    }
    apart = np.asarray(strips["chain 2"])
    assert apart[3] > 0
    np.testing.assert_array_equal(apart[:3], 0)


def test_the_band_of_chance_does_not_widen_where_chains_disagree(draws):
    apart = draws + np.asarray([0.0, 0.0, 0.0, 3.0])[:, None]
    level, uneven = plots.rank_plot(draws, bins=4), plots.rank_plot(apart, bins=4)
    # Heights are scaled to the highest bar, so what is compared is the band against the dashed line.
    ratios = [axes.patches[0].get_height() / _expected(axes) for axes in (level, uneven)]
    assert ratios[0] == pytest.approx(ratios[1])


def _expected(axes):
    """Height of the dashed line above the foot of the lowest strip."""
    return axes.collections[0].get_segments()[0][0][1]


def heights(axes):
    """The bars of each strip by its name, in shares of the strip's."""
    labels = [label.get_text() for label in axes.get_yticklabels()]
    found = [np.asarray([bar.get_height() for bar in strip]) for strip in axes.containers]
    return {label: one / one.sum() for label, one in zip(labels, found, strict=True)}


def test_ranks_count_weights(draws):
    """As copies of each draw would, and without draws and chains of weight 0."""
    weights = np.stack([np.random.default_rng(chain).integers(0, 4, 200) for chain in range(4)])
    weights[:, :8] = 1
    values = np.where(weights > 0, draws, 1e6)
    found = heights(plots.rank_plot(values, weights.astype(float), bins=4))
    total = weights.sum()
    pooled = np.sort(np.concatenate([np.repeat(one, count) for one, count in zip(draws, weights, strict=True)]))
    for chain, (one, count) in enumerate(zip(draws, weights, strict=True)):
        ranks = np.searchsorted(pooled, np.repeat(one, count)) / total
        expected = np.histogram(ranks, bins=4, range=(0, 1))[0] / count.sum()
        np.testing.assert_allclose(found[f"chain {chain}"], expected, atol=0.03)
    weights[1] = 0
    assert list(heights(plots.rank_plot(values, weights.astype(float)))) == ["chain 3", "chain 2", "chain 0"]


def test_of_many_chains_the_least_level_are_shown():
    draws = np.random.default_rng(1).normal(size=(40, 60))
    draws[33] += 20
    axes = plots.rank_plot(draws)
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert len(labels) == 16
    assert "chain 33" in labels


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.random.default_rng(0).normal(size=(1, 100)), "only one"),
        (np.random.default_rng(0).normal(size=(4, 1)), "Too few"),
        (np.ones((4, 100)), "Too few"),
        (np.full((4, 100), np.nan), "Too few"),
    ],
)
def test_ranks_say_what_is_missing(values, said):
    assert said in drawn(plots.rank_plot(values).figure)


def test_trace_shows_warmup_left_of_zero_and_scales_to_kept_draws(draws):
    warmup = np.linspace(-1e6, 0, 50) * np.ones((4, 1))
    axes = plots.log_posterior_trace(draws, warmup)
    starts = [line.get_xdata()[0] for line in axes.get_lines() if len(line.get_xdata()) > 2]
    assert min(starts) == -49
    assert 1 in starts
    bottom, top = axes.get_ylim()
    assert bottom < draws.min() < draws.max() < top
    assert bottom > -100
    assert "warm-up" in drawn(axes.figure)


@pytest.mark.parametrize("values", [np.ones((1, 1)), np.ones((2, 30)), np.full((2, 5), np.nan), np.ones((1, 0))])
def test_trace_of_little_is_still_drawn(values):
    drawn(plots.log_posterior_trace(values).figure)


def test_long_traces_stay_small():
    axes = plots.log_posterior_trace(np.random.default_rng(0).normal(size=(2, 100_000)))
    assert all(len(line.get_xdata()) <= 500 for line in axes.get_lines())


def test_convergence_counts_all_known_quantities_and_marks_the_limits():
    rhat = np.asarray([1.0, 1.002, 1.05, np.nan])
    effective = np.asarray([500.0, 350.0, 800.0, np.nan])
    upper, lower = plots.convergence_plot(rhat, effective, num_chains=4)
    assert sum(patch.get_height() for patch in upper.patches) == pytest.approx(3)
    assert sum(patch.get_height() for patch in lower.patches) == pytest.approx(3)
    assert upper.get_lines()[0].get_xdata()[0] == 1.01
    assert lower.get_lines()[0].get_xdata()[0] == 400


def test_convergence_of_one_chain_says_that_rhat_is_not_known():
    upper, _ = plots.convergence_plot(np.full(3, np.nan), np.asarray([90.0, 120.0, 60.0]), num_chains=1)
    assert "R-hat needs two chains" in drawn(upper.figure)


def test_convergence_with_infinite_or_constant_numbers_is_drawn():
    upper, lower = plots.convergence_plot(np.asarray([np.inf, 1.0]), np.asarray([7.0, 7.0]), num_chains=2)
    assert "1 infinite, not drawn" in drawn(upper.figure)
    assert sum(patch.get_height() for patch in lower.patches) == pytest.approx(2)


def test_a_notebook_shows_every_new_figure_as_it_is(draws):
    figures = [plots.rank_plot(draws).figure, plots.convergence_plot(np.ones(3), np.ones(3), num_chains=2)[0].figure]
    for figure in figures:
        assert figure._repr_png_().startswith(b"\x89PNG")


def test_the_map_shows_every_chain_with_its_number_and_honest_axes():
    found = chain_map(np.random.default_rng(0).normal(size=(5, 100, 3)))
    assert found is not None
    axes = plots.chain_map_plot(found)
    assert [text.get_text() for text in axes.texts] == ["0", "1", "2", "3", "4"]
    drawn = np.array([line.get_xydata()[0] for line in axes.lines if line.get_markersize() == 8])
    np.testing.assert_allclose(drawn, found.points)
    assert axes.get_xlabel() == f"axis 1: {100 * found.shares[0]:.0f} % of squared distances"
    assert plots.chain_map_plot(None).texts


def test_intervals_of_chains_are_those_of_their_draws():
    values = np.random.default_rng(0).normal(size=(3, 100, 2))
    axes = plots.chain_intervals(values, ["row 3", "row 8"])
    assert [each.get_title(loc="left") for each in axes] == ["row 3", "row 8"]
    thin = axes[1].collections[2].get_segments()[0]
    np.testing.assert_allclose(thin[:, 0], np.quantile(values[1, :, 1], (0.05, 0.95)))
    assert len(plots.chain_intervals(np.ones((20, 2, 1)), ["constant"])[0].lines) == 16


def test_intervals_of_chains_count_weights():
    values, weights = np.random.default_rng(0).normal(size=(3, 100, 1)), np.ones((3, 100))
    weights[0], weights[1, :50] = 0.0, 0.0
    (axes,) = plots.chain_intervals(values, ["row 3"], weights)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2"]
    assert axes.lines[0].get_xdata()[0] == pytest.approx(values[1, 50:].mean())
    thin = axes.collections[0].get_segments()[0][:, 0]
    np.testing.assert_allclose(thin, np.quantile(values[1, 50:], (0.05, 0.95)), atol=0.3)
