"""Baselines beside a network: their fits, their scores in the units of the data, and what is said of the network."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from ergonet.baselines import boosting as boosting_module
from ergonet.baselines import comparison
from ergonet.baselines.comparison import Baselines, compare, fit_baselines, seconds_for, verdict
from ergonet.baselines.forecast import Forecast, LeftOutError, Rows
from ergonet.baselines.linear import RIDGE_PENALTIES, logistic, ridge
from ergonet.datasets.choosing import Choices
from ergonet.datasets.tables import from_table
from ergonet.report import baselines as baselines_of_report

NEVER = float("inf")


@pytest.fixture(autouse=True)
def few_iterations(monkeypatch):
    monkeypatch.setattr(boosting_module, "MOST_ITERATIONS", 20)
    with threadpool_limits(1):
        yield


def table(rows=120, *, seed=0, unit=1.0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"])
    frame["city"] = rng.choice(["Bern", "Oslo"], rows)
    frame["y"] = unit * (2 * frame["a"] + 0.5 * rng.normal(size=rows))
    frame["kind"] = np.where(frame["a"] + 0.5 * rng.normal(size=rows) > 0, "up", "down")
    return frame


def regression(*, unit=1.0):
    frame = table(unit=unit).drop(columns="kind")
    return from_table(frame, "y", test_fraction=0.25, seed=0)


def classification():
    frame = table().drop(columns="y")
    return from_table(frame, "kind", test_fraction=0.25, seed=0)


@pytest.mark.parametrize("weights", [None, np.linspace(1, 40, 25)])
def test_ridge_has_the_error_of_leaving_out_one_row(weights):
    rows = dataclasses.replace(Rows.of(regression()).at_most(25.0, seed=1), weights=weights)
    fitted, relative = ridge(rows), np.ones(25) if weights is None else weights / weights.mean()
    errors = {}
    for penalty in RIDGE_PENALTIES:
        left = [np.arange(25) != row for row in range(25)]
        models = [Ridge(alpha=penalty).fit(rows.x[some], rows.y[some], relative[some]) for some in left]
        gaps = [rows.y[row] - np.ravel(one.predict(rows.x[row : row + 1])) for row, one in enumerate(models)]
        errors[penalty] = float(np.sqrt(np.average(np.square(gaps)[:, 0], weights=relative)))
    best = min(errors, key=lambda penalty: errors[penalty])
    assert fitted.error_sd is not None
    np.testing.assert_allclose(fitted.error_sd, errors[best], rtol=1e-6)
    expected = Ridge(alpha=best).fit(rows.x, rows.y[:, 0], relative).predict(rows.x)
    np.testing.assert_allclose(fitted.forecast(rows.x).mean[:, 0], expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("labels", [(0, 1), (0, 1, 2), (1, 3)])
def test_logistic_regression_gives_the_probabilities_of_scikit_learn(labels):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    y = np.asarray(labels)[(x[:, 0] > 0) * (len(labels) - 1) + (x[:, 1] > 1) * (len(labels) == 3) * -1 * (x[:, 0] > 0)]
    fitted = logistic(Rows(x, y, 4), until=-NEVER)  # no time: only the first penalty is tried
    found, model = fitted.forecast(x).mean, LogisticRegression(C=1.0, max_iter=200).fit(x, y)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    among = found[:, model.classes_] / found[:, model.classes_].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(among, model.predict_proba(x), rtol=1e-6)
    assert (found > 0).all()
    assert (found[:, model.classes_].argmax(axis=1) == model.predict_proba(x).argmax(axis=1)).all()


def test_classes_count_by_the_weights_of_their_rows():
    """Two rows of three say the opposite of the third one, which weighs a hundred times as much."""
    x = np.repeat(np.random.default_rng(0).normal(size=(60, 1)), 3, axis=0)
    y = (x[:, 0] > 0).astype(int)
    y[0::3], y[1::3] = 1 - y[0::3], 1 - y[1::3]
    for weights, says in ((np.tile([1.0, 1.0, 100.0], 60), 1), (None, 0)):
        rows = Rows(x, y, 2, weights)
        for fitted in (logistic(rows, until=NEVER), boosting_module.boosting(rows, until=NEVER)):
            stated = fitted.forecast(np.array([[-2.0], [2.0]])).mean[:, 1]
            assert (stated[1] > stated[0]) == says
            assert np.abs(stated - 0.5).max() > (0.4 if weights is not None else 0.1)


def network_of(dataset):
    """The test predictions of a made-up network, as the evaluation of a fit has them."""
    if dataset.task == "classification":
        truth = np.asarray(dataset.y_test)
        return {"probabilities": np.where(np.arange(2) == truth[:, None], 0.9, 0.1), "truth": truth}
    truth, units = dataset.preprocessing.inverse_mean(dataset.y_test), dataset.preprocessing.target_sd
    mean = truth + 0.01 * units
    return {"mean": mean, "truth": truth, "log_density": stats.norm.logpdf(truth, mean, 0.02 * units).sum(axis=1)}


def test_scores_are_those_of_the_gaussian_in_the_unit_of_the_target():
    one, thousand = (regression(unit=unit) for unit in (1.0, 1000.0))
    methods = []
    for dataset in (one, thousand):
        baselines = fit_baselines(dataset, seconds=NEVER)
        assert baselines.left_out == ()
        methods.append(compare(baselines, dataset, network_of(dataset))["methods"])
    small, large = ([method["test"] for method in some] for some in methods)
    assert [method["name"] for method in methods[0]] == ["ridge regression", "gradient boosting"]
    for before, after in zip(small, large, strict=True):
        assert after["rmse"] == pytest.approx(1000 * before["rmse"], rel=1e-3)
        assert after["nll"] == pytest.approx(before["nll"] + np.log(1000), abs=1e-3)
        assert after["calibration"] == pytest.approx(before["calibration"], abs=1e-6)
    assert small[0]["rmse"] == pytest.approx(0.5, rel=0.3)  # the noise
    assert small[0]["nll"] == pytest.approx(stats.norm(0, 0.5).entropy(), abs=0.25)
    assert methods[0][0]["difference"]["nll"] < 0


def test_differences_are_paired_by_row():
    dataset = classification()
    arrays = network_of(dataset)
    found = compare(fit_baselines(dataset, seconds=NEVER), dataset, arrays)
    linear = found["methods"][0]
    forecast = logistic(Rows.of(dataset), until=NEVER).forecast(dataset.x_test)
    gaps = -np.log(0.9) + forecast.log_density(arrays["truth"])
    assert linear["name"] == "logistic regression"
    assert linear["difference"]["nll"] == pytest.approx(gaps.mean(), rel=1e-6)
    assert linear["difference"]["nll_standard_error"] == pytest.approx(stats.sem(gaps), rel=1e-6)
    assert linear["difference"]["error"] == pytest.approx(-linear["test"]["error"])
    assert "earns its place" in found["sentence"]


def test_the_error_of_a_difference_of_rmse_is_that_of_its_bootstrap():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=400)
    losses = [(shared + 0.2 * rng.normal(size=400)) ** 2 for _ in range(2)]
    rows = [comparison._RowScores(np.zeros(400), one, is_squared=True) for one in losses]
    found = comparison._differences(*rows)
    again = rng.integers(0, 400, (2000, 400))
    resampled = np.sqrt(losses[0][again].mean(axis=1)) - np.sqrt(losses[1][again].mean(axis=1))
    assert found["rmse"] == pytest.approx(np.sqrt(losses[0].mean()) - np.sqrt(losses[1].mean()))
    assert found["rmse_standard_error"] == pytest.approx(resampled.std(), rel=0.1)


@pytest.mark.parametrize(
    ("difference", "said"),
    [
        (-0.5, "The network earns its place: "),
        (0.1, "The network has yet to earn its place: its log score is within error of "),
        (0.5, "The network does not earn its place: "),
    ],
)
def test_the_verdict_is_beside_the_best_baseline(difference, said):
    def method(name, nll, gap):
        return {"name": name, "test": {"nll": nll}, "difference": {"nll": gap, "nll_standard_error": 0.1}}

    methods = [method("ridge regression", 2.0, difference - 9.0), method("boosting", 1.0, difference)]
    sentence = verdict(methods, 100)
    assert said in sentence
    assert f"boosting, by {abs(difference):.2f} ± 0.10" in sentence or f"by {abs(difference):.2f} ± 0.10" in sentence
    assert "boosting" in sentence


def test_of_several_targets_none_decides_by_its_unit():
    """The network is worse in all targets but the one with the largest unit."""
    rng, truth = np.random.default_rng(0), table(unit=1000.0).drop(columns=["kind", "city"])
    for name in ("p", "q"):
        truth[name] = truth["a"] + 0.5 * rng.normal(size=len(truth))
    data = from_table(truth, ["y", "p", "q"], test_fraction=0.25, seed=0)
    known = data.preprocessing.inverse_target(data.y_test)
    mean = known + np.asarray([0.0, 3.0, 3.0]) * rng.normal(size=known.shape)
    found = compare(
        fit_baselines(data, seconds=NEVER), data, {"mean": mean, "truth": known, "log_density": np.zeros(len(mean))}
    )
    assert np.square(mean - known).mean() < min(one["test"]["rmse"] for one in found["methods"]) ** 2
    metrics = {"num_test": len(mean), "baselines": found, "test": {}}
    difference, judged = found["methods"][0]["difference"], baselines_of_report.rival(metrics)
    sd = data.preprocessing.target_sd
    linear, _ = (comparison.evaluated(one, data)[1]["mean"] for one in fit_baselines(data, seconds=NEVER).fitted)
    roots = [np.sqrt(np.square((one - known) / sd).mean()) for one in (mean, linear)]
    assert difference["scaled_rmse"] == pytest.approx(roots[0] - roots[1], rel=1e-3)
    assert judged is not None
    assert judged.is_closer
    assert baselines_of_report.table(metrics)["names"][-1].startswith("NLL: network minus")
    assert (
        "RMSE in standard deviations of the targets: network minus method"
        in baselines_of_report.table(metrics)["names"]
    )


@pytest.mark.parametrize("rows", [2, 3, 8, 100])
def test_methods_that_are_as_good_as_the_network_are_seldom_clearly_better_or_worse(rows):
    """Of few rows, two standard errors are exceeded by chance in up to 30 of 100 splits."""
    rng, standings, closer = np.random.default_rng(0), [], []
    for _ in range(2000):
        losses, wrong = rng.normal(size=(2, rows)), rng.random((2, rows)) < 0.3
        scores = [comparison._RowScores(*one, is_squared=False) for one in zip(losses, wrong * 1.0, strict=True)]
        method = {"test": {"nll": 1.0}, "difference": comparison._differences(*scores)}
        found = comparison.rival([method], rows)
        standings.append(found.standing)
        closer.append(comparison._is_closer(method["difference"], rows))
    assert np.mean([one != comparison.SIMILAR for one in standings]) == pytest.approx(2 * stats.norm.sf(2), abs=0.015)
    assert np.mean(closer) < stats.norm.sf(2) + 0.01


@pytest.mark.parametrize(("rows", "is_clear"), [(2, False), (8, False), (20, True), (None, True)])
def test_as_many_standard_errors_are_clear_with_many_rows_only(rows, is_clear):
    methods = [{"name": "ridge", "test": {"nll": 1.0}, "difference": {"nll": 0.23, "nll_standard_error": 0.1}}]
    methods[0]["difference"] |= {"rmse": 2.3, "rmse_standard_error": 1.0}
    assert (comparison.rival(methods, rows).standing == comparison.WORSE) == is_clear
    assert ("does not earn" in verdict(methods, rows)) == is_clear
    assert comparison._is_closer(methods[0]["difference"], rows) == is_clear


@pytest.mark.parametrize(
    ("own", "other", "rows", "is_closer"), [(2, 0, 2, False), (5, 0, 5, False), (6, 0, 9, True), (12, 3, 99, True)]
)
def test_the_sign_test_counts_rows_that_one_of_both_misclassifies(own, other, rows, is_closer):
    wrong = np.zeros((2, rows))
    wrong[0, :own], wrong[1, own : own + other] = 1.0, 1.0
    difference = comparison._differences(*(comparison._RowScores(one, one, is_squared=False) for one in wrong))
    assert comparison._is_closer(difference, rows) == is_closer
    test = stats.binomtest(own, own + other, alternative="greater")
    assert is_closer == (test.pvalue < stats.norm.sf(2))


def test_a_method_that_fails_is_a_sentence(monkeypatch):
    def fail(rows, **_):
        raise ValueError("no trees\ntoday")

    monkeypatch.setattr(comparison, "_boosting", fail)
    found = fit_baselines(regression(), seconds=NEVER)
    assert [one.name for one in found.fitted] == ["ridge regression"]
    assert found.left_out == ("Gradient boosting failed: ValueError: no trees today",)
    dataset = regression()
    assert len(compare(found, dataset, network_of(dataset))["methods"]) == 1
    assert "sentence" not in compare(Baselines(), dataset, network_of(dataset))


def test_boosting_does_what_fits_in_the_time(monkeypatch):
    monkeypatch.setattr(boosting_module, "MOST_ITERATIONS", 300)
    now, fit = [0.0], HistGradientBoostingClassifier.fit

    def slow_fit(self, x, y, sample_weight):
        before = getattr(self, "n_iter_", 0)
        fit(self, x, y, sample_weight)
        now[0] += 1.0 + 0.1 * (self.n_iter_ - before)
        return self

    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", slow_fit)
    for module in (boosting_module, comparison):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    short = fit_baselines(classification(), seconds=20.0)
    assert short.left_out == ()
    assert short.fitted[1].says.endswith("chosen on 1 held-out fold")
    assert now[0] < 20.0
    now[0] = 0.0
    assert fit_baselines(classification(), seconds=2.0).left_out == (
        "Gradient boosting was left out: it takes longer than a baseline may.",
    )
    assert now[0] < 6.0


def test_without_time_or_with_one_class_there_is_a_sentence():
    dataset = classification()
    assert "leaves no time" in fit_baselines(dataset, seconds=seconds_for(60.0, 0.2)).left_out[0]
    one_class = dataclasses.replace(dataset, y_train=np.zeros_like(dataset.y_train))
    assert "only one class" in fit_baselines(one_class, seconds=NEVER).left_out[0]
    found = compare(fit_baselines(one_class, seconds=NEVER), dataset, network_of(dataset))
    assert found["methods"] == []
    assert baselines_of_report.sentences({"baselines": found}) == found["left_out"]
    assert baselines_of_report.summary_rows({"baselines": found}) == baselines_of_report.summary_rows({}) == []
    assert baselines_of_report.table({}) == {}


def test_many_targets_and_classes_without_rows():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    with pytest.raises(LeftOutError, match="there are 9 targets"):
        boosting_module.boosting(Rows(x, rng.normal(size=(60, 9)), 0), until=NEVER)
    probabilities = boosting_module.boosting(Rows(x, (x[:, 0] > 0) * 2, 3), until=NEVER).forecast(x).mean
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (probabilities[:, 1] > 0).all()


def test_indices_of_categories_are_no_numbers_for_baselines():
    choices = Choices(one_hot_limit=1)
    data = from_table(table().drop(columns="kind"), "y", choices=choices, test_fraction=0.25, seed=0)
    assert data.preprocessing.embeddings == (3,)
    found = Rows.of(data).x
    np.testing.assert_array_equal(found[:, :2], data.x_train[:, :2])
    np.testing.assert_array_equal(found[:, 2:].argmax(axis=1), data.x_train[:, 2])
    assert (found[:, 2:].sum(axis=1) == 1).all()


def test_large_tables_are_cut_to_some_of_their_rows(monkeypatch):
    monkeypatch.setattr(comparison, "MOST_WORK", 600.0)
    found = fit_baselines(regression(), seconds=NEVER)
    assert {one.num_train for one in found.fitted} == {600 // 5 // 4}


def test_the_density_of_several_targets_is_joint():
    forecast = Forecast(np.zeros((3, 2)), np.asarray([1.0, 2.0]))
    y = np.arange(6.0).reshape(3, 2)
    expected = stats.norm.logpdf(y[:, 0]) + stats.norm.logpdf(y[:, 1], scale=2.0)
    np.testing.assert_allclose(forecast.log_density(y), expected)


@pytest.mark.parametrize("num_rows", [4, 7])
def test_boosting_of_a_few_rows_skips_folds_without_rows(num_rows):
    x = np.arange(float(num_rows))[:, None]
    found = boosting_module.boosting(Rows(x, x, 0), until=NEVER)
    assert f"chosen on {min(num_rows, 5)} held-out folds" in found.says


def counts(*, rows, dispersion):
    """A table of counts around a log-linear mean, whose last fourth is for testing, and the true means of that."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["a", "b"])
    means = np.exp(0.5 + 0.7 * frame["a"].to_numpy())
    frame["k"] = rng.negative_binomial(1 / dispersion, 1 / (1 + dispersion * means))
    data = from_table(frame, "k", task="count", test_fraction=0.25, seed=0)
    return data, means[data.test_rows][:, None]


