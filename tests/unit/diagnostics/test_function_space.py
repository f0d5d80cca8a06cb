"""Summaries leave degenerate quantities out and count them; reference rows are spread and repeatable."""

import numpy as np
import pytest

from ergonet import diagnostics
from ergonet._errors import DataError, SettingError


def test_summary_holds_the_worst_of_the_usable_quantities():
    values = np.random.default_rng(0).normal(size=(4, 200, 5))
    values[:, :, 1] = 3.0
    values[0, :, 2] += 2.0
    values[2, 4, 4] = np.nan
    summary = diagnostics.summarize(values)
    assert summary.num_degenerate == 2
    assert summary.max_rhat == summary.rhat[2] == np.nanmax(summary.rhat)
    assert summary.min_ess_bulk == np.nanmin(summary.ess_bulk)
    assert summary.median_ess_bulk == np.nanmedian(summary.ess_bulk)
    assert summary.min_ess_tail == np.nanmin(summary.ess_tail)
    assert summary.rhat.shape == summary.ess_bulk.shape == summary.ess_tail.shape == (5,)


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 3, 3), (4, 50, 0)])
def test_summary_of_too_little_is_nan_without_a_warning(shape, recwarn):
    summary = diagnostics.summarize(np.random.default_rng(0).normal(size=shape))
    assert np.isnan([summary.max_rhat, summary.min_ess_bulk, summary.min_ess_tail]).all()
    assert summary.num_degenerate == 0
    assert not recwarn.list


def test_one_chain_keeps_its_effective_draws():
    summary = diagnostics.summarize(np.random.default_rng(0).normal(size=(1, 200, 3)))
    assert np.isnan(summary.max_rhat)
    assert summary.min_ess_bulk > 50


def test_reference_rows_reach_every_cluster():
    random = np.random.default_rng(0)
    centers = 20 * random.normal(size=(6, 3))
    sizes = [500, 200, 50, 10, 3, 1]
    cluster = np.repeat(np.arange(6), sizes)
    x = centers[cluster] + 0.1 * random.normal(size=(len(cluster), 3))
    assert set(cluster[diagnostics.choose_reference_rows(x, 6)]) == set(range(6))


def test_reference_rows_are_repeatable_ascending_and_distinct():
    x = np.random.default_rng(1).normal(size=(100, 4))
    rows = diagnostics.choose_reference_rows(x)
    assert len(rows) == 20
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, diagnostics.choose_reference_rows(x.copy()))


def test_reference_rows_do_not_depend_on_the_unit_of_a_column():
    x = np.random.default_rng(2).normal(size=(60, 3))
    np.testing.assert_array_equal(
        diagnostics.choose_reference_rows(x, 8),
        diagnostics.choose_reference_rows(x * [1.0, 1024.0, 0.125], 8),
    )


@pytest.mark.parametrize(("rows", "count", "expected"), [(3, 20, 3), (20, 20, 20), (1, 1, 1), (30, 20, 20)])
def test_equal_rows_are_still_distinct_indices(rows, count, expected):
    chosen = diagnostics.choose_reference_rows(np.ones((rows, 2)), count)
    assert len(set(chosen.tolist())) == expected


def test_large_tables_are_searched_at_equal_distances():
    x = np.arange(50_001.0)[:, None]
    chosen = diagnostics.choose_reference_rows(x, 3)
    assert chosen[0] < 10
    assert chosen[-1] > 49_990


def test_images_are_rows_too():
    assert len(diagnostics.choose_reference_rows(np.random.default_rng(0).normal(size=(9, 4, 4)), 5)) == 5


def test_bad_arguments_are_named():
    with pytest.raises(SettingError, match="`count` must be at least 1"):
        diagnostics.choose_reference_rows(np.ones((3, 2)), 0)
    with pytest.raises(DataError, match="no rows"):
        diagnostics.choose_reference_rows(np.ones((0, 2)))
    x = np.zeros((30, 2))
    x[4, 1] = np.nan
    with pytest.raises(DataError, match="row 4, feature 1"):
        diagnostics.choose_reference_rows(x)
