"""Scores of regressors against values worked out by hand and normal predictions with a known answer."""

import numpy as np
import pytest
from scipy import stats

from ergonet._errors import DataError, SettingError
from ergonet.prediction.calibration import coverage_curve
from ergonet.prediction.scores import regression_scores

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def normal_predictions(rows=20_000, stated_sd=1.0, seed=0):
    random = np.random.default_rng(seed)
    mean = random.normal(size=(rows, 1))
    truth = mean + random.normal(size=(rows, 1))
    quantiles = mean + stated_sd * stats.norm.ppf(LEVELS)[:, None, None]
    return mean, truth, stats.norm.logpdf(truth[:, 0], mean[:, 0], stated_sd), quantiles


def test_hand_computed_scores():
    mean = np.asarray([[0.0], [0.0]])
    truth = np.asarray([[3.0], [1.0]])
    quantiles = np.asarray([[[-1.0], [-1.0]], [[1.5], [1.5]]])
    scores = regression_scores(mean, truth, np.asarray([-4.0, -2.0]), quantiles, (0.05, 0.95))
    assert scores["rmse"] == pytest.approx(np.sqrt(5.0))
    # Squares 9 and 1: standard error of their mean 4, of the root 4 / (2 sqrt 5).
    assert scores["rmse_standard_error"] == pytest.approx(2 / np.sqrt(5))
    assert scores["nll"] == 3.0
    assert scores["nll_standard_error"] == pytest.approx(1.0)
    assert scores["coverage_90"] == 0.5
    assert scores["calibration"] == pytest.approx(0.4)
    assert scores["calibration_standard_error"] == pytest.approx(0.5)


def test_right_normal_predictions_score_as_theory_says():
    scores = regression_scores(*normal_predictions(), LEVELS)
    for name, expected in (("rmse", 1.0), ("nll", 0.5 * np.log(2 * np.pi) + 0.5)):
        assert abs(scores[name] - expected) < 4 * scores[f"{name}_standard_error"]
    # Standard error of a mean square of normals is sqrt(2 / n), of its root half of that.
    assert scores["rmse_standard_error"] == pytest.approx(np.sqrt(2 / 20_000) / 2, rel=0.05)
    assert scores["calibration"] < 0.015
    assert scores["coverage_90"] == pytest.approx(0.9, abs=0.01)


def test_too_narrow_intervals_cover_as_theory_says():
    scores = regression_scores(*normal_predictions(stated_sd=0.5), LEVELS)
    expected = [stats.norm.cdf(0.5 * z) - stats.norm.cdf(-0.5 * z) for z in stats.norm.ppf([0.75, 0.95])]
    assert scores["coverage_90"] == pytest.approx(expected[1], abs=0.015)
    assert scores["calibration"] == pytest.approx(np.mean([0.5 - expected[0], 0.9 - expected[1]]), abs=0.015)


def test_curve_pairs_levels_in_any_order_and_leaves_lonely_ones_out():
    mean, truth, _, quantiles = normal_predictions(500)
    order = [4, 2, 0, 3, 1]
    shuffled = coverage_curve(quantiles[order], [LEVELS[i] for i in order], truth)
    np.testing.assert_allclose(shuffled.nominal, [0.5, 0.9])
    np.testing.assert_allclose(shuffled.coverage, coverage_curve(quantiles, LEVELS, truth).coverage)
    assert coverage_curve(quantiles[:4], LEVELS[:4], truth).nominal.tolist() == [0.5]
    assert (shuffled.lower < shuffled.coverage).all()
    assert (shuffled.coverage < shuffled.upper).all()
    assert mean.shape == truth.shape


def test_several_targets_are_averaged():
    truth = np.zeros((4, 2))
    quantiles = np.stack([np.full((4, 2), -1.0), np.full((4, 2), 1.0)])
    quantiles[:, :, 1] += 5.0  # never holds the second target
    assert coverage_curve(quantiles, (0.1, 0.9), truth).coverage.tolist() == [0.5]


def test_coverage_of_ninety_is_left_out_where_it_is_not_known():
    mean, truth, density, quantiles = normal_predictions(50)
    assert "coverage_90" not in regression_scores(mean, truth, density, quantiles[1:4], LEVELS[1:4])


def test_perfect_predictions_have_no_error_and_no_uncertainty_of_it():
    truth = np.arange(4.0)[:, None]
    scores = regression_scores(truth, truth, np.zeros(4), np.stack([truth - 1, truth + 1]), (0.1, 0.9))
    assert scores["rmse"] == scores["rmse_standard_error"] == 0.0


def test_bad_arrays_are_named():
    mean, truth, density, quantiles = normal_predictions(10)
    with pytest.raises(DataError, match=r"log_density.*\(10, 1\).*\(9,\)"):
        regression_scores(mean, truth, density[:9], quantiles, LEVELS)
    with pytest.raises(DataError, match=r"`quantiles` must have shape .*\(5, 10, 1\)"):
        regression_scores(mean, truth, density, quantiles[:4], LEVELS)
    with pytest.raises(DataError, match="`mean` is empty"):
        regression_scores(mean[:0], truth[:0], density[:0], quantiles[:, :0], LEVELS)
    with pytest.raises(SettingError, match="symmetric about 1/2"):
        coverage_curve(quantiles[:2], LEVELS[:2], truth)
