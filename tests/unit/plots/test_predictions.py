"""Pictures of predictions: points where the numbers are, misses told apart, names as they are."""

# Matplotlib types what its artists hold as anything that might become an array.
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false

import io

import numpy as np
import pytest

from ergonet import plots
from ergonet.plots import canvas
from ergonet.plots.images import entropy, most_uncertain
from ergonet.prediction.calibration import coverage_curve, reliability_curve


def saved(axes):
    file = io.StringIO()
    axes.figure.savefig(file, format="svg")
    return file.getvalue()


def test_reliability_points_are_those_of_the_curve():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(3), size=300)
    curve = reliability_curve(probabilities, random.integers(0, 3, size=300))
    axes = plots.reliability_diagram(curve)
    _, points, outside = axes.get_lines()
    used = curve.counts > 0
    np.testing.assert_allclose(points.get_xdata(), curve.confidence[used])
    np.testing.assert_allclose(points.get_ydata(), curve.accuracy[used])
    np.testing.assert_allclose(outside.get_ydata(), curve.accuracy[curve.is_outside])
    (band,) = axes.collections
    ends = np.array([segment[:, 1] for segment in band.get_segments()])
    np.testing.assert_allclose(ends, np.column_stack([curve.band_lower, curve.band_upper])[used])
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1.0)


def test_coverage_points_are_those_of_the_curve():
    truth = np.random.default_rng(0).normal(size=(100, 1))
    quantiles = np.broadcast_to(np.asarray([-1.6, -0.7, 0.7, 1.6])[:, None, None], (4, 100, 1))
    curve = coverage_curve(quantiles, (0.05, 0.25, 0.75, 0.95), truth)
    points = plots.coverage_plot(curve).get_lines()[1]
    np.testing.assert_allclose(points.get_xdata(), [0.5, 0.9])
    np.testing.assert_allclose(points.get_ydata(), curve.coverage)


def test_misses_are_counted_and_colored():
    mean, truth = np.asarray([0.0, 1.0, 2.0]), np.asarray([0.5, 3.0, 2.0])
    axes = plots.prediction_vs_truth(mean, truth, mean - 1, mean + 1, name="cost in $ of $5")
    labels = {line.get_label(): line for line in axes.get_lines()}
    np.testing.assert_array_equal(labels["truth inside: 2"].get_xdata(), [0.5, 2.0])
    assert labels["truth outside: 1"].get_color() == canvas.BAD
    assert "cost in $ of $5" in axes.get_xlabel()
    saved(axes)


def test_many_rows_are_thinned_evenly():
    truth = np.random.default_rng(0).permutation(5000).astype(float)
    axes = plots.prediction_vs_truth(truth, truth, truth - 1, truth + 1)
    shown = axes.get_lines()[1].get_xdata()
    assert len(shown) == 400
    assert (shown.min(), shown.max()) == (0, 4999)
    assert np.diff(shown).max() <= 13


def test_residuals_are_in_units_of_the_stated_spread():
    axes = plots.residual_plot(np.asarray([1.0, 2.0]), np.asarray([2.0, 8.0]), np.asarray([2.0, 2.0]))
    near, far = axes.get_lines()[1:]
    assert near.get_ydata().tolist() == [0.5]
    assert far.get_ydata().tolist() == [3.0]
    assert far.get_color() == canvas.BAD
    assert axes.get_ylim()[1] > 3.0


def test_nothing_to_compare_is_said():
    none = np.empty(0)
    assert "No rows" in saved(plots.prediction_vs_truth(none, none, none, none))
    assert "No rows" in saved(plots.residual_plot(np.ones(2), np.ones(2), np.zeros(2)))


def test_most_uncertain_images_come_first_with_their_names():
    probabilities = np.asarray([[1.0, 0.0, 0.0], [0.4, 0.3, 0.3], [0.6, 0.4, 0.0]])
    images = np.arange(3 * 4).reshape(3, 2, 2)
    cells = plots.uncertain_images(
        images, probabilities, np.asarray([0, 0, 1]), class_names=["a $x_$", "b", "c"], count=2
    )
    assert [cell.get_title() for cell in cells] == ["truth a $x_$", "truth b"]
    np.testing.assert_array_equal(cells[0].get_images()[0].get_array(), images[1])
    assert cells[1].get_xlabel() == "a $x_$: 60 %, b: 40 %"
    assert cells[0].title.get_color() == canvas.GOOD
    assert cells[1].title.get_color() == canvas.BAD
    saved(cells[0])


def test_entropy_is_zero_for_certainty_and_greatest_for_a_guess():
    np.testing.assert_allclose(
        entropy(np.asarray([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])), [0.0, np.log(2), 0.0], atol=1e-15
    )
    assert most_uncertain(np.asarray([[0.9, 0.1], [0.5, 0.5], [0.6, 0.4]]), 5).tolist() == [1, 2, 0]


def test_long_names_are_cut():
    assert canvas.short("word\n" * 20) == "word word word word word word..."[:29] + "..."
    assert len(canvas.short("x" * 100)) == 32
