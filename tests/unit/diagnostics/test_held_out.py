"""Stated probabilities and intervals that are wrong are a problem of the model, and the verdict says so."""

import numpy as np
import pytest
from scipy import stats

from ergonet.cli import summary
from ergonet.diagnostics import failed, find
from ergonet.diagnostics.finding import COPIES, MODEL
from ergonet.prediction.scores import classification_scores, regression_scores
from ergonet.report.opening import paragraph
from ergonet.report.overview import judge

SOUND = {"divergences": 0, "max_rhat_function": 1.001, "min_ess_bulk_function": 2000.0}
LEVELS = np.arange(1, 20) / 20


def metrics(test, **diagnostics):
    return {"num_chains": 4, "num_draws": 1000, "num_test": 300, "test": test, "diagnostics": SOUND | diagnostics}


def classes(rng, rows, power):
    """Scores of ten classes whose stated probabilities are the true ones to a power, normalized."""
    logits = rng.normal(size=(rows, 10)) * 2
    true, stated = (np.exp(scale * logits) for scale in (1, power))
    true, stated = (one / one.sum(axis=1, keepdims=True) for one in (true, stated))
    truth = (rng.random(rows)[:, None] > true.cumsum(axis=1)).sum(axis=1).clip(0, 9)
    return classification_scores(stated, truth)


def intervals(rng, rows, scale):
    """Scores of normal distributions that are too wide or too narrow by a factor."""
    truth = rng.normal(size=(rows, 1))
    mean, density = np.zeros((rows, 1)), stats.norm.logpdf(truth[:, 0], scale=scale)
    quantiles = np.broadcast_to(scale * stats.norm.ppf(LEVELS)[:, None, None], (19, rows, 1))
    return regression_scores(mean, truth, density, quantiles, LEVELS)


@pytest.mark.parametrize("rows", [12, 60, 300])
@pytest.mark.parametrize("scores", [classes, intervals])
def test_calibrated_predictions_raise_no_alarm(scores, rows):
    rng, runs = np.random.default_rng(1), 100
    alarms = sum(failed(metrics(scores(rng, rows, 1.0))) for _ in range(runs))
    assert alarms <= 0.05 * runs + 3 * np.sqrt(0.05 * 0.95 * runs)


@pytest.mark.parametrize(("rows", "sure"), [(2, 0.55), (3, 0.75), (5, 0.75)])
def test_few_rows_that_are_alike_by_chance_raise_no_alarm(rows, sure):
    """All are right, or wrong, so the error has no spread, which says nothing of its own error."""
    rng, runs, stated = np.random.default_rng(6), 300, np.tile([sure, 1 - sure], (rows, 1))
    truths = (rng.random((runs, rows)) > sure).astype(int)
    assert np.mean([failed(metrics(classification_scores(stated, truth))) for truth in truths]) < 0.08


def test_the_verdict_names_no_direction_that_the_90_percent_intervals_contradict():
    """Targets near -1 and 1: narrow intervals around 0 contain none of them, and wide ones all."""
    rng = np.random.default_rng(7)
    truth = rng.choice([-1.0, 1.0], (300, 1)) + 0.05 * rng.normal(size=(300, 1))
    quantiles = np.broadcast_to(stats.norm.ppf(LEVELS)[:, None, None], (19, 300, 1))
    found = metrics(regression_scores(np.zeros((300, 1)), truth, np.zeros(300), quantiles, LEVELS))
    assert found["test"]["coverage_90"] == 1.0
    assert found["test"]["overconfidence"] > 0.1
    assert judge(found).headline.endswith("not calibrated on the held-out rows: uneven.")
    assert "some are too wide and some too narrow" in find(found)[0].sentence
    sure = paragraph(found)[-2]
    assert "because they are uneven: they differ from the observed coverage by" in sure


def test_the_error_by_chance_is_that_of_calibrated_predictions():
    rng = np.random.default_rng(2)
    for scores in (classes, intervals):
        found = [scores(rng, 200, 1.0) for _ in range(100)]
        errors, chance = (np.array([one[name] for one in found]) for name in ("calibration", "calibration_by_chance"))
        assert abs(errors.mean() - chance.mean()) < 4 * errors.std() / 10 + 0.05 * chance.mean()


