"""The first paragraph answers four questions in three to five sentences, from the verdict and the scores."""

from dataclasses import replace

import pytest

from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet.cli import summary
from ergonet.report import baselines, overview
from ergonet.report.opening import paragraph
from ergonet.runs import facts
from tests.report_records import classification_record, regression_record

SMALL = {"chains": 4, "draws": 200}


@pytest.fixture(scope="module")
def classes():
    return classification_record(**SMALL).metrics


@pytest.fixture(scope="module")
def numbers():
    return regression_record(**SMALL).metrics


def beside(metrics, name, difference, **more):
    """The metrics with a baseline whose log score differs by so much, with an error of 0.1, and more differences."""
    key = "error" if "error" in metrics["test"] else "rmse"
    test = {key: 0.25, f"{key}_standard_error": 0.01, "nll": 1.0}
    method = {
        "name": name,
        "says": "penalty chosen",
        "num_train": 9,
        "test": test,
        "difference": {"nll": difference, "nll_standard_error": 0.1, **more},
    }
    return {**metrics, "baselines": {"methods": [method], "left_out": []}}


def changed(metrics, table, **figures):
    return {**metrics, table: {**metrics[table], **figures}}


def said(metrics):
    found = paragraph(metrics)
    assert 3 <= len(found) <= 5
    assert all(one[0].isupper() and one.endswith(".") for one in found)
    assert found[0] == overview.judge(metrics).headline  # one source
    assert found[-1].startswith("Next: ")
    return found


def test_a_good_classification(classes):
    first, error, beside_it, sure, then = said(beside(classes, "logistic regression", -0.5))
    assert first == "Every check of the draws passed: the results can be used."
    share = f"{100 * classes['test']['error']:.1f} %"
    assert error.startswith(f"On 240 held-out rows the network misclassifies {share} ± ")
    assert error.endswith("the best simple method, logistic regression, misclassifies 25.0 % ± 1.0.")
    assert "the network is clearly better" in beside_it
    assert sure.startswith("Nothing on these rows contradicts the stated probabilities")
    assert "`ergonet predict`" in then


def test_a_regression_no_better_than_its_baseline(numbers):
    _, error, beside_it, sure, _ = said(beside(numbers, "ridge regression", -0.1))
    assert "typical error of the network is " in error
    assert "in the unit of the target" in error
    assert "no clear difference" in beside_it
    assert f"the 90 % intervals contain {100 * numbers['test']['coverage_90']:.1f} %" in sure


def test_worse_than_the_baseline(numbers):
    metrics = beside(numbers, "gradient boosting", 0.3)
    first, _, beside_it, _, then = said(metrics)
    assert first == "The draws are sound, but gradient boosting predicts the held-out rows better."
    assert overview.judge(metrics).level == "note"
    assert "the network is clearly worse" in beside_it
    assert then.startswith("Next: use gradient boosting, or try another prior")


@pytest.mark.parametrize("name", ["ridge regression", "logistic regression"])
def test_worse_than_a_linear_baseline(numbers, name):
    metrics = beside(numbers, name, 0.3)
    advice = "fit again with `--direct`, which adds a linear model to the network."
    assert said({**metrics, "has_linear_part": False})[-1] == f"Next: use {name}, or {advice}"
    assert "try another prior" in said({**metrics, "has_linear_part": True})[-1]
    worse = f"The network does not earn its place: its log score is worse than that of the best baseline, {name}, by"
    told = baselines.sentences({**metrics, "has_linear_part": False})
    assert told == [f"{worse} 0.30 ± 0.10 nats per row.", f"Use {name}, or {advice}"]
    (similar,) = baselines.sentences({**beside(numbers, name, -0.1), "has_linear_part": False})
    assert similar.startswith("The network has yet to earn its place")
    assert baselines.sentences({**metrics, "fallback": "linear"}) == told[:1]


