"""Draws that count by weight: moments are exact, effective sample sizes have a closed form, copies count as copies."""

import numpy as np
import pytest

from ergonet import diagnostics
from ergonet._errors import SettingError
from ergonet.diagnostics.averages import EqualDraws, WeightedDraws, estimates


def autoregressive(shape, correlation, rng):
    noise = rng.normal(size=shape) * np.sqrt(1 - correlation**2)
    values = np.empty(shape)
    values[:, 0] = rng.normal(size=(shape[0], shape[2]))
    for draw in range(1, shape[1]):
        values[:, draw] = correlation * values[:, draw - 1] + noise[:, draw]
    return values


def copied(values, weights):
    """Each draw as often as its weight says; chains have equal sums of weights."""
    return np.stack([np.repeat(one, count, axis=0) for one, count in zip(values, weights, strict=True)])


@pytest.mark.parametrize("draws", [40, 41])
def test_equal_weights_give_what_arviz_gives(draws):
    values = autoregressive((3, draws, 5), 0.6, np.random.default_rng(0))
    values[:, :, 4] = np.round(values[:, :, 4])  # ties
    ours, theirs = WeightedDraws(np.full((3, draws), 7.0)), EqualDraws()
    for name, tolerance in (("mean", 1e-10), ("sd", 1e-10), ("mcse_mean", 1e-10), ("ess_bulk", 0.02), ("rhat", 0.02)):
        exact = 1e-10 if name == "ess_bulk" and draws == 40 else tolerance  # ours ranks the draw in the middle, too
        np.testing.assert_allclose(getattr(ours, name)(values), getattr(theirs, name)(values), rtol=exact, atol=1e-12)
    assert isinstance(estimates(np.full((3, draws), 7.0)), EqualDraws)


def test_moments_and_quantiles_of_weighted_draws_are_those_of_copies():
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(2, 30, 4)), rng.integers(0, 4, size=(2, 30))
    flat, copies = WeightedDraws(weights.astype(float)), np.repeat(values.reshape(-1, 4), weights.reshape(-1), axis=0)
    np.testing.assert_allclose(flat.mean(values), copies.mean(axis=0))
    np.testing.assert_allclose(flat.sd(values), copies.std(axis=0))
    for level in (0.05, 0.5, 0.95):
        expected = np.quantile(copies, level, axis=0, method="inverted_cdf")
        np.testing.assert_array_equal(flat.quantile(values, level), expected)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_precision_of_weighted_draws_is_that_of_copies(correlation):
    """A chain with every draw copied as often as its weight says has the same mean, and so the same error."""
    rng = np.random.default_rng(2)
    values = autoregressive((4, 3000, 6), correlation, rng)
    weights = np.stack([rng.permutation(np.repeat([0, 1, 2, 3], 750)) for _ in range(4)])
    copies = copied(values, weights)
    for name, tolerance in (("ess_bulk", 0.1), ("ess_tail", 0.15), ("mcse_mean", 0.06)):
        found, expected = getattr(diagnostics, name)(values, weights), getattr(diagnostics, name)(copies)
        assert found.mean() == pytest.approx(expected.mean(), rel=tolerance), name
    np.testing.assert_allclose(diagnostics.rhat(values, weights), diagnostics.rhat(copies), atol=2e-3)


@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_effective_draws_have_the_closed_form(correlation):
    """With weights that do not depend on the draws: n w^2 / (E w^2 + 2 w^2 sum rho_t), where w is the mean weight."""
    rng = np.random.default_rng(3)
    values, weights = autoregressive((4, 5000, 8), correlation, rng), rng.gamma(0.5, size=(4, 5000))
    mean, square = 0.5, 0.5 * 1.5  # of a gamma distribution of shape 1/2
    expected = 20000 * mean**2 / (square + 2 * mean**2 * correlation / (1 - correlation))
    assert diagnostics.ess_bulk(values, weights).mean() == pytest.approx(expected, rel=0.08)
    error = diagnostics.mcse_mean(values, weights)
    np.testing.assert_allclose(error.mean(), 1 / np.sqrt(expected), rtol=0.06)


def test_the_error_of_a_weighted_mean_is_what_repetition_shows():
    rng = np.random.default_rng(4)
    values = autoregressive((1, 400, 2000), 0.5, rng)
    weights = (1.0 + np.arange(400.0))[None] ** -0.55  # a polynomial schedule
    spread = WeightedDraws(weights).mean(values).std()
    assert np.sqrt(np.mean(diagnostics.mcse_mean(values, weights) ** 2)) == pytest.approx(spread, rel=0.12)


def test_draws_without_weight_neither_help_nor_harm():
    """Large steps of a cycle are far off, and count nothing."""
    rng = np.random.default_rng(5)
    values, weights = rng.normal(size=(4, 600, 1)), np.tile([0.0, 0.0, 1.0, 0.5], (4, 150))
    values[:, 0::4] *= 100.0
    values[0, 1::4] += 1e3
    kept, others = values[weights > 0].reshape(4, 300, 1), weights[weights > 0].reshape(4, 300)
    assert diagnostics.rhat(values, weights) == pytest.approx(diagnostics.rhat(kept, others), abs=5e-3)
    assert diagnostics.rhat(values, weights)[0] < 1.02 < diagnostics.rhat(values)[0]
    assert diagnostics.ess_bulk(values, weights) == pytest.approx(diagnostics.ess_bulk(kept, others), rel=0.1)
    assert WeightedDraws(weights).sd(values)[0] < 1.2


def test_weighted_chains_around_different_means_have_a_large_rhat():
    values = np.random.default_rng(6).normal(size=(4, 500, 1)) + 2.0 * np.arange(4)[:, None, None]
    assert diagnostics.rhat(values, np.tile([0.0, 1.0], (4, 250)))[0] > 1.5


def test_half_a_chain_without_weight_is_left_out():
    values = np.random.default_rng(7).normal(size=(3, 400, 2))
    weights = np.concatenate([np.zeros((3, 200)), np.tile([1.0, 0.3], (3, 100))], axis=1)
    assert np.isfinite(diagnostics.rhat(values, weights)).all()
    weights[0, 17] = 1.0  # of one draw there is no variance
    assert np.isfinite(diagnostics.rhat(values, weights)).all()
    few = np.zeros((3, 400))
    few[:, [0, 1]] = 1.0, 0.3
    few[1:, 1] = 0.0
    assert np.isnan(diagnostics.rhat(values, few)).all()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((2, 3)), r"shape \[2, 50\]"),
        (-np.ones((2, 50)), "at least 0"),
        (np.full((2, 50), np.nan), "at least 0"),
    ],
)
def test_impossible_weights_are_refused(weights, message):
    with pytest.raises(SettingError, match=message):
        diagnostics.ess_bulk(np.zeros((2, 50, 1)), weights)
