"""What predicts after a time limit without draws predicts as it says."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from ergonet._errors import TimeLimitError
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.settings import ModelSettings, NetworkSettings
from ergonet.baselines import fallback
from ergonet.baselines.forecast import Forecast, Rows, inputs_of
from ergonet.datasets import Choices, from_table
from ergonet.prediction.predictive import predict

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 3))
CLASSES = np.argmax(X @ RNG.normal(size=(3, 3)) + RNG.normal(size=(60, 3)), axis=1)
TARGETS = X @ RNG.normal(size=(3, 2)) + [0.5, 1.0] + RNG.normal(size=(60, 2)) * [0.1, 2.0]


def fall_back(y, num_classes, num_targets):
    task = Task("classification" if num_classes else "regression", 3, num_targets, (1.0,) * num_targets)
    found = fallback.fall_back(TimeLimitError("too slow"), Rows(X, y, num_classes), seed=7)
    settings = found.settings(ModelSettings(network=NetworkSettings(hidden=(9,), bias=False, direct=True)))
    return found, build.model(settings, task)


@pytest.mark.parametrize("num_targets", [1, 2, 3])
def test_the_only_draw_of_a_linear_network_predicts_as_the_baseline(num_targets):
    num_classes = 3 if num_targets == 3 else 0
    y = CLASSES if num_classes else TARGETS[:, :num_targets]
    found, model = fall_back(y, num_classes, num_targets)
    assert found.linear is not None
    forecast = found.linear.forecast(X)
    prediction = predict(found.samples, X.astype(np.float32), model=model, y=y)
    assert prediction.log_density is not None
    np.testing.assert_allclose(prediction.mean, forecast.mean, atol=2e-5)
    np.testing.assert_allclose(prediction.log_density, forecast.log_density(y), atol=2e-3)
    assert found.samples.about["fallback"]["name"] == f"{'logistic' if num_classes else 'ridge'} regression"
    assert f"predictions of {found.linear.name}, not of draws from the posterior" in found.sentence
    if prediction.sd is not None:
        assert prediction.quantiles is not None
        assert isinstance(forecast, Forecast)
        assert forecast.sd is not None
        np.testing.assert_allclose(prediction.sd, np.broadcast_to(forecast.sd, y.shape), rtol=1e-4)
        ends = forecast.mean + forecast.sd * norm.ppf(0.95)
        np.testing.assert_allclose(prediction.quantiles[1], ends, atol=2e-3)


@pytest.mark.parametrize("is_finite", [True, False])
def test_networks_of_a_warm_start_are_used_if_they_are_finite(is_finite):
    error = TimeLimitError("too slow")
    error.states, error.is_warm_started = np.ones((2, 5)), True
    error.states[1, 3] = 1.0 if is_finite else np.nan
    found = fallback.fall_back(error, Rows(X, CLASSES, 3), seed=7)
    assert (found.linear is None) == is_finite
    settings = ModelSettings()
    assert (found.settings(settings) is settings) == is_finite
    if is_finite:
        assert found.samples.positions.shape == (2, 1, 5)
        assert "the average of 2 networks that the warm start found, not of draws" in found.sentence
    error.is_warm_started = False  # such chains are where a prior draw has fallen to
    assert fallback.fall_back(error, Rows(X, CLASSES, 3), seed=7).linear is not None


def test_counts_are_predicted_by_a_negative_binomial_around_a_poisson_regression():
    rng = np.random.default_rng(4)
    x = rng.normal(size=(3000, 3))
    means = np.exp(1.0 + x @ [0.5, -0.3, 0.0])
    counts = rng.negative_binomial(2.0, 2.0 / (2.0 + means)).astype(float)  # a dispersion of 1 / 2
    rows = Rows(x, counts[:, None], 0, rng.uniform(0.5, 2.0, size=3000), is_of_counts=True)
    found = fallback.fall_back(TimeLimitError("too slow"), rows, seed=7)
    model = build.model(found.settings(ModelSettings()), Task("count", 3, 1, (1.0,)))
    prediction = predict(found.samples, x[:50].astype(np.float32), model=model, y=counts[:50, None])
    assert "These are predictions of Poisson regression, not of draws" in found.sentence
    np.testing.assert_allclose(prediction.mean[:, 0], means[:50], rtol=0.2)
    assert prediction.sd is not None
    np.testing.assert_allclose(prediction.sd[:, 0] ** 2, means[:50] + means[:50] ** 2 / 2, rtol=0.4)
    assert prediction.log_density is not None
    assert np.isfinite(prediction.log_density).all()


def test_counts_in_the_order_of_their_groups_have_the_dispersion_of_any_other_order():
    groups = np.repeat(np.arange(3), 100)
    counts = np.random.default_rng(5).poisson(np.array([2.0, 10.0, 50.0])[groups])[:, None].astype(float)
    rows = Rows((groups[:, None] == np.arange(3)) * 2.0, counts, 0, is_of_counts=True)
    linear = fallback.fall_back(TimeLimitError("too slow"), rows, seed=7).linear
    assert linear is not None
    assert linear.dispersion is not None
    assert linear.dispersion < 0.05


@pytest.mark.parametrize("counts", [[0, 3], [0] * 9, [0] * 8 + [1]])
def test_few_and_rare_counts_have_a_fallback(counts):
    rows = Rows(X[: len(counts)], np.array(counts, float)[:, None], 0, is_of_counts=True)
    found = fallback.fall_back(TimeLimitError("too slow"), rows, seed=7)
    assert np.isfinite(found.samples.positions).all()


@pytest.mark.parametrize("columns", [["a", "city"], ["city"]])
def test_a_regression_does_without_embedded_categories(columns):
    cities = np.tile([f"c{index}" for index in range(12)], 5)
    table = pd.DataFrame({"a": X[:, 0], "city": cities, "y": TARGETS[:, 0]})[[*columns, "y"]]
    data = from_table(table, "y", choices=Choices(one_hot_limit=3), test_fraction=0.2)
    levels = data.preprocessing.embeddings
    assert levels == (13,)
    error = TimeLimitError("too slow")
    found = fallback.fall_back(error, Rows.of(data), seed=0, levels=levels)
    assert "ridge regression without columns of many categories, not of draws" in found.sentence
    model = build.model(found.settings(ModelSettings()), Task.of(data.preprocessing))
    prediction = predict(found.samples, data.x_test, model=model)
    assert found.linear is not None
    np.testing.assert_allclose(prediction.mean, found.linear.forecast(inputs_of(data, data.x_test)).mean, atol=1e-5)
    assert (np.ptp(prediction.mean) > 0) == ("a" in columns)
