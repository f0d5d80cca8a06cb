"""The parts of the reproductions of Choo2000 that figures rest on: coordinates, budgets, starts and ratios."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ergonet import diagnostics
from experiments.choo2000 import comparing, data, master, means, methods, plan
from experiments.record import Table


def test_the_rows_lie_around_the_surface():
    residuals = data.ROWS[:, 2] - data.surface(data.ROWS[:, 0], data.ROWS[:, 1])
    assert np.abs(residuals).max() < 4 * data.NOISE_WIDTH
    assert residuals.std() == pytest.approx(data.NOISE_WIDTH, rel=0.6)


def test_moved_positions_are_the_same_states_with_the_jacobian_between_their_densities():
    centered, other = (data.target(8, is_centered=flag) for flag in (True, False))
    positions = np.stack([np.asarray(centered.initial_position(jax.random.key(seed))) for seed in range(3)])
    moved = data.non_centered(positions, 8)
    jacobian = 0.5 * positions[:, 33:37] @ list(data.sizes(8).values())
    for one, two, expected in zip(jnp.asarray(positions), jnp.asarray(moved), jacobian, strict=True):
        same = jax.tree.map(
            lambda a, b: np.allclose(a, b, rtol=1e-5), *(t.unravel(q) for t, q in ((centered, one), (other, two)))
        )
        assert all(jax.tree.leaves(same))
        difference = other.potential(two) - centered.potential(one)
        assert difference == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("is_centered", [True, False])
def test_the_posterior_is_the_density_of_the_thesis(is_centered):
    """Written down once more, for states as far out as chains go."""
    target, random = data.target(8, is_centered=is_centered), np.random.default_rng(0)
    for spread in (1.0, 1.0, 4.0, 4.0):
        position = random.normal(size=target.dim)
        position[33:] = random.normal(size=5) * spread + [-2, 1, -2, 0, 4]
        total, weights, start = 0.0, {}, 0
        for group, log_precision in zip(data.sizes(8), position[33:37], strict=True):
            own = position[start : start + data.sizes(8)[group]]
            start += own.size
            total += log_gamma(log_precision, data.widths(8)[group])
            sd = np.exp(-0.5 * log_precision)
            total += stats.norm.logpdf(own, 0, sd if is_centered else 1).sum()
            weights[group] = own if is_centered else own * sd
        hidden = np.tanh(data.ROWS[:, :2] @ weights["u"].reshape(8, 2).T + weights["a"])
        means = hidden @ weights["v"] + weights["b"]
        total += stats.norm.logpdf(data.ROWS[:, 2], means, np.exp(-0.5 * position[37])).sum()
        total += log_gamma(position[37], data.NOISE_WIDTH)
        potential = float(target.potential(jnp.asarray(position, jnp.float32)))
        assert potential == pytest.approx(-total, rel=1e-5, abs=1e-3)


def log_gamma(log_precision, width):
    """Of a log precision whose precision has the mean width^-2 and a shape of half of alpha."""
    shape = data.ALPHA / 2
    prior: Any = stats.gamma(shape, scale=width**-2 / shape)
    return prior.logpdf(np.exp(log_precision)) + log_precision


@pytest.mark.parametrize(
    ("method", "length", "trajectories", "leapfrogs"),
    [(methods.GIBBS, 200, 256, 614400), (methods.A, 25, 1024, 307200), (methods.B, 533, 32, 204672)],
)
def test_budgets_are_those_of_the_thesis(method, length, trajectories, leapfrogs):
    found = means.trajectories(method, length, plan.PLANS["full"].gradients)
    assert found == trajectories
    assert found * length * plan.SUPER_TRANSITIONS == leapfrogs


def test_the_figures_of_the_thesis_agree_with_each_other_where_they_do():
    for name, by_units in methods.RHO.items():
        for units, figures in by_units.items():
            g = float(means.g_of(np.array(figures[:-1])))
            tolerance = 0.02 if (name, units) in {("Dynamical A", 8), ("Dynamical B", 16)} else 0.003
            assert g == pytest.approx(figures[-1], rel=tolerance), (name, units)


@pytest.fixture
def known_master(monkeypatch):
    """A master run of 1000 records of which every twentieth lies in G."""
    random = np.random.default_rng(0)
    positions = random.normal(size=(1000, 38)).astype(np.float32)
    inside = np.arange(1000) % 20 == 7
    run = master.Equilibrium(positions, np.zeros(5), np.ones(5), np.ones(5), inside, 5.0)
    monkeypatch.setattr(master, "equilibrium", lambda units, settings: run)
    master.starts.cache_clear()
    yield run
    master.starts.cache_clear()


def test_starts_are_stratified_and_differ_by_seed(known_master):
    full = plan.PLANS["full"]
    one, other = (master.starts(8, full, seed) for seed in (0, 1))
    for found in (one, other):
        assert len(np.unique(found.positions, axis=0)) == 50
        np.testing.assert_allclose(found.shares, [0.95, 0.05])
        rows = [int(np.flatnonzero((known_master.positions == p).all(axis=1))[0]) for p in found.positions]
        np.testing.assert_array_equal(known_master.inside[rows], found.strata == 1)
    assert not np.array_equal(one.positions, other.positions)
    few = one.first(0.4)
    np.testing.assert_array_equal(np.bincount(few.strata), [16, 4])
    assert diagnostics.variance_of_means(np.ones((20, 1)), np.zeros(1), strata=few.strata, shares=few.shares) == 1


def test_a_master_run_that_has_not_seen_the_region_has_one_stratum(known_master, monkeypatch):
    zeros = np.zeros(5)
    without = master.Equilibrium(known_master.positions, zeros, zeros, zeros, np.zeros(1000, bool), 5.0)
    monkeypatch.setattr(master, "equilibrium", lambda units, settings: without)
    master.starts.cache_clear()
    found = master.starts(8, plan.PLANS["full"], 0)
    np.testing.assert_array_equal(found.strata, np.zeros(50))
    np.testing.assert_allclose(found.shares, [1.0])


def table_of_ratios(by_units):
    names = [quantity.name for quantity in means.ratio_quantities("Gibbs")]
    values = {
        comparing.label("B", units): dict(zip(names, zip(*found, strict=True), strict=True))
        for units, found in by_units.items()
    }
    return Table(values, {})


def test_log_ratios_are_averaged_over_seeds_with_the_error_of_their_intervals():
    table = table_of_ratios({8: [(0.5, 0.25, 1.0), (2.0, 1.0, 4.0)]})
    found = comparing.log_ratio(table, "B, 8 units", "Gibbs")
    assert found.value == pytest.approx(0.0)
    assert found.error == pytest.approx(math.log(2) / comparing.QUANTILE / math.sqrt(2))
    assert (found.is_below, found.is_above) == (False, False)
    assert math.isnan(comparing.log_ratio(table, "B, 8 units", "Dynamical A").value)


def test_the_slope_is_that_of_a_line_in_the_logarithm_of_the_units():
    table = table_of_ratios({8: [(1.0, 0.9, 1.1)], 16: [(0.5, 0.45, 0.55)]})
    found = comparing.slope(table, "B", "Gibbs")
    assert found.value == pytest.approx(math.log(0.5))
    assert found.is_below
    assert comparing.slope(table_of_ratios({8: [(1.0, 0.9, 1.1)]}), "B", "Gibbs").is_below is None


@pytest.mark.parametrize(
    ("values", "expected"), [((-1.0, -2.0), True), ((-1.0, 0.0), None), ((-1.0, 1.0), False), ((math.nan,), None)]
)
def test_a_method_beats_another_where_every_interval_is_below_one(values, expected):
    assert comparing.beats([comparing.LogRatio(value, 0.1) for value in values]) is expected
