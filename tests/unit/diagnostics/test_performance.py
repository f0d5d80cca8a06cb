"""What draws cost and whether trees were cut off, by chain and under ArviZ's names."""

import numpy as np
import pytest

from ergonet import HMC, NUTS, diagnostics
from ergonet._errors import SettingError
from tests.sampling import draw


def test_a_tree_at_the_limit_is_saturated():
    depth = np.array([[3, 2, 3, 1], [-1, -1, -1, -1]])
    np.testing.assert_array_equal(diagnostics.saturated_share(depth, 3), [0.5, 0.0])


def test_costs_are_means_over_draws_by_chain():
    np.testing.assert_array_equal(diagnostics.mean_per_draw(np.array([[1, 2, 3], [7, 7, 7]])), [2.0, 7.0])


@pytest.mark.parametrize("measure", [diagnostics.mean_per_draw, lambda depth: diagnostics.saturated_share(depth, 2)])
def test_no_draws_and_wrong_shapes(measure):
    assert np.isnan(measure(np.zeros((2, 0), int))).all()
    with pytest.raises(SettingError, match=r"must have shape \[chain, draw\]"):
        measure(np.zeros(3, int))


@pytest.mark.slow
def test_a_run_reports_them_and_arviz_finds_its_names():
    samples = draw(NUTS(max_doublings=5, integrator="two-stage"), thin=2)
    found, stats = samples.diagnostics(), samples.stats
    assert found["mean_gradients_per_draw"] == 2 * found["mean_steps_per_draw"] == 2 * stats["n_steps"].mean()
    assert found["max_tree_depth_fraction"] == np.mean(stats["tree_depth"] == 5)
    groups = samples.to_datatree()
    for group in ("sample_stats", "warmup_sample_stats"):
        names = set(groups[group].data_vars)
        assert names >= {"acceptance_rate", "n_steps", "tree_depth", "diverging", "energy", "lp", "step_size"}
        assert names >= {"energy_error", "max_energy_error"}
        reached = groups[group]["reached_max_treedepth"]
        np.testing.assert_array_equal(reached, groups[group]["tree_depth"].values >= 5)
        assert groups[group]["acceptance_rate"].dims == ("chain", "draw")


def test_kernels_without_trees_are_not_called_saturated():
    samples = draw(HMC(num_steps=3))
    assert samples.diagnostics()["max_tree_depth_fraction"] == 0
    assert "reached_max_treedepth" not in samples.to_datatree()["sample_stats"]


def test_the_variance_of_means_by_hand():
    means, center = np.array([[1.0, 10.0], [3.0, 10.0], [2.0, 13.0]]), np.array([2.0, 10.0])
    np.testing.assert_allclose(diagnostics.variance_of_means(means, center), [2 / 3, 3.0])
    # squared distances (1, 1, 0) and (0, 0, 9): sample variances 1/3 and 27, over 3 chains
    np.testing.assert_allclose(diagnostics.variance_of_means_error(means, center), [1 / 3, 3.0])


def test_strata_count_by_their_share_of_the_posterior():
    means, center = np.array([[1.0], [-1.0], [5.0], [7.0]]), np.zeros(1)
    stratified = {"strata": np.array([0, 0, 1, 1]), "shares": np.array([0.9, 0.1])}
    np.testing.assert_allclose(diagnostics.variance_of_means(means, center, **stratified), [0.9 * 1 + 0.1 * 37])
    # squared distances 25 and 49 in the rare stratum: variance 288, halved, times 0.1^2; none in the other
    np.testing.assert_allclose(diagnostics.variance_of_means_error(means, center, **stratified), [1.2])


def test_the_order_of_chains_does_not_matter_and_leading_axes_are_kept():
    random = np.random.default_rng(0)
    means, strata = random.normal(size=(6, 2)), np.array([0, 1, 0, 0, 1, 0])
    order = random.permutation(6)
    center, shares = np.array([0.1, -0.2]), np.array([0.8, 0.2])
    one = diagnostics.variance_of_means(means, center, strata=strata, shares=shares)
    other = diagnostics.variance_of_means(means[order], center, strata=strata[order], shares=shares)
    np.testing.assert_allclose(one, other)
    stacked = diagnostics.variance_of_means(np.stack([means, 2 * means]), center, strata=strata, shares=shares)
    assert stacked.shape == (2, 2)
    np.testing.assert_allclose(stacked[0], one)