MORE_ERRORS = {
    "numbers": ({"rmse": 20.0, "rmse_standard_error": 2.0}, "predicts the held-out rows more closely", "smaller"),
    "classes": ({"error": 0.1, "error_standard_error": 0.02}, "misclassifies fewer of the held-out rows", "fewer"),
}


@pytest.mark.parametrize("task", MORE_ERRORS)
@pytest.mark.parametrize("difference", [-0.5, 0.1])
def test_clearly_more_errors_than_a_baseline_are_a_note_whatever_the_log_score(request, task, difference):
    """The summary, the verdict, the first paragraph of the report and its advice say the same."""
    more, lead, errors = MORE_ERRORS[task]
    metrics = beside(request.getfixturevalue(task), "linear regression", difference, **more)
    metrics["has_linear_part"] = False
    headline = f"The draws are sound, but linear regression {lead}."
    first, quality, beside_it, _, then = said(metrics)
    assert (first, overview.judge(metrics).level, summary.sentences(metrics)) == (headline, "note", [headline])
    assert "the closest simple method, linear regression, " in quality
    judged = "the network is clearly better" if difference < 0 else "these rows show no clear difference"
    assert beside_it.startswith(f"Its errors are clearly {errors}; judged by the probabilities that both gave")
    assert beside_it.endswith(f"{judged}.")
    assert then.startswith("Next: use linear regression for point predictions, or fit again with `--direct`")
    place, advice = baselines.sentences(metrics)
    assert place.endswith("ts point predictions are clearly worse than those of linear regression.")
    assert ("The network's log score is better than" in place) == (difference < 0)
    assert advice.lower() == then.removeprefix("Next: ").lower()


def test_errors_of_several_targets_are_compared_in_their_standard_deviations(numbers):
    more = {"scaled_rmse": 0.3, "scaled_rmse_standard_error": 0.1}
    metrics = beside(numbers, "ridge regression", 0.1, **more)
    assert overview.judge(metrics).headline.endswith("ridge regression predicts the held-out rows more closely.")
    assert said(metrics)[2].startswith("Its errors are clearly smaller in standard deviations of the targets; judged")


def test_the_closest_of_several_baselines_is_named(numbers):
    """Not the one with the best log score, unless that is clearly ahead of the network."""
    ridge = beside(numbers, "ridge regression", -0.5, rmse=20.0, rmse_standard_error=2.0)["baselines"]["methods"][0]
    for difference, name in ((-0.1, "ridge regression"), (0.5, "gradient boosting")):
        metrics = beside(numbers, "gradient boosting", difference, rmse=9.0, rmse_standard_error=2.0)
        metrics["baselines"]["methods"].append({**ridge, "test": {**ridge["test"], "nll": 2.0}})
        assert f"The draws are sound, but {name} predicts" in said(metrics)[0]


def test_with_a_few_rows_a_difference_must_be_larger_to_be_clear(numbers):
    metrics = beside(numbers, "ridge regression", 0.3, rmse=6.0, rmse_standard_error=2.0)
    assert overview.judge(metrics).level == "note"
    few = {**metrics, "num_test": 3}
    assert overview.judge(few).level == "good"
    assert "no clear difference" in said(few)[2]
    (told,) = baselines.sentences(few)
    assert told.endswith(
        "is within error of that of the best baseline, ridge regression (worse by 0.30 ± 0.10 nats per row)."
    )
    older = {name: value for name, value in metrics.items() if name != "num_test"}
    assert overview.judge(older) == overview.judge(metrics)


def test_counts_and_one_baseline_too_few(numbers):
    _, error, _, _ = said(changed(numbers, "test", deviance=1.1))
    assert "(root mean square, as a count)" in error
    assert error.endswith("no simpler method was fitted to compare this with.")


