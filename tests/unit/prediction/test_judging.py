"""CRPS, bands of the transform, risk by coverage, sharpness and recalibration, against closed forms."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from ergonet._errors import DataError, SettingError
from ergonet.prediction.calibration import reliability_curve
from ergonet.prediction.crps import laplace_crps, logistic_crps, mixture_crps, normal_crps
from ergonet.prediction.ecdf import transform_curve
from ergonet.prediction.probabilities import power
from ergonet.prediction.recalibration import recalibrate_classes, recalibrate_levels
from ergonet.prediction.scores import sample_crps
from ergonet.prediction.selective import risk_coverage, sharpness


def integral(cdf, truth):
    below, _ = integrate.quad(lambda y: cdf(y) ** 2, -60, truth, limit=200)
    above, _ = integrate.quad(lambda y: (1 - cdf(y)) ** 2, truth, 60, limit=200)
    return below + above


@pytest.mark.parametrize(
    ("score", "distribution"),
    [(normal_crps, stats.norm), (laplace_crps, stats.laplace), (logistic_crps, stats.logistic)],
)
def test_closed_forms_are_the_integral(score, distribution):
    for truth in (-1.0, 0.7, 4.0):
        assert score(0.5, 1.7, truth) == pytest.approx(integral(distribution(0.5, 1.7).cdf, truth), rel=1e-6)
    with pytest.raises(DataError, match="above 0"):
        score(0.0, 0.0, 1.0)


def test_the_score_of_a_mixture_is_the_integral_and_that_of_its_draws():
    means, sds = np.array([[0.0], [3.0]]), np.array([[1.0], [0.5]])
    weights = np.array([0.3, 0.7])
    found = mixture_crps(means, sds, np.array([1.0]), weights)

    def cdf(y):
        return weights @ stats.norm.cdf(y, means[:, 0], sds[:, 0])

    assert found[0] == pytest.approx(integral(cdf, 1.0), rel=1e-6)
    np.testing.assert_allclose(mixture_crps(means[:1], sds[:1], np.array([0.4])), normal_crps(0.0, 1.0, 0.4))
    rng = np.random.default_rng(0)
    member = rng.choice(2, 20_000, p=weights)
    draws = rng.normal(means[member, 0], sds[member, 0])[:, None, None]
    assert sample_crps(draws, np.array([[1.0]]))["crps"] == pytest.approx(found[0], abs=0.03)


@pytest.mark.parametrize("rows", [10, 300])
def test_the_band_contains_uniform_samples_as_often_as_it_says(rows):
    """300 samples: a binomial standard deviation of 1.3 % at 95 %; the band of few rows is wider, never narrower."""
    rng = np.random.default_rng(4)
    inside = np.mean([transform_curve(rng.uniform(size=rows)).is_calibrated for _ in range(300)])
    assert inside > 0.95 - 4 * 0.0126
    assert inside < 0.95 + 4 * 0.0126


def test_the_band_finds_intervals_that_are_too_narrow_and_shifts():
    rng = np.random.default_rng(5)
    y = rng.normal(size=400)
    assert not transform_curve(stats.norm.cdf(y / 0.7)).is_calibrated
    assert not transform_curve(stats.norm.cdf(y - 0.3)[:, None]).is_calibrated
    with pytest.raises(SettingError, match="2 targets"):
        transform_curve(np.zeros((5, 2)))
    with pytest.raises(SettingError, match="probability"):
        transform_curve(y, probability=1.0)


def test_risk_by_coverage_by_hand():
    found = risk_coverage(np.array([0.1, 0.3, 0.2, 0.4]), np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(found.coverage, [0.25, 0.5, 0.75, 1])
    np.testing.assert_allclose(found.risk, [0, 0, 1 / 3, 0.5])
    assert found.excess == pytest.approx(0.0)
    assert found.at(0.5) == 0.0
    assert found.at(1.0) == 0.5
    worst = risk_coverage(np.array([4, 3, 2, 1]), np.array([0, 0, 1, 1]))
    assert worst.excess == pytest.approx((1 + 1 + 2 / 3 + 0.5) / 4 - (0 + 0 + 1 / 3 + 0.5) / 4)
    tied = risk_coverage(np.zeros(4), np.array([1, 0, 0, 1]))
    np.testing.assert_allclose(tied.risk, 0.5)
    with pytest.raises(DataError, match="must match"):
        risk_coverage(np.zeros(3), np.zeros(2))
    with pytest.raises(SettingError, match="coverage"):
        tied.at(0.0)


def test_widths_and_interval_scores_by_hand():
    quantiles = np.array([0.0, 1.0, 2.0, 5.0])[:, None, None] * np.ones((4, 2, 1))
    found = sharpness(quantiles, [0.05, 0.25, 0.75, 0.95], np.array([[1.5], [6.0]]))
    assert list(found) == [0.5, 0.9]
    assert found[0.5]["width"] == 1.0
    assert found[0.5]["score"] == pytest.approx((1 + 1 + 4 * 4) / 2)
    assert found[0.9]["score"] == pytest.approx((5 + 5 + 20 * 1) / 2)
    with pytest.raises(SettingError, match="symmetric"):
        sharpness(quantiles[:2], [0.05, 0.25])


def simulated(rows, temperature, seed=0, scale=2):
    """Probabilities that are too sure by a temperature, and classes drawn from the right ones."""
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(rows, 3))
    right = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    stated = np.exp(temperature * logits)
    truth = (rng.random(rows)[:, None] > right.cumsum(axis=1)).sum(axis=1)
    return stated / stated.sum(axis=1, keepdims=True), truth, right


def test_planted_label_noise_is_found_beside_the_temperature():
    stated, truth, right = simulated(50_000, 0.7)
    rng = np.random.default_rng(1)
    wrong = rng.random(50_000) < 0.1
    truth[wrong] = rng.integers(0, 3, wrong.sum())
    found = recalibrate_classes(stated, truth)
    assert found.temperature == pytest.approx(0.7, rel=0.1)
    assert found.label_noise == pytest.approx(0.1, abs=0.02)
    np.testing.assert_allclose(found(stated), 0.9 * right + 0.1 / 3, atol=0.03)
    assert "label noise" in str(found)
    few = recalibrate_classes(stated[:60], truth[:60])
    assert (few.temperature, few.label_noise) == (1.0, 0.0)


def test_a_planted_temperature_is_found():
    stated, truth, right = simulated(5000, 2.5)
    found = recalibrate_classes(stated, truth)
    assert found.temperature == pytest.approx(2.5, rel=0.1)
    assert found.label_noise == 0
    np.testing.assert_allclose(found(stated), right, atol=0.03)
    assert reliability_curve(stated, truth).corrected > 0.1
    assert found.gain > 0.1
    assert "5000 held-out rows" in str(found)
    calibrated = recalibrate_classes(right, truth)
    assert (calibrated.temperature, calibrated.label_noise, calibrated.gain) == (1.0, 0.0, 0.0)
    with pytest.raises(SettingError, match="at least 50"):
        recalibrate_classes(stated[:10], truth[:10])


def test_what_few_rows_leave_open_makes_probabilities_less_sure_and_better():
    """Of rows with hardly a mistake; scored by the expectation over the right probabilities of many others."""
    gains, surer = [], 0
    for seed in range(100):
        stated, truth, _ = simulated(60, 0.4, seed, scale=6)
        new, _, right = simulated(500, 0.4, 1000 + seed, scale=6)
        most_likely: Any = optimize.minimize_scalar(
            lambda one, p=stated, y=truth: -np.log(power(p, np.exp(-one))[0][np.arange(60), y]).sum(),
            bounds=(-4, 4),
            method="bounded",
        )
        found = recalibrate_classes(stated, truth)
        if (found.temperature, found.label_noise) != (1.0, 0.0):
            surer += found.temperature < np.exp(most_likely.x)
            by_likelihood = power(new, np.exp(-most_likely.x))[0]
            gains.append((right * np.log(found(new) / by_likelihood)).sum(axis=1).mean())
    assert len(gains) >= 80
    assert surer < 0.05 * len(gains)
    assert np.mean(gains) > 0.005
    assert max(gains) > 5 * -min(gains)


def test_the_corrected_calibration_error_has_no_bias_of_bins():
    """Of right probabilities on few rows, the plain error is far from 0, and the mean square of the other is not."""
    plain, corrected = [], []
    for seed in range(200):
        _, truth, right = simulated(100, 1.0, seed)
        curve = reliability_curve(right, truth)
        plain.append(curve.expected_calibration_error)
        corrected.append(curve.corrected)
    assert np.mean(plain) > 0.05
    assert np.mean(np.array(corrected) == 0) > 0.3  # half of the estimates are below 0, and shown as 0
    assert np.mean(corrected) < np.mean(plain)


def test_the_band_holds_all_bins_of_right_probabilities_at_once():
    """In 95 % of tables, of which intervals of each bin on its own miss far more; wrong probabilities leave it."""
    inside, each = 0, 0
    for seed in range(400):
        _, truth, right = simulated(300, 1.0, seed)
        curve = reliability_curve(right, truth)
        used = curve.counts > 0
        assert np.isnan(curve.band_lower[~used]).all()
        inside += not curve.is_outside.any()
        each += np.all((curve.lower <= curve.confidence)[used] & (curve.confidence <= curve.upper)[used])
    assert stats.binom.cdf(inside, 400, 0.95) > 1e-3
    assert inside < 400
    assert each < 340
    stated, truth, _ = simulated(300, 2.5)
    assert reliability_curve(stated, truth).is_outside.any()


def test_levels_are_recalibrated():
    """The model states half of the right standard deviation: its 95 % quantile is too low."""
    y = np.random.default_rng(6).normal(size=20_000)
    found = recalibrate_levels(stats.norm.cdf(y / 0.5))
    wanted = np.array([0.05, 0.5, 0.95])
    quantiles = stats.norm.ppf(found(wanted)) * 0.5
    np.testing.assert_allclose(quantiles, stats.norm.ppf(wanted), atol=0.05)
    grid = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(found.transform(stats.norm.cdf(grid / 0.5)), stats.norm.cdf(grid), atol=0.015)
    assert "20000 held-out rows" in str(found)
    with pytest.raises(SettingError, match="between 0 and 1"):
        found([0.0])