@pytest.mark.parametrize(
    ("scores", "size", "direction", "remedy"),
    [
        (classes, 0.5, "underconfident", "larger network"),
        (classes, 3.0, "overconfident", "narrower prior"),
        (intervals, 2.0, "underconfident", "learned noise"),
        (intervals, 0.5, "overconfident", "learned noise"),
    ],
)
def test_wrong_probabilities_are_a_problem_of_the_model(scores, size, direction, remedy):
    found = metrics(scores(np.random.default_rng(3), 300, size))
    (finding,) = find(found)
    assert finding.problem
    assert finding.subject == MODEL
    assert direction in finding.sentence
    assert remedy in finding.sentence
    said = judge(found)
    assert said.level == "bad"
    assert said.headline.startswith("The draws are sound, but the stated")
    assert said.headline.endswith(f"not calibrated on the held-out rows: {direction}.")
    assert summary.sentences(found)[0] == said.headline


def test_held_out_rows_that_are_copies_are_a_note():
    test = intervals(np.random.default_rng(3), 300, 1.0)
    found = metrics(test) | {COPIES: 12}
    (finding,) = find(found)
    assert (finding.problem, finding.subject) == (False, COPIES)
    assert finding.sentence.startswith(
        "12 of 300 held-out rows are copies of training rows (same inputs and target): the"
    )
    said = judge(found)
    assert (said.level, said.headline) == ("note", "The results can be used, with the reservation below.")
    assert summary.sentences(found) == [said.headline, f"! {finding.sentence}"]
    assert paragraph(found)[0] == said.headline
    assert find(metrics(test)) == ()


def test_with_unsound_draws_the_headline_is_about_these():
    test = classes(np.random.default_rng(3), 300, 0.5)
    said = judge(metrics(test, divergences=5))
    assert said.headline == "Do not rely on these results yet: there are 2 problems."


def test_errors_that_are_too_uncertain_or_of_older_runs_are_not_judged():
    test = classes(np.random.default_rng(3), 300, 0.5)
    assert not failed(metrics({**test, "calibration_standard_error": test["calibration"] / 2}))
    assert not failed(metrics({name: one for name, one in test.items() if name != "calibration_by_chance"}))


def ensemble(**changed):
    """Figures of ten chains with a warm start that stay in their modes, without held-out rows."""
    apart = SOUND | {"max_rhat_function": 3.2, "min_ess_bulk_function": 12.0, "chains_apart": True}
    return {"num_chains": 10, "num_draws": 100, "warm_start": True, "num_test": 0, "diagnostics": apart, **changed}


def test_an_ensemble_without_held_out_rows_is_said_to_be_unjudged():
    said = judge(ensemble())
    assert said.level == "note"
    assert said.headline.endswith("in different modes, which no held-out rows have judged.")
    assert len(said.sentences) == 1
    assert said.sentences[0].startswith("10 chains in different modes (R-hat of the predictions is 3.20), averaged;")
    assert not failed(ensemble())


def test_modes_have_learned_scales_of_their_own():
    mixing = {"max_rhat_scales": 7.04, "min_ess_bulk_scales": 11.0}
    of_modes = ensemble()
    of_modes["diagnostics"] |= mixing
    said = judge(of_modes)
    assert said.level == "note"
    assert "Each mode has learned scales of its own: R-hat is 7.04" in said.sentences[1]
    assert not failed(of_modes)
    assert judge(metrics({}) | {"diagnostics": SOUND | mixing}).headline.startswith("Predictions can be used, but")


def test_runs_from_before_the_means_of_chains_were_compared_keep_their_verdict():
    older = ensemble()
    del older["diagnostics"]["chains_apart"]
    assert judge(older) == judge(ensemble())


MERGING = SOUND | {"max_rhat_function": 1.06, "min_ess_bulk_function": 12.0, "chains_apart": False}


@pytest.mark.parametrize(
    "changed",
    [{"warm_start": False}, {"num_chains": 3}, {"ensemble": {"chains": [0, 1]}}, {"diagnostics": MERGING}],
)
def test_chains_that_disagree_otherwise_are_a_problem(changed):
    assert failed(ensemble(**changed))
    assert "The chains disagree" in " ".join(one.sentence for one in find(ensemble(**changed)))
