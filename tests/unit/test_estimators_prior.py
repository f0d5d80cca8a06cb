"""The prior that estimators choose where nobody chose one, and those given by pattern."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss

from ergonet import HMC, BayesianClassifier, BayesianRegressor, priors
from ergonet._errors import SettingError
from ergonet.estimators import assembly
from ergonet.models.network import MLP
from ergonet.models.prior import assign

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
SHORT = {"kernel": HMC(num_steps=12), "num_chains": 2, "num_warmup": 80, "num_draws": 80, "random_state": 0}


@pytest.mark.parametrize(("task", "scale"), [("regression", 2.0), ("classification", 4.0)])
@pytest.mark.parametrize("hidden", [(), (5,), 5, (5, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_output_weights_are_wider_by_default(task, scale, hidden, bias):
    sizes = (3, *assembly.hidden_sizes(hidden), 2)
    chosen = assembly.prior(None, task=task, hidden=hidden, bias=bias)
    found = assign(chosen, MLP(sizes, bias=bias).leaves())
    by_path = dict(zip(found.paths, found.priors, strict=True))
    assert by_path[f"layers.{len(sizes) - 2}.weight"] == priors.FanInNormal(scale)
    assert all(by_path[f"layers.{i}.weight"] == priors.FanInNormal(1.0) for i in range(len(sizes) - 2))
    assert all(by_path[path] == priors.Normal(1.0) for path in by_path if path.endswith("bias"))


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
    given = {"prior": {"name": "normal-gamma", "parametrisation": "centered"}, "likelihood": {"name": "gaussian"}}
    settings = given | SHORT | {"kernel": "gibbs", "num_warmup": 20, "num_draws": 20}
    fitted = BayesianRegressor(hidden=(3,), **settings).fit(x, x[:, 0])
    assert fitted.model_.prior.priors[0] == priors.NormalGamma(parametrisation="centered")
    assert {"max_rhat_scales", "min_ess_bulk_scales"} <= set(fitted.diagnostics_)
    fitted.save(tmp_path / "model")
    assert BayesianRegressor.load(tmp_path / "model").prior == given["prior"]
    patterns = assembly.prior({"*.bias": "normal", "*": given["prior"]}, task="regression", hidden=(3,), bias=True)
    assert patterns == {"*.bias": priors.Normal(), "*": priors.NormalGamma(parametrisation="centered")}


def test_a_pattern_or_a_name_that_fits_nothing_is_refused():
    x = np.random.default_rng(0).normal(size=(10, 2))
    with pytest.raises(SettingError, match=r"layers\.7"):
        BayesianRegressor(prior={"layers.7.weight": "normal", "*": "normal"}, **SHORT).fit(x, x[:, 0])
    with pytest.raises(SettingError, match="Did you mean 'laplace'"):
        BayesianRegressor(prior={"*": "laplac"}, **SHORT).fit(x, x[:, 0])


def test_default_classifier_is_confident_where_classes_are_apart():
    x, y = load_breast_cancer(return_X_y=True)
    fitted = BayesianClassifier(hidden=(20,), **SHORT).fit(x[:280], y[:280])
    assert fitted.score(x[280:], y[280:]) > 0.93
    assert log_loss(y[280:], fitted.predict_proba(x[280:]).astype(float)) < 0.15  # 0.18 with narrow output weights
