"""Targets that are learned by a monotone transform: everything that is predicted is of the targets themselves."""

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.base import clone

from ergonet import BayesianClassifier, BayesianRegressor, explanation
from ergonet._errors import CapabilityError, SettingError
from ergonet.baselines.comparison import evaluated
from ergonet.baselines.forecast import Forecast
from ergonet.baselines.linear import LinearBaseline
from ergonet.cli.evaluation import evaluate
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.transforms import FromFunctions

pytestmark = [
    pytest.mark.statistical,
    pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning"),
]
SHORT: dict[str, Any] = {
    "hidden": (6,),
    "kernel": {"name": "hmc", "num_steps": 12},
    "num_chains": 2,
    "num_warmup": 80,
    "num_draws": 80,
    "random_state": 0,
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(60, 1))
    return x, 10 ** (2 * np.sin(x[:, 0]) - 24 + 0.2 * rng.normal(size=60))  # far below what single precision has


@pytest.fixture(scope="module")
def fitted(data):
    return BayesianRegressor(target_transform="log10", likelihood="gaussian", **SHORT).fit(*data)


@pytest.fixture(scope="module")
def by_draw(fitted, data):
    """Mean and sd of log10 y of every draw `[draw, rows]`, in the units of the table."""
    model, scaling = fitted.model_, fitted.preprocessing_
    inputs = jnp.asarray(scaling.transform(data[0])).T
    positions = np.asarray(fitted.samples_.positions).reshape(-1, model.dim)

    def one(position):
        own, outputs = model.split(position)[1], model.outputs(position, inputs)
        return model.likelihood.mean(own, outputs)[0], model.likelihood.variance(own, outputs)[0]

    means, variances = (np.asarray(part, np.float64) for part in jax.jit(jax.vmap(one))(positions))
    return means * scaling.target_sd + scaling.target_mean, np.sqrt(variances) * scaling.target_sd


def test_mean_and_sd_are_those_of_the_target_and_not_of_its_logarithm(fitted, data, by_draw):
    center, sd = by_draw
    means = 10**center * np.exp((np.log(10) * sd) ** 2 / 2)
    variances = means**2 * np.expm1((np.log(10) * sd) ** 2)
    mean, total = fitted.predict(data[0], return_std=True)
    np.testing.assert_allclose(mean, means.mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(total, np.sqrt(variances.mean(axis=0) + means.var(axis=0)), rtol=1e-3)
    biased = 10 ** center.mean(axis=0)
    assert (mean / biased > 1.05).all()  # what transforming the mean back would miss


def test_quantiles_and_draws_are_mapped(fitted, data, by_draw):
    center, sd = by_draw
    ends = fitted.predict_interval(data[0], level=0.8)
    for level, values in zip((0.1, 0.9), ends.T, strict=True):
        reached = norm.cdf(np.log10(values), center, sd).mean(axis=0)
        np.testing.assert_allclose(reached, level, atol=1e-4)
    drawn = fitted.sample_y(data[0], n_samples=300, random_state=1)
    assert (drawn > 0).all()
    share = (drawn < ends[:, 1:]).mean()
    assert share == pytest.approx(0.9, abs=0.02)


def dataset_of(fitted, x, y):
    scaling = fitted.preprocessing_
    inputs, targets = scaling.transform(x), scaling.transform_target(y)
    return Dataset("t", "regression", inputs, targets, inputs, targets, scaling, None, x, np.arange(len(x)))


def test_log_scores_are_densities_of_the_target(fitted, data, by_draw):
    x, y = data
    center, sd = by_draw
    found = evaluate(fitted.samples_, dataset_of(fitted, x, y), fitted.model_)
    slope = 1 / (y * np.log(10))
    expected = np.log((norm.pdf(np.log10(y), center, sd) * slope).mean(axis=0))
    np.testing.assert_allclose(found.arrays["log_density"], expected, atol=1e-3)
    assert found.test["nll"] == pytest.approx(-expected.mean(), abs=1e-3)
    np.testing.assert_allclose(found.arrays["truth"][:, 0], y, rtol=1e-5)


def test_a_baseline_has_the_same_scale_and_its_own_unbiased_mean(fitted, data):
    class Normal(LinearBaseline):
        def __init__(self):
            pass

        def forecast(self, x):
            return Forecast(np.zeros((len(x), 1)), np.array([0.5]))

    scores, found = evaluated(Normal(), dataset_of(fitted, *data))
    scaling = fitted.preprocessing_
    center, sd = scaling.target_mean[0], 0.5 * scaling.target_sd[0]
    assert found["mean"][0, 0] == pytest.approx(10**center * np.exp((np.log(10) * sd) ** 2 / 2))
    density = norm.logpdf(np.log10(data[1]), center, sd) - np.log(data[1] * np.log(10))
    assert scores["nll"] == pytest.approx(-density.mean(), abs=1e-5)


def test_partial_dependence_averages_the_target(fitted, data):
    (found,) = explanation.partial_dependence(fitted, data[0][:8])
    at = np.full((1, 1), found.values[3])
    assert found.mean[3, 0] == pytest.approx(fitted.predict(at)[0], rel=0.02)
    assert (found.lower < found.upper).all()


def test_a_saved_estimator_predicts_the_same_bit_for_bit(fitted, data, tmp_path):
    fitted.save(tmp_path / "run")
    for again in (BayesianRegressor.load(tmp_path / "run"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.predict(data[0]), fitted.predict(data[0]))
        copy: Any = clone(again)
        assert copy.target_transform == "log10"


def square_root(y):
    return y ** (1 / 3) if isinstance(y, np.ndarray) else jnp.cbrt(y)


def cube(t):
    return t**3


def slope(y):
    return y ** (-2 / 3) / 3


def test_functions_of_a_user_are_pickled_but_not_saved_as_text(data, tmp_path):
    own = FromFunctions(square_root, cube, slope)
    y = np.exp(np.sin(data[0][:, 0]))
    model = BayesianRegressor(target_transform=own, likelihood="gaussian", **SHORT).fit(data[0], y)
    mean = model.predict(data[0])
    assert np.sqrt(np.mean((mean - y) ** 2)) < 0.2 * y.std()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(data[0]), mean)
    with pytest.raises(CapabilityError, match="cannot be saved as text"):
        model.save(tmp_path / "run")


@pytest.mark.parametrize("likelihood", ["student-t", "log-normal"])
def test_other_noise_than_normal_is_refused(data, likelihood):
    with pytest.raises(SettingError, match="cannot be combined with `target_transform`"):
        BayesianRegressor(target_transform="log10", likelihood=likelihood, **SHORT).fit(*data)


def test_classes_have_no_such_parameter():
    assert "target_transform" not in BayesianClassifier().get_params()


def test_quantiles_of_a_decreasing_transform_have_their_levels(data):
    """-log(y) and log(y) are the same model."""
    falling = FromFunctions(lambda y: -np.log(y), lambda t: jnp.exp(-t), lambda y: -1 / y)
    y = np.exp(np.sin(data[0][:, 0]))
    given = SHORT | {"likelihood": "gaussian", "num_warmup": 40, "num_draws": 40}
    model = BayesianRegressor(target_transform=falling, **given).fit(data[0], y)
    low, high = model.predict_interval(data[0], 0.9).T
    assert (low < high).all()
    assert 0.75 < np.mean((low < y) & (y < high)) <= 1
