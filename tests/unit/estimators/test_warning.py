"""What an estimator warns of after `sample` has given its own alarms."""

import warnings
from dataclasses import replace

import pytest

from ergonet._errors import SamplingWarning
from ergonet.estimators.warning import warn_of
from tests.sampling import draw


def warned(diagnostics, **about):
    samples = draw()
    samples = replace(samples, about={"kernel": "NUTS", **about})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_of(samples, diagnostics, dim=5, wanted=30)
    return " ".join(str(one.message) for one in found if one.category is SamplingWarning)


@pytest.mark.parametrize("name", ["divergences", "nonfinite", "rejected_metrics", "rounding_error"])
def test_what_sample_has_warned_of_is_not_repeated(name):
    assert warned({name: 7}) == ""


def test_saturation_of_thinned_draws_is_not_taken_for_that_of_trajectories():
    assert "of the trajectories" in warned({"max_tree_depth_fraction": 0.12})
    assert warned({"max_tree_depth_fraction": 0.12}, thin=5) == ""
    assert "of the draws contain" in warned({"max_tree_depth_fraction": 0.9}, thin=5)