def test_means_of_autoregressive_chains_have_the_variance_that_theory_gives():
    """x_t = r x_{t-1} + e_t of unit variance: N Var(mean) = 1 + 2 sum_k (1 - k/N) r^k."""
    random, correlation, num_draws, num_chains = np.random.default_rng(1), 0.7, 12, 4000
    draws = np.empty((num_chains, num_draws))
    draws[:, 0] = random.normal(size=num_chains)
    for t in range(1, num_draws):
        noise = random.normal(size=num_chains)
        draws[:, t] = correlation * draws[:, t - 1] + np.sqrt(1 - correlation**2) * noise
    lags = np.arange(1, num_draws)
    expected = 1 + 2 * np.sum((1 - lags / num_draws) * correlation**lags)
    means = draws.mean(axis=1)[:, None]
    found = diagnostics.variance_of_means(means, np.zeros(1))
    error = diagnostics.variance_of_means_error(means, np.zeros(1))
    factor = diagnostics.inefficiency_factor(found, np.ones(1), num_draws)
    assert abs(factor - expected) < 4 * error * num_draws
    np.testing.assert_allclose(error, expected / num_draws * np.sqrt(2 / num_chains), rtol=0.1)  # of a chi-square


def test_the_geometric_mean_is_that_of_the_document():
    gibbs_at_8_units = np.array([0.0378, 0.1777, 0.0353, 0.1595])  # Choo2000, Table 5.12
    assert diagnostics.geometric_mean(gibbs_at_8_units) == pytest.approx(0.0784, abs=5e-5)
    np.testing.assert_allclose(diagnostics.geometric_mean(np.array([[2.0, 8.0], [0.0, 3.0]])), [4.0, 0.0])


def test_resampled_chains_stay_in_their_stratum():
    strata = np.array([0, 1, 0, 1, 1])
    drawn = diagnostics.resample_chains(5, strata=strata, num_resamples=2000, seed=3)
    assert drawn.shape == (2000, 5)
    assert (strata[drawn] == strata).all()
    counts = np.bincount(drawn.ravel(), minlength=5) / 2000
    np.testing.assert_allclose(counts, 1, atol=4 * np.sqrt(1 / 2000))
    assert (diagnostics.resample_chains(5, seed=3)[:, 0] > 0).any()


def test_an_interval_holds_its_share_of_the_realizations():
    np.testing.assert_allclose(diagnostics.bootstrap_interval(np.arange(101.0)), [5, 95])
    assert diagnostics.bootstrap_interval(np.zeros((10, 3)), 0.5).shape == (2, 3)


def test_intervals_of_ratios_hold_the_truth_as_often_as_they_say():
    """Two samplers of standard deviations 1 and 2 of every chain mean: g is in the ratio 1 / 4."""
    random, inside = np.random.default_rng(2), 0
    for trial in range(200):
        first, second = random.normal(size=(50, 4)), 2 * random.normal(size=(50, 4))
        value, low, high = diagnostics.paired_ratio_interval(first, second, np.zeros(4), num_resamples=200, seed=trial)
        assert low < value < high
        inside += low < 0.25 < high
    # 90 % nominal; a percentile interval of 50 chains holds a little less
    assert 0.8 - 4 * np.sqrt(0.1 / 200) < inside / 200 < 0.9 + 4 * np.sqrt(0.1 / 200)


def test_what_starts_have_in_common_cancels_in_a_paired_ratio():
    random = np.random.default_rng(4)
    common = random.standard_t(3, size=(50, 4))
    first, second = common + 0.1 * random.normal(size=(50, 4)), common + 0.1 * random.normal(size=(50, 4))
    paired = diagnostics.paired_ratio_interval(first, second, np.zeros(4))
    apart = diagnostics.paired_ratio_interval(first, second[random.permutation(50)], np.zeros(4))
    assert paired[0] == pytest.approx(apart[0])
    assert (paired[2] - paired[1]) < 0.4 * (apart[2] - apart[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: diagnostics.variance_of_means(np.zeros(3), np.zeros(1)),
            r"must have shape \[\.\.\., chain, quantity\]",
        ),
        (
            lambda: diagnostics.variance_of_means(np.zeros((3, 2)), np.zeros(1)),
            r"must have shape \[\.\.\., chain, quantity\]",
        ),
        (lambda: _stratified([0, 0, 0], [0.5, 0.5]), "at least one chain"),
        (lambda: _stratified([0, 1, 0], [0.5, 0.6]), "sum to 1"),
        (lambda: _stratified([0, 1], [0.5, 0.5]), r"shape \[3\], one entry per chain"),
        (lambda: _stratified([0, 1, 1], None), "or neither"),
        (lambda: diagnostics.geometric_mean(np.zeros((2, 0))), "at least one quantity"),
        (lambda: diagnostics.geometric_mean(np.array([-1.0])), "at least 0"),
        (lambda: diagnostics.resample_chains(0), "at least 1"),
        (lambda: diagnostics.bootstrap_interval(np.zeros(3), 1.0), r"in \(0, 1\)"),
        (lambda: diagnostics.inefficiency_factor(np.ones(1), np.ones(1), 0), "at least 1"),
        (lambda: diagnostics.paired_ratio_interval(np.ones((3, 1)), np.ones((4, 1)), np.ones(1)), "same shape"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(SettingError, match=message):
        call()


def _stratified(strata, shares):
    shares = None if shares is None else np.array(shares)
    return diagnostics.variance_of_means(np.zeros((3, 1)), np.zeros(1), strata=np.array(strata), shares=shares)
