"""Each planted problem is met by its own sentence, and a clean run by none."""

import copy
import re

import pytest

from ergonet import diagnostics

CLEAN = {
    "num_chains": 4,
    "num_draws": 500,
    "diagnostics": {
        "divergences": 0,
        "nonfinite": 0,
        "stuck_chains": [],
        "max_rhat_function": 1.004,
        "min_ess_bulk_function": 812.0,
        "min_ess_bulk_weights": 9.0,
        "median_ess_bulk_weights": 40.0,
        "min_ebfmi": 0.85,
        "max_tree_depth_fraction": 0.0,
        "mean_acceptance": 0.82,
        "target_acceptance": 0.8,
    },
}

PROBLEMS = [
    ({"divergences": 1}, r"1 of 2000 transitions \(0.05 %\) diverged"),
    ({"divergences": 12}, r"12 of 2000 transitions \(0.6 %\) diverged.*\(now 0.8\) to 0.9 or 0.95, or use"),
    ({"divergences": 12, "target_acceptance": 0.9}, r"\(now 0.9\) to 0.95 or 0.99, or use"),
    ({"divergences": 12, "target_acceptance": 0.99, "mean_acceptance": 0.99}, r"Use a smaller step size, or"),
    ({"divergences": 1995}, r"1995 of 2000 transitions \(100 %\) diverged"),
    ({"divergences": 12, "target_acceptance": None}, r"diverged.* Use a smaller step size, or"),
    ({"nonfinite": 3}, r"3 of 2000 transitions \(0.15 %\).*not finite.*Standardize"),
    ({"mean_kinetic_temperature": 2.4}, r"kinetic temperature is 2.40 .* too wide. Lower the learning rate"),
    ({"mean_kinetic_temperature": 0.3}, r"kinetic temperature is 0.30 .* too narrow"),
    ({"clipped_fraction": 0.08}, r"exceeds the friction in 8 % of coordinates"),
    ({"minibatch_acceptance": 0.02}, r"Almost all .* were rejected \(mean acceptance 0.02\).*Lower the learning rate"),
    ({"stuck_chains": [1, 3]}, r"Chains 1 and 3 \(counted from 0\) never moved"),
    ({"stuck_chains": [2]}, r"Chain 2 \(counted from 0\) never moved"),
    ({"max_rhat_function": 1.0321}, r"R-hat is 1.032 .*at most 1.01.*weights.*need not mix"),
    ({"max_rhat_function": float("inf")}, r"R-hat is infinite"),
    ({"max_rhat_function": float("nan")}, r"R-hat of the predictions could not be computed"),
    ({"max_rhat_function": None}, r"R-hat of the predictions could not be computed"),
    (
        {"min_ess_bulk_function": 160.0},
        r"ESS\) of only 160;.*400 in all.*2.5 times as many.*need not mix",
    ),
    ({"min_ess_bulk_function": None}, r"ESS\) could not be computed"),
    ({"min_ebfmi": 0.21}, r"E-BFMI is 0.21.*at least 0.3.*warm-up"),
]

NOTES = [
    (
        {"max_rhat_scales": 1.2, "min_ess_bulk_scales": 9.0},
        r"scales.*do not mix: R-hat is 1.20 .*ESS is 9 .*100. Predictions mix, but",
    ),
    ({"max_rhat_scales": 1.001, "min_ess_bulk_scales": 90.0}, r"scales.*do not mix: the smallest ESS is 90"),
    ({"max_tree_depth_fraction": 0.31}, r"31 % of the trajectories.*`max_doublings`"),
    ({"mean_acceptance": 0.55}, r"0.55, but the target was 0.80.*too large"),
    ({"mean_acceptance": 0.97}, r"0.97, but the target was 0.80.*smaller"),
    ({"rejected_metrics": 2}, r"metric that was not finite \(rejected 2 times\).*Standardize"),
    ({"refused_metrics": 2}, r"metric that was not finite \(rejected 2 times\).*Standardize"),  # of an older run
]


def planted(change, **top):
    metrics = copy.deepcopy(CLEAN) | top
    metrics["diagnostics"] |= change
    return metrics


def test_a_clean_run_needs_no_advice():
    assert diagnostics.advise(CLEAN) == []
    assert not diagnostics.failed(CLEAN)


@pytest.mark.parametrize(("change", "pattern"), PROBLEMS + NOTES)
def test_one_sentence_for_each_problem(change, pattern):
    advice = diagnostics.advise(planted(change))
    assert len(advice) == 1
    assert re.search(pattern, advice[0]), advice[0]


@pytest.mark.parametrize(("change", "failed"), [(c, True) for c, _ in PROBLEMS] + [(c, False) for c, _ in NOTES])
def test_only_what_casts_doubt_on_results_fails_a_strict_run(change, failed):
    assert diagnostics.failed(planted(change)) is failed


def test_scales_must_mix_as_well_as_predictions_unless_these_do():
    scales = {"max_rhat_scales": 1.02, "min_ess_bulk_scales": 150.0}
    assert diagnostics.advise(planted(scales)) == []
    predictions = {"max_rhat_function": 1.03, "min_ess_bulk_function": 150.0}
    found = [one for one in diagnostics.find(planted(scales | predictions)) if "learned scales" in one.sentence]
    assert [one.problem for one in found] == [True]
    assert "R-hat is 1.020 and should be at most 1.01; the smallest ESS is 150 and should be at least 400" in (
        found[0].sentence
    )


def test_one_chain_is_told_to_be_too_few():
    metrics = planted({"max_rhat_function": None}, num_chains=1)
    (sentence,) = diagnostics.advise(metrics)
    assert sentence.startswith("A single chain cannot show")
    assert sentence.endswith("run at least 4 chains.")


def test_problems_come_before_waste():
    found = diagnostics.find(planted({"max_tree_depth_fraction": 0.5, "mean_acceptance": 0.2, "min_ebfmi": 0.1}))
    assert [finding.problem for finding in found] == [True, False, False]


def test_all_at_once_says_once_that_weights_need_not_mix():
    metrics = planted({"max_rhat_function": 1.2, "min_ess_bulk_function": 12.0})
    assert sum("need not mix" in sentence for sentence in diagnostics.advise(metrics)) == 1


@pytest.mark.parametrize(
    "metrics", [{}, {"diagnostics": None}, {"thin": "", "diagnostics": {"divergences": None, "min_ebfmi": "low"}}]
)
def test_what_was_not_measured_is_not_judged(metrics):
    assert diagnostics.advise(metrics) == []


def test_what_is_said_of_thinned_draws_is_said_of_draws():
    """Each has the statistics of several transitions: whether any diverged, and the deepest tree."""
    (said,) = diagnostics.advise(planted({"divergences": 5}, thin=5))
    assert said.startswith("5 of 2000 draws (0.25 %) contain a transition that diverged")
    (said,) = diagnostics.advise(planted({"nonfinite": 1}, thin=5))
    assert said.startswith("1 of 2000 draws (0.05 %) contains a transition that reached a point")
    assert diagnostics.advise(planted({"max_tree_depth_fraction": 0.2}, thin=5)) == []
    (said,) = diagnostics.advise(planted({"max_tree_depth_fraction": 0.3}, thin=5))
    assert said.startswith("30 % of the draws contain a trajectory that reached the maximum tree depth")
    assert diagnostics.advise(planted({"min_ebfmi": 0.1}, thin=5)) == []
