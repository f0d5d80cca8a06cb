"""Counts, other likelihoods and weights in estimators."""

from typing import Any

import numpy as np
import numpyro.distributions as dist
import pytest
from sklearn.base import clone
from sklearn.metrics import d2_tweedie_score

from ergonet import HMC, BayesianClassifier, BayesianCountRegressor, BayesianRegressor, likelihoods
from ergonet._errors import DataError, SettingError
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.likelihoods import target_scaling, with_unit
from ergonet.datasets.learning import learn
from ergonet.models.registry import LIKELIHOODS

SHORT = {
    "hidden": (3,),
    "kernel": HMC(num_steps=4, metric="identity"),
    "num_chains": 1,
    "num_warmup": 30,
    "num_draws": 30,
}
SHORT |= {"random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")


def rows(seed=0, count=40):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2))
    return x, rng.poisson(np.exp(2 + 0.5 * x[:, 0]))


def scaling(likelihood, target, task="regression"):
    target = np.asarray(target, float)[:, None]
    features = {"x": np.arange(len(target), dtype=float)}
    return learn(features, target, task=task, target_names=("y",), target_scaling=target_scaling(likelihood, task))


def test_targets_are_scaled_as_the_values_of_the_likelihood_allow():
    y = np.array([1.0, 4.0, 2.0])
    assert scaling("student-t", y).target_mean == y.mean()
    divided = scaling({"name": "log-normal", "units": "scaled"}, y)
    np.testing.assert_allclose([divided.target_mean[0], divided.target_sd[0]], [0, 2])
    assert scaling("log-normal", [-1.0, 2.0, 3.0]).target_sd == 1  # the likelihood names the value as it is
    for kept in (scaling("beta", [0.1, 0.7, 0.2]), scaling(None, [3.0, 0.0, 1.0], task="count")):
        assert (kept.target_mean, kept.target_sd) == (0, 1)
    own = likelihoods.FromDistribution(lambda f: dist.Poisson(f[0] ** 2))
    assert scaling(own, y).target_sd == 1


def test_what_the_data_determine_is_filled_in():
    assert with_unit(None, "count", [[2], [4]]) == {"name": "negative-binomial", "unit": 3.0}
    assert with_unit({"name": "poisson", "unit": 7.0}, "count", [[2]]) == {"name": "poisson", "unit": 7.0}
    assert with_unit("student-t", "regression", [[2]]) == "student-t"
    assert with_unit("poisson", "count", ()) == {"name": "poisson"}
    task = Task("classification", 2, 4)
    assert build.likelihood("ordinal", task) == likelihoods.Ordinal(4)
    with pytest.raises(SettingError, match="has 3 classes, but the data 4"):
        build.likelihood(likelihoods.Ordinal(3), task)


@pytest.mark.parametrize("name", LIKELIHOODS.names())
def test_every_name_is_for_its_tasks_only(name):
    tasks = Task("classification", 2, 2), Task("regression", 2, 1, (1.0,)), Task("count", 2, 1, (1.0,))
    for kind, task in ((task.kind, task) for task in tasks):
        if name in LIKELIHOODS.names(kind):
            assert build.likelihood(name, task).is_classification == (kind == "classification")
        else:
            with pytest.raises(SettingError, match=f"is not for {kind}. Choose"):
                build.likelihood(name, task)


@pytest.mark.slow
def test_counts_are_predicted_in_their_own_unit(tmp_path):
    x, y = rows()
    settings = SHORT | {"kernel": {"name": "hmc", "num_steps": 4, "metric": "identity"}}
    fitted = BayesianCountRegressor(**settings).fit(x, y)
    assert fitted.model_.likelihood == likelihoods.NegativeBinomial(unit=float(y.mean()))
    mean, sd = fitted.predict(x, return_std=True)
    assert np.all(sd**2 > mean)  # more than Poisson
    interval = fitted.predict_interval(x, 0.8)
    assert np.all(interval == np.floor(interval))
    assert np.all(interval[:, 0] <= interval[:, 1])
    drawn = fitted.sample_y(x, 5, random_state=1)
    assert drawn.shape == (40, 5)
    assert np.all((drawn >= 0) & (drawn == np.floor(drawn)))
    assert fitted.score(x, y) > 0
    both = BayesianCountRegressor(**settings).fit(x, np.column_stack([y, y[::-1]]))
    each = [d2_tweedie_score(one, two, power=1) for one, two in zip([y, y[::-1]], both.predict(x).T, strict=True)]
    assert both.score(x, np.column_stack([y, y[::-1]])) == pytest.approx(np.mean(each))
    fitted.save(tmp_path / "saved")
    again = BayesianCountRegressor.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.predict(x), mean)


def test_what_is_no_count_is_named():
    x, y = rows()
    with pytest.raises(DataError, match=r"^`y` has 0.5 at data row 4 .*one of 1 rows that are not counts"):
        BayesianCountRegressor(**SHORT).fit(x, np.where(np.arange(40) == 3, 0.5, y))


@pytest.mark.slow
def test_rows_of_weight_0_are_left_out():
    x, y = rows()
    used = np.arange(40) < 33
    weights = np.where(used, 1.5, 0.0)
    one = BayesianRegressor(likelihood="student-t", **SHORT).fit(x, y, sample_weight=weights)
    other = BayesianRegressor(likelihood="student-t", **SHORT).fit(x[used], y[used], sample_weight=weights[used])
    np.testing.assert_array_equal(one.predict(x), other.predict(x))


@pytest.mark.slow
def test_classes_have_weights():
    x, y = rows()
    labels = np.where(y > np.quantile(y, 0.85), "many", "few")
    plain = BayesianClassifier(**SHORT).fit(x, labels).predict_proba(x)
    weighing: Any = clone(BayesianClassifier(class_weight="balanced", **SHORT))
    balanced = weighing.fit(x, labels).predict_proba(x)
    assert np.mean(balanced[:, 1]) > np.mean(plain[:, 1]) + 0.05
    with pytest.raises(DataError, match="only one class"):
        BayesianClassifier(**SHORT).fit(x, labels, sample_weight=np.where(labels == "many", 0.0, 1.0))


@pytest.mark.parametrize("weights", [np.ones(3), np.full(40, -1.0), np.zeros(40)])
def test_impossible_weights_are_refused(weights):
    x, y = rows()
    with pytest.raises(DataError, match="`sample_weight`"):
        BayesianCountRegressor(**SHORT).fit(x, y, sample_weight=weights)
