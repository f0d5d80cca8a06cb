"""Scores of classifiers against values worked out by hand and constructions with a known answer."""

import numpy as np
import pytest

from ergonet._errors import DataError, SettingError
from ergonet.prediction.calibration import reliability_curve, wilson_interval
from ergonet.prediction.scores import classification_scores


def test_hand_computed_scores():
    probabilities = np.asarray([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.9, 0.1]])
    truth = np.asarray([0, 1, 0, 0])
    scores = classification_scores(probabilities, truth)
    assert scores["error"] == 0.25
    assert scores["error_standard_error"] == pytest.approx(np.sqrt(0.25 * 0.75 / 3))
    surprise = -np.log([0.8, 0.6, 0.3, 0.9])
    assert scores["nll"] == pytest.approx(surprise.mean())
    assert scores["nll_standard_error"] == pytest.approx(surprise.std(ddof=1) / 2)
    # One row in each bin: |1 - .8|, |1 - .6|, |0 - .7|, |1 - .9|.
    assert scores["calibration"] == pytest.approx((0.2 + 0.4 + 0.7 + 0.1) / 4)
    assert scores["brier"] == pytest.approx((2 * 0.04 + 2 * 0.16 + 2 * 0.49 + 2 * 0.01) / 4)


def test_a_perfectly_calibrated_construction_has_no_calibration_error():
    # Ten rows at each of three confidences, right exactly as often as they say.
    confidence = np.repeat([0.6, 0.7, 0.9], 10)
    right = np.concatenate([np.arange(10) < count for count in (6, 7, 9)])
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    scores = classification_scores(probabilities, np.where(right, 0, 1))
    assert scores["calibration"] == pytest.approx(0.0, abs=1e-12)


def test_overconfidence_is_measured_in_full():
    probabilities = np.tile([0.95, 0.05], (100, 1))
    truth = (np.arange(100) >= 60).astype(int)
    curve = reliability_curve(probabilities, truth)
    assert curve.expected_calibration_error == pytest.approx(0.35)
    # At one confidence it is the standard error of the accuracy.
    assert curve.expected_calibration_error_standard_error == pytest.approx(np.sqrt(0.6 * 0.4 / 99))


def test_calibration_error_shrinks_to_zero_for_truths_drawn_from_the_predictions():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.ones(4), size=40_000)
    truth = (random.random(40_000)[:, None] > probabilities.cumsum(axis=1)).sum(axis=1).clip(0, 3)
    assert classification_scores(probabilities, truth)["calibration"] < 0.01


def test_curve_counts_every_row_once_and_marks_empty_bins():
    probabilities = np.asarray([[1.0, 0.0], [0.5, 0.5], [0.55, 0.45]])
    curve = reliability_curve(probabilities, np.asarray([0, 0, 1]), bins=4)
    np.testing.assert_array_equal(curve.counts, [0, 1, 1, 1])
    np.testing.assert_allclose(curve.confidence, [np.nan, 0.5, 0.55, 1.0])
    np.testing.assert_allclose(curve.accuracy, [np.nan, 1.0, 0.0, 1.0])
    assert np.isnan(curve.lower[0])
    assert (curve.lower[1:] <= curve.accuracy[1:] + 1e-12).all()
    assert (curve.upper[1:] >= curve.accuracy[1:] - 1e-12).all()


def test_wilson_interval_against_a_published_value():
    # 15 of 148: Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
    lower, upper = wilson_interval(np.asarray([15.0]), np.asarray([148]))
    np.testing.assert_allclose([lower[0], upper[0]], [0.0624, 0.1605], atol=5e-5)


def test_an_impossible_truth_costs_much_but_not_infinitely():
    scores = classification_scores(np.asarray([[1.0, 0.0]]), np.asarray([1]))
    assert scores["nll"] == pytest.approx(87.34, abs=0.01)
    assert scores["error"] == 1.0
    assert np.isnan(scores["error_standard_error"])


@pytest.mark.parametrize(
    ("probabilities", "truth", "pattern"),
    [
        (np.full((3, 2), 0.5), np.zeros(2, int), "each of the 3 rows"),
        (np.full((3, 2), 0.5), np.zeros(3), "float64"),
        (np.full((2, 2), 0.5), np.asarray([0, 2]), "class 2 in row 1; classes run from 0 to 1"),
        (np.asarray([[0.5, 0.5], [0.5, 0.7]]), np.zeros(2, int), "not a distribution in row 1"),
        (np.asarray([[0.5, np.nan]]), np.zeros(1, int), r"nan at index \(0, 1\)"),
        (np.zeros((0, 2)), np.zeros(0, int), "empty"),
        (np.zeros(4), np.zeros(4, int), "2 dimensions"),
    ],
)
def test_bad_arrays_are_named(probabilities, truth, pattern):
    with pytest.raises(DataError, match=pattern):
        classification_scores(probabilities, truth)


def test_no_bins_is_refused():
    with pytest.raises(SettingError, match="`bins`"):
        classification_scores(np.full((3, 2), 0.5), np.zeros(3, int), bins=0)
