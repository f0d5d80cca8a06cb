"""A map of chains shows the distances between what they predict, as they are."""

import numpy as np
import pytest

from ergonet._errors import SettingError
from ergonet.diagnostics import chain_map, summarize


def draws(*means, quantities=3, count=400, seed=0):
    """Chains with these means and standard deviation 1, `[chain, draw, quantity]`."""
    noise = np.random.default_rng(seed).normal(size=(len(means), count, quantities))
    return noise + np.asarray(means, float)[:, None, None]


def test_distances_are_those_between_quantile_functions():
    values = draws(0, 0, 0)
    values[1] = values[0] + 2.0
    values[2] = 3.0 * values[0]
    found = chain_map(values)
    assert found is not None
    spread = values.std(axis=(0, 1))
    levels = (np.arange(25) + 0.5) / 25
    assert found.distances[0, 1] == pytest.approx(np.sqrt(np.mean((2.0 / spread) ** 2)))
    between = (3 - 1) / spread * np.quantile(values[0], levels, axis=0)
    assert found.distances[0, 2] == pytest.approx(np.sqrt(np.mean(between**2)))
    apart = np.linalg.norm(found.points[:, None] - found.points[None], axis=2)
    np.testing.assert_allclose(apart, found.distances, atol=1e-12)  # three points lie in a plane
    assert found.shares.sum() == pytest.approx(1)


def test_shares_are_those_of_squared_distances():
    found = chain_map(draws(0, 0, 0, 5, 5, quantities=40))
    assert found is not None
    apart = np.linalg.norm(found.points[:, None] - found.points[None], axis=2)
    assert found.shares.sum() == pytest.approx(np.sum(apart**2) / np.sum(found.distances**2))
    assert found.shares[0] > 0.9
    assert np.ptp(np.sign(found.points[[0, 1, 2], 0])) == 0
    assert np.sign(found.points[0, 0]) != np.sign(found.points[4, 0])


def test_chains_in_modes_are_farther_apart_than_their_halves():
    merged, modes = chain_map(draws(0, 0, 0, 0)), chain_map(draws(0, 4, 0, 4))
    assert merged is not None
    assert modes is not None
    assert merged.typical_distance < merged.typical_move
    assert modes.distances[0, 1] > 5 * modes.typical_move
    np.testing.assert_allclose(merged.halves.mean(axis=1), merged.points, atol=0.5 * merged.typical_move)


def test_draws_count_by_weight():
    values, weights = draws(0, 4, 9), np.ones((3, 400))
    weights[2] = 0.0
    weights[1, :200] = 0.0
    found = chain_map(values, weights)
    assert found is not None
    assert found.chains == (0, 1)
    assert np.isnan(found.moves).tolist() == [False, True]
    assert found.typical_move == found.moves[0]
    np.testing.assert_allclose(found.shares, [1, 0], atol=1e-12)
    plain = chain_map(values[:2, 200:])
    assert plain is not None
    assert found.distances[0, 1] == pytest.approx(plain.distances[0, 1], rel=0.1)


def test_without_chains_to_compare_there_is_no_map():
    assert chain_map(draws(0)) is None
    assert chain_map(draws(0, 1)[:, :7]) is None
    assert chain_map(np.ones((2, 50, 3))) is None
    assert chain_map(np.full((2, 50, 3), np.nan)) is None
    values = draws(0, 1)
    values[0, 0, 1] = np.inf
    found, others = chain_map(values), chain_map(np.delete(values, 1, axis=2))
    assert found is not None
    assert others is not None
    np.testing.assert_array_equal(found.distances, others.distances)
    with pytest.raises(SettingError, match="`weights` must have shape"):
        chain_map(values, np.ones(3))


def test_the_worst_points_are_those_where_chains_disagree():
    values = draws(0, 0, 0, 0, quantities=6)
    values[0, :, 4] += 1.0
    values[0, :, 5] += 0.5
    values[:, :, 2] = 1.0
    values[:, :, 1] = np.repeat(values[:, ::5, 1], 5, axis=1)
    summary = summarize(values)
    assert summary.worst(3)[0] == 4
    assert set(summary.worst(3).tolist()) == {4, 5, 1}
    assert 2 not in summary.worst(9)
    assert summary.worst(9, groups=[0, 1, 2, 0, 0, 1]).tolist() == [4, 5]
    assert summarize(values[:1]).worst(1).tolist() == [1]  # without R-hat by the effective draws
    assert summary.max_mcse == pytest.approx(np.nanmax(summary.mcse / values.std(axis=(0, 1))), rel=1e-6)
