"""Differences with their errors, what is called noise, and weights of models."""

import numpy as np
import pytest
from scipy import special, stats

from ergonet import comparison
from ergonet._errors import DataError, SettingError
from ergonet.comparison import Elpd

ROWS = 200


def estimates():
    rng = np.random.default_rng(0)
    base = rng.normal(-1.0, 0.5, ROWS)
    observed = np.arange(ROWS, dtype=float)[:, None]
    shifts = {"good": 0.0, "same": rng.normal(-0.01, 0.2, ROWS), "bad": rng.normal(-0.5, 0.3, ROWS)}
    return {name: Elpd("LOO", base + shift, observed) for name, shift in shifts.items()}


def test_differences_are_paired_and_noise_is_called_so():
    found = comparison.compare(estimates())
    assert found.names == ("good", "same", "bad")
    apart = found.pointwise[1] - found.pointwise[0]
    assert found.errors[1] == pytest.approx(np.sqrt(ROWS * apart.var(ddof=1)))
    assert found.differences[2] == pytest.approx(found.estimates[2].value - found.estimates[0].value)
    assert found.is_noise.tolist() == [True, True, False]
    text = str(found)
    assert "The difference of good and same is noise" in text
    assert text.splitlines()[4].endswith("worse")
    assert found.frame().loc["bad", "difference"] == pytest.approx(found.differences[2])


def test_a_small_difference_is_noise_whatever_its_error():
    known = estimates()["good"]
    other = Elpd("LOO", known.pointwise - 0.01, known.observed)  # 2 nats, with no error over rows
    assert comparison.compare({"one": known, "other": other}).is_noise.tolist() == [True, True]


def test_monte_carlo_errors_count():
    known = estimates()["good"]
    error = np.full(ROWS, 1.0)
    other = Elpd("LOO", known.pointwise - 0.1, known.observed, monte_carlo_error=error)
    found = comparison.compare({"one": known, "other": other})
    assert found.errors[1] == pytest.approx(np.sqrt(ROWS))
    assert found.is_noise[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: Elpd("WAIC", one.pointwise, one.observed), "by WAIC"),
        (lambda one: Elpd("LOO", one.pointwise[1:], one.observed[1:]), "199 and 200 rows|200 and 199 rows"),
        (lambda one: Elpd("LOO", one.pointwise, one.observed[::-1]), "targets of 200 of 200 rows differ, row 0"),
        (lambda one: Elpd("LOO", one.pointwise, np.repeat(one.observed, 2, 1)), "1 and 2 targets"),
    ],
)
def test_other_rows_are_refused(change, message):
    known = estimates()["good"]
    with pytest.raises(DataError, match=message):
        comparison.compare({"one": known, "other": change(known)})


def test_stacking_finds_the_best_average():
    """Each model is right about half of the rows; and a model twice shares its weight."""
    rng = np.random.default_rng(1)
    is_first = rng.random(400) < 0.7
    density = np.where([is_first, ~is_first], 0.0, -4.0)
    weights = comparison.stacking_weights(density)
    small = np.exp(-4)
    best = (is_first.mean() * (1 + small) - small) / (1 - small)  # where the derivative of the mean log score is 0
    np.testing.assert_allclose(weights, [best, 1 - best], atol=2e-3)
    twice = comparison.stacking_weights(density[[0, 0, 1]])
    np.testing.assert_allclose([twice[:2].sum(), twice[2]], weights, atol=2e-3)


def test_pseudo_bma_takes_the_uncertainty_of_the_sums_into_account():
    apart = np.random.default_rng(2).normal(size=100)
    apart = 0.1 + (apart - apart.mean()) / apart.std()  # a difference of 10 nats with an error of 10
    density = np.stack([apart, np.zeros(100)])
    expected = stats.norm.expect(special.expit, loc=10, scale=10)
    assert comparison.pseudo_bma_weights(density)[0] == pytest.approx(expected, abs=0.05)
    without = np.stack([np.full(100, 0.02), np.zeros(100)])  # a difference of 2 nats without any error
    assert comparison.pseudo_bma_weights(without)[0] == pytest.approx(1 / (1 + np.exp(-2)), abs=1e-6)


@pytest.mark.parametrize("density", [np.zeros((0, 3)), np.zeros(3), [[0.0, np.nan]]])
def test_densities_are_checked(density):
    with pytest.raises(SettingError, match=r"\[model, row\]"):
        comparison.stacking_weights(density)