def test_what_is_slightly_off_is_said_and_is_no_problem(classes):
    off = {"calibration": 0.085, "calibration_standard_error": 0.011, "calibration_by_chance": 0.032}
    off |= {"overconfidence": -0.085, "overconfidence_standard_error": 0.011}
    first, *_, sure, _ = said(changed(classes, "test", **off))
    assert first == "Every check of the draws passed: the results can be used."
    assert sure.startswith("The stated probabilities are slightly underconfident, by less than this page calls")
    assert "8.5 % on average" in sure
    by_chance = off | {"calibration_by_chance": 0.07}
    assert said(changed(classes, "test", **by_chance))[-2].startswith("Nothing on these rows contradicts")


@pytest.mark.parametrize(("mean", "direction"), [(0.3, "overconfident"), (-0.3, "underconfident")])
def test_miscalibrated(classes, mean, direction):
    metrics = changed(classes, "test", calibration=0.3, overconfidence=mean)
    *_, sure, then = said(metrics)
    assert sure.startswith(f"Do not take the stated probabilities at face value, because they are {direction}: ")
    assert "30.0 %" in sure
    assert "change the model" in then


def test_not_converged(classes):
    first, *_, sure, then = said(changed(classes, "diagnostics", max_rhat_function=1.4, divergences=3))
    assert first == "Do not rely on these results yet: there are 2 problems."
    assert sure.endswith("but other draws may change them.")
    assert then == "Next: deal with the problems listed below, the most serious first, and fit again."


def test_no_held_out_rows(numbers):
    _, quality, then = said({**numbers, "test": {}, "num_test": 0})
    assert quality.startswith("No rows were held out, so nothing shows how good")
    assert "`--test-fraction 0.2`" in then


def test_a_stand_in_and_no_diagnostics(numbers):
    metrics = {**numbers, "fallback": {"name": "a linear baseline", "sentence": "There were no draws."}}
    first, error, *_ = said(metrics)
    assert first == "Not the posterior of the network: a linear baseline."
    assert "of the stand-in is" in error
    assert "fit again" in said({**numbers, "diagnostics": {}})[-1]


def test_unknown_figures_of_a_baseline_are_left_out(numbers):
    found = said(beside(numbers, "ridge regression", None))
    assert len(found) == 4
    assert "ridge regression" in found[1]


def test_the_page_begins_with_it(tmp_path):
    from ergonet.report import write_report

    record = regression_record(rows=3, chains=1, draws=1)
    record = replace(record, metrics=beside(record.metrics, "<b>boosting", 0.3))
    page = write_report(record, tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.index(paragraph(record.metrics)[0]) < page.index("<h2>")
    assert "the best simple method, &lt;b&gt;boosting, has" in page
    assert page.index("Next: ") < page.index("<h2>")


@pytest.mark.parametrize("direct", [True, False, None])
def test_direct_connections_are_told(direct):
    network = {"hidden": [3], "activation": "tanh", "bias": True} | ({} if direct is None else {"direct": direct})
    told = overview._network({"dim": 16}, {"network": network})
    with_them = "inputs connected to the outputs directly, too; " if direct else ""
    assert told == f"1 hidden layer of 3 units; tanh; with biases; {with_them}16 parameters in all"
    several = {"network": {**network, "hidden": [3, 3]}}, {"network": {**network, "hidden": [3, 4]}}
    assert [overview._network({}, one).split(";")[0] for one in several] == [
        "2 hidden layers of 3 units",
        "2 hidden layers of 3 and 4 units",
    ]
    model = BayesianNetwork(MLP((2, 3, 1), direct=bool(direct)), priors.Normal(), likelihoods.Gaussian(0.1))
    shown = "biases, direct connections, 15 weights" if direct else "biases, 13 weights"
    assert facts._network(model) == f"2-3-1, tanh, with {shown}"


def test_a_note_that_is_no_cost_is_a_reservation_and_notes_are_no_problems(classes):
    reserved = {**classes, "until": {"met": False, "sentence": "The stop rule is not met."}}
    assert overview.judge(reserved).headline == "The results can be used, with the reservation below."
    both = changed(reserved, "diagnostics", divergences=30)
    assert overview.judge(both).headline == "Do not rely on these results yet: there is one problem."