def test_baselines_of_counts_are_of_their_distribution():
    """A normal distribution of rare counts is far from the truth, and any network would be better."""
    data, means = counts(rows=800, dispersion=1.5)
    density = stats.nbinom.logpmf(data.y_test, 1 / 1.5, 1 / (1 + 1.5 * means))[:, 0]
    network = {"mean": means, "truth": np.asarray(data.y_test), "log_density": density}
    found = compare(fit_baselines(data, seconds=NEVER), data, network)
    linear, trees = found["methods"]
    assert [linear["name"], trees["name"]] == ["Poisson regression", "gradient boosting"]
    assert linear["test"]["nll"] == pytest.approx(-density.mean(), abs=0.03)
    assert trees["test"]["nll"] == pytest.approx(-density.mean(), abs=0.12)
    for one in (linear, trees):
        assert one["test"]["calibration"] < 2 * one["test"]["calibration_by_chance"]
    assert "within error of that of the best baseline, Poisson regression" in found["sentence"]


def test_rare_counts_have_log_probabilities_and_no_densities():
    frame = table().drop(columns=["kind", "y"])
    frame["k"] = (np.arange(len(frame)) % 40 == 3).astype(int)
    data = from_table(frame, "k", task="count", test_fraction=0.25, seed=0)
    baselines = fit_baselines(data, seconds=NEVER)
    assert len(baselines.fitted) == 2
    for one in baselines.fitted:
        scores, found = comparison.evaluated(one, data)
        assert scores["nll"] > 0
        assert (found["log_density"] <= 0).all()
        assert np.isfinite(list(scores.values())).all()
