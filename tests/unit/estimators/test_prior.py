"""The prior that estimators choose where nobody chose one, and those given by pattern."""

import tomllib
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss

from ergonet import HMC, BayesianClassifier, BayesianRegressor, priors
from ergonet._errors import SettingError
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.settings import NetworkSettings, Settings, resolve
from ergonet.datasets import from_table
from ergonet.models.network import MLP
from ergonet.models.prior import assign
from ergonet.runs.toml import to_toml

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
SHORT = {"kernel": HMC(num_steps=12), "num_chains": 2, "num_warmup": 80, "num_draws": 80, "random_state": 0}


@pytest.mark.parametrize(("task", "scale"), [("regression", 2.0), ("classification", 4.0)])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_output_weights_are_wider_by_default(task, scale, hidden, bias):
    sizes = (3, *hidden, 2)
    chosen = build.prior(None, Task(task, 3, 2, (1.0, 1.0)), NetworkSettings(hidden=hidden, bias=bias))
    found = assign(chosen, MLP(sizes, bias=bias).leaves())
    by_path = dict(zip(found.paths, found.priors, strict=True))
    assert by_path[f"layers.{len(sizes) - 2}.weight"] == priors.FanInNormal(scale)
    assert all(by_path[f"layers.{i}.weight"] == priors.FanInNormal(1.0) for i in range(len(sizes) - 2))
    assert all(by_path[path] == priors.Normal(1.0) for path in by_path if path.endswith("bias"))


@pytest.mark.parametrize("hidden", [(5,), (5, 4)])
@pytest.mark.parametrize("choice", [None, {"scale": 16.0, "inputs": {"name": "laplace"}}])
def test_direct_connections_have_the_variance_of_one_output(hidden, choice):
    network = NetworkSettings(hidden=hidden, direct=True)
    chosen = build.prior(choice, Task("classification", 3, 2), network)
    found = assign(chosen, MLP((3, *hidden, 2), direct=True).leaves())
    assert dict(zip(found.paths, found.priors, strict=True))["direct.weight"] == priors.FanInNormal(1.0)


@pytest.mark.parametrize("classes", [(), ("u", "v"), ("u", "v", "w")])
@pytest.mark.parametrize("hidden", [[], [5, 4]])
def test_the_command_builds_the_model_of_the_estimators(classes, hidden, monkeypatch):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "b": rng.normal(size=40)})
    frame["y"] = np.resize(classes, 40) if classes else 3 * frame["a"] + 7
    dataset = from_table(frame, "y", test_fraction=0.0)
    settings = resolve("table.csv", {}, {"network": {"hidden": hidden}})
    task = Task.of(dataset.preprocessing)
    completed = build.complete(settings, dataset.preprocessing, dataset.y_train)
    model = build.model(completed, task)
    estimator = BayesianClassifier if classes else BayesianRegressor
    unfinished = estimator(hidden=tuple(hidden))
    monkeypatch.setattr("ergonet.estimators.base.sample", Mock(side_effect=StopIteration))
    with pytest.raises(StopIteration):
        unfinished.fit(frame[["a", "b"]], frame["y"])
    assert unfinished.model_ == model
    again = Settings.from_table(tomllib.loads(to_toml(completed.to_table())))
    assert build.model(again, task) == model
    chosen = unfinished._fitted_settings
    assert chosen.run == completed.run
    assert build.kernel(chosen) == build.kernel(completed)


def test_a_scale_alone_is_that_of_the_output_weights():
    task, network = Task("regression", 3, 1, (1.0,)), NetworkSettings(hidden=(5,))
    chosen = build.prior({"scale": 0.5}, task, network)
    assert isinstance(chosen, dict)
    assert chosen["layers.1.weight"] == priors.FanInNormal(0.5)
    assert chosen["*.weight"] == priors.FanInNormal(1.0)


@pytest.mark.slow
def test_names_stand_for_priors_by_pattern(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 2))
    given = {"layers.0.*": "fan-in-normal", "*": "normal"}
    fitted = BayesianRegressor(hidden=(4,), prior=given, **(SHORT | {"kernel": "hmc", "num_draws": 20})).fit(x, x[:, 0])
    kinds = [type(one).__name__ for one in fitted.model_.prior.priors]
    assert kinds == ["FanInNormal", "FanInNormal", "Normal", "Normal"]
    fitted.save(tmp_path / "model")
    loaded = BayesianRegressor.load(tmp_path / "model")
    assert loaded.prior == given
    assert np.array_equal(loaded.predict(x), fitted.predict(x))


@pytest.mark.slow
def test_a_table_gives_a_prior_its_settings(tmp_path):
    x = np.random.default_rng(0).normal(size=(40, 2))
    given = {"prior": {"name": "normal-gamma", "parametrization": "centered"}, "likelihood": {"name": "gaussian"}}
    settings = given | SHORT | {"kernel": "gibbs", "num_warmup": 20, "num_draws": 20}
    fitted = BayesianRegressor(hidden=(3,), **settings).fit(x, x[:, 0])
    assert fitted.model_.prior.priors[0] == priors.NormalGamma(parametrization="centered")
    assert {"max_rhat_scales", "min_ess_bulk_scales"} <= set(fitted.diagnostics_)
    fitted.save(tmp_path / "model")
    assert BayesianRegressor.load(tmp_path / "model").prior == given["prior"]
    task, network = Task("regression", 2, 1, (1.0,)), NetworkSettings(hidden=(3,))
    patterns = build.prior({"*.bias": "normal", "*": given["prior"]}, task, network)
    assert patterns == {"*.bias": priors.Normal(), "*": priors.NormalGamma(parametrization="centered")}


def test_a_pattern_or_a_name_that_fits_nothing_is_refused():
    x = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(SettingError, match=r"layers\.7"):
        BayesianRegressor(prior={"layers.7.weight": "normal", "*": "normal"}, **SHORT).fit(x, x[:, 0])
    with pytest.raises(SettingError, match="Did you mean 'laplace'"):
        BayesianRegressor(prior={"*": "laplac"}, **SHORT).fit(x, x[:, 0])


@pytest.mark.slow
def test_default_classifier_is_confident_where_classes_are_apart():
    x, y = load_breast_cancer(return_X_y=True)
    fitted = BayesianClassifier(hidden=(20,), **SHORT).fit(x[:280], y[:280])
    assert fitted.score(x[280:], y[280:]) > 0.93
    assert log_loss(y[280:], fitted.predict_proba(x[280:]).astype(float)) < 0.15  # 0.18 with narrow output weights
