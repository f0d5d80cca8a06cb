"""R-hat and effective sample sizes are ArviZ's, in bounded memory, with degenerate cases told apart."""

import numpy as np
import pytest
from arviz_stats.base.array import array_stats

from ergonet import diagnostics
from ergonet._errors import SettingError
from ergonet.diagnostics import chains


def autoregressive(shape, correlation=0.7, seed=0):
    noise = np.random.default_rng(seed).normal(size=shape)
    values = np.empty(shape)
    values[:, 0] = noise[:, 0]
    for draw in range(1, shape[1]):
        values[:, draw] = correlation * values[:, draw - 1] + noise[:, draw]
    return values


@pytest.mark.parametrize("shape", [(4, 101, 7), (2, 50, 3), (1, 40, 2)])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (diagnostics.rhat, array_stats.rhat, {"method": "rank"}),
        (diagnostics.ess_bulk, array_stats.ess, {"method": "bulk"}),
        (diagnostics.ess_tail, array_stats.ess, {"method": "tail", "prob": (0.05, 0.95)}),
        (diagnostics.mcse_mean, array_stats.mcse, {"method": "mean"}),
    ],
)
def test_each_number_equals_arviz(monkeypatch, shape, ours, theirs, options):
    monkeypatch.setattr(chains, "_NUMBERS_IN_A_CHUNK", 2 * shape[0] * shape[1])  # two quantities at a time
    values = autoregressive(shape)
    expected = theirs(values, chain_axis=0, draw_axis=1, **options)
    np.testing.assert_allclose(ours(values), expected, rtol=1e-12)
    assert ours(values).shape == (shape[2],)


def test_chains_around_different_means_have_a_large_rhat_and_agreeing_ones_do_not():
    values = np.random.default_rng(1).normal(size=(4, 500, 2))
    values[0, :, 1] += 3.0
    agreeing, disagreeing = diagnostics.rhat(values)
    assert agreeing < 1.01
    assert disagreeing > 1.2


def test_correlated_draws_count_for_fewer():
    # An autoregression with correlation r has (1 - r) / (1 + r) effective draws per draw.
    effective = diagnostics.ess_bulk(autoregressive((4, 2000, 1), correlation=0.8))[0]
    assert effective == pytest.approx(8000 * 0.2 / 1.8, rel=0.25)


def slow_variogram_ess(values):
    """The formulas of Lau2018, section 2.7, as they are printed, for `[chain, draw]`."""
    m, n = values.shape
    within = np.mean([np.var(chain, ddof=1) for chain in values])
    between = n * np.var(values.mean(axis=1), ddof=1) if m > 1 else 0.0
    variance = (n - 1) / n * within + between / n

    def rho(t):
        total = sum((chain[i] - chain[i - t]) ** 2 for chain in values for i in range(t, n))
        return 1 - total / (m * (n - t)) / (2 * variance)

    last = 1
    while last + 2 < n and rho(last + 1) + rho(last + 2) >= 0:
        last += 2
    return m * n / (1 + 2 * sum(rho(t) for t in range(1, last + 1)))


@pytest.mark.parametrize("shape", [(4, 40, 5), (1, 41, 5), (3, 4, 5), (2, 5, 5)])
@pytest.mark.parametrize("correlation", [0.0, 0.9, -0.3])
def test_the_variogram_is_the_printed_sum(monkeypatch, shape, correlation):
    monkeypatch.setattr(chains, "_NUMBERS_IN_A_CHUNK", 2 * shape[0] * shape[1])  # two quantities at a time
    values = 1e4 + autoregressive(shape, correlation)
    expected = np.array([slow_variogram_ess(values[:, :, q]) for q in range(shape[2])])
    most = shape[0] * shape[1] * np.log10(shape[0] * shape[1])
    expected = np.where((expected < 0) | (expected > most), most, expected)
    np.testing.assert_allclose(diagnostics.ess_variogram(values), expected, rtol=1e-6)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8, -0.4])
def test_the_variogram_of_an_autoregression_counts_what_theory_says(correlation):
    effective = diagnostics.ess_variogram(autoregressive((4, 4000, 6), correlation)).mean()
    assert effective == pytest.approx(16000 * (1 - correlation) / (1 + correlation), rel=0.12)


def test_chains_that_disagree_have_few_effective_draws_by_the_variogram():
    values = np.random.default_rng(1).normal(size=(4, 500, 1)) + 3 * np.arange(4)[:, None, None]
    assert diagnostics.ess_variogram(values)[0] < 10


def test_constant_and_non_finite_quantities_are_nan_and_leave_the_others_alone():
    values = np.random.default_rng(2).normal(size=(4, 50, 3))
    expected = diagnostics.ess_bulk(values[:, :, 1:2])
    values[:, :, 0] = 2.5
    values[1, 7, 2] = np.inf
    for statistic in (diagnostics.rhat, diagnostics.ess_bulk, diagnostics.ess_variogram, diagnostics.mcse_mean):
        np.testing.assert_array_equal(np.isnan(statistic(values)), [True, False, True])
    np.testing.assert_allclose(diagnostics.ess_bulk(values)[1:2], expected)


@pytest.mark.parametrize("shape", [(4, 1, 2), (4, 3, 2), (1, 1, 0)])
def test_too_few_draws_give_nan(shape):
    values = np.random.default_rng(3).normal(size=shape)
    assert np.isnan(diagnostics.ess_bulk(values)).all()
    assert np.isnan(diagnostics.ess_variogram(values)).all()
    assert np.isnan(diagnostics.rhat(values)).all()
    assert diagnostics.rhat(values).shape == shape[2:]


def test_one_chain_has_effective_draws_and_no_rhat():
    values = np.random.default_rng(4).normal(size=(1, 200, 2))
    assert np.isnan(diagnostics.rhat(values)).all()
    assert (diagnostics.ess_bulk(values) > 100).all()


def test_chains_that_are_constant_at_different_values_disagree_infinitely():
    values = np.broadcast_to(np.arange(4.0)[:, None, None], (4, 20, 1))
    assert np.isinf(diagnostics.rhat(values)).all()


def test_stuck_chains_are_named(monkeypatch):
    monkeypatch.setattr(chains, "_NUMBERS_IN_A_CHUNK", 8)  # a few draws at a time
    values = np.random.default_rng(5).normal(size=(5, 30, 4))
    values[1] = values[1, :1]
    values[3] = np.nan
    values[4] = values[4, :1]
    values[4, -1, 2] += 1.0  # moves once, at the very end
    assert diagnostics.stuck_chains(values) == (1, 3)


def test_one_draw_cannot_be_called_stuck():
    assert diagnostics.stuck_chains(np.zeros((2, 1, 3))) == ()


def test_wrong_shape_says_how_to_mend_it():
    with pytest.raises(SettingError, match=r"\[chain, draw, quantity\].*\(4, 100\)"):
        diagnostics.rhat(np.zeros((4, 100)))


def test_values_are_read_in_slices_only():
    class OnDisk:
        def __init__(self, values):
            self.values, self.shape, self.widest = values, values.shape, 0

        def __getitem__(self, key):
            part = self.values[key]
            self.widest = max(self.widest, part.shape[2])
            return part

    values = autoregressive((2, 20, 30))
    stored = OnDisk(values)
    blocks = pytest.MonkeyPatch()
    with blocks.context() as patch:
        patch.setattr(chains, "_NUMBERS_IN_A_CHUNK", 200)
        np.testing.assert_allclose(diagnostics.ess_bulk(stored), diagnostics.ess_bulk(values))
    assert stored.widest == 5
