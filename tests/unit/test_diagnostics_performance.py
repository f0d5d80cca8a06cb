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
    with pytest.raises(SettingError, match=r"must be \[chain, draw\]"):
        measure(np.zeros(3, int))


def test_a_run_reports_them_and_arviz_finds_its_names():
    samples = draw(NUTS(max_doublings=5, integrator="two-stage"), thin=2)
    found, stats = samples.diagnostics(), samples.stats
    assert found["mean_gradients_per_draw"] == 2 * found["mean_steps_per_draw"] == 2 * stats["n_steps"].mean()
    assert found["max_tree_depth_fraction"] == np.mean(stats["tree_depth"] == 5)
    groups = samples.to_datatree()
    for group in ("sample_stats", "warmup_sample_stats"):
        names = set(groups[group].data_vars)
        assert names >= {"acceptance_rate", "n_steps", "tree_depth", "diverging", "energy", "lp", "step_size"}
        reached = groups[group]["reached_max_treedepth"]
        np.testing.assert_array_equal(reached, groups[group]["tree_depth"].values >= 5)
        assert groups[group]["acceptance_rate"].dims == ("chain", "draw")


def test_kernels_without_trees_are_not_called_saturated():
    samples = draw(HMC(num_steps=3))
    assert samples.diagnostics()["max_tree_depth_fraction"] == 0
    assert "reached_max_treedepth" not in samples.to_datatree()["sample_stats"]
