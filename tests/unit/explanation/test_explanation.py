"""Explanations of a linear network, whose partial dependence and importance are known in closed form."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ergonet import MLP, BayesianNetwork, BayesianRegressor, Samples, explanation, likelihoods, plots, priors
from ergonet._errors import CapabilityError, DataError, SettingError
from ergonet.cli.evaluation import Evaluation
from ergonet.cli.explaining import with_explanation
from ergonet.datasets import Choices, from_table
from ergonet.explanation import explained, importance
from ergonet.explanation.explained import Explained, few
from ergonet.models.embedding import EmbeddedMLP
from ergonet.prediction.predictive import predict

NOISE = 0.5
WEIGHTS = np.array([2.0, 0.0, -1.0])
MODEL = BayesianNetwork(MLP((3, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=NOISE))


def samples_of(positions, **known):
    empty: dict[str, Any] = {name: {} for name in ("stats", "warmup_stats", "seconds", "gradients", "tuning", "about")}
    return Samples(**empty | {"positions": positions.astype(np.float32)} | known)


def linear(*, spread=0.1, draws=30):
    """Draws of the weights and the bias of a linear network, around known values."""
    rng = np.random.default_rng(0)
    positions = np.append(WEIGHTS, 0.5) + spread * rng.normal(size=(2, draws, 4))
    x = np.random.default_rng(1).normal(size=(90, 3)).astype(np.float32)
    target = MODEL.condition(x, x @ WEIGHTS)
    return samples_of(positions, target=target), x


def test_partial_dependence_of_a_linear_network_is_its_line():
    samples, x = linear()
    first, _, last = explanation.partial_dependence(samples, x)
    for found, column in ((first, 0), (last, 2)):
        rows = x[explained.spread_rows(90, 48)].mean(axis=0)
        lines = samples.positions.reshape(-1, 4)
        at = np.repeat(rows[None], len(found.values), axis=0)
        at[:, column] = found.values
        functions = lines[:, :3] @ at.T + lines[:, 3:]
        np.testing.assert_allclose(found.mean[:, 0], functions.mean(axis=0), atol=1e-5)
        np.testing.assert_allclose(found.lower[:, 0], np.quantile(functions, 0.05, axis=0), atol=1e-5)
        np.testing.assert_allclose(found.upper[:, 0], np.quantile(functions, 0.95, axis=0), atol=1e-5)
    np.testing.assert_allclose(first.values[[0, -1]], np.quantile(x[:, 0], [0.02, 0.98]), rtol=1e-6)
    axes = plots.dependence_plot(first, name="y")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x0", "y")
    np.testing.assert_allclose(np.asarray(axes.get_lines()[0].get_ydata()), first.mean[:, 0])


def test_partial_dependence_of_classes_is_the_average_of_stated_probabilities():
    model = BayesianNetwork(MLP((3, 3)), priors.Normal(1.0), likelihoods.Categorical(temperature=3.0, label_noise=0.2))
    x = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    positions = 2 * np.random.default_rng(0).normal(size=(2, 30, model.dim))
    samples = samples_of(positions, target=model.condition(x, np.arange(20) % 3))
    (found,) = explanation.partial_dependence(samples, x, "x1")
    for value, mean, lower, upper in zip(found.values, found.mean, found.lower, found.upper, strict=True):
        at = x.copy()
        at[:, 1] = value
        np.testing.assert_allclose(mean, predict(samples, at).mean.mean(axis=0), atol=1e-5)
        assert (lower >= 0.2 / 3).all()  # the share of label noise
        assert ((lower < mean) & (mean < upper)).all()


def test_a_column_of_almost_one_value_is_varied_over_all_its_values():
    samples, _ = linear()
    x = np.zeros((2000, 3), np.float32)
    x[-25:, 0] = np.arange(1, 26)
    (found,) = explanation.partial_dependence(samples, x, "x0")
    np.testing.assert_allclose(found.values, np.linspace(0, 25, 21), rtol=1e-6)


def test_importance_is_the_loss_of_log_score():
    samples, x = linear(spread=0.0)
    y = (x @ WEIGHTS + 0.5 + NOISE * np.random.default_rng(2).normal(size=90)).astype(np.float32)
    found = explanation.permutation_importance(samples, x, y, repeats=2, seed=3)
    rng, losses = np.random.default_rng(3), np.zeros((3, 90))
    for _ in range(2):
        for column in range(3):
            permuted = x.copy()
            permuted[:, column] = x[rng.permutation(90), column]
            scores = [stats.norm.logpdf(y, at @ WEIGHTS + 0.5, NOISE) for at in (x, permuted)]
            losses[column] += (scores[0] - scores[1]) / 2
    np.testing.assert_allclose(found.loss, losses.mean(axis=1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.standard_error, losses.std(axis=1, ddof=1) / np.sqrt(90), rtol=1e-4, atol=1e-5)
    assert [found.names[index] for index in found.order] == ["x0", "x2", "x1"]
    assert found.loss[1] == 0
    names = [label.get_text() for label in plots.importance_plot(found).get_yticklabels()]
    assert names == ["x0", "x2", "x1"]


def test_importance_ends_in_time(monkeypatch):
    samples, x = linear()
    clock = iter(np.arange(100.0))
    monkeypatch.setattr(importance.time, "perf_counter", lambda: next(clock))
    found = explanation.permutation_importance(samples, x, x @ WEIGHTS, seconds=2.5)
    assert found.repeats.tolist() == [1, 1, 0]
    assert np.isnan(found.loss).tolist() == [False, False, True]
    assert found.order[-1] == 2
    monkeypatch.setattr(importance.time, "perf_counter", lambda: next(clock))
    assert len(plots.importance_plot(found).get_yticklabels()) == 2


def test_reports_try_all_columns():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 45)), columns=[f"c{number}" for number in range(45)])
    frame["y"] = frame["c44"] + 0.1 * rng.normal(size=40)
    dataset = from_table(frame, "y", test_fraction=0.5, seed=0)
    model = BayesianNetwork(MLP((45, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=NOISE))
    samples = samples_of(np.append(np.eye(45)[44], 0.0)[None, None].repeat(4, axis=1))
    found = with_explanation(Evaluation({}, {}, {}), samples, dataset, model, limit=None, left=None)
    assert list(found.arrays["importance_names"]) == [f"c{number}" for number in range(45)]
    assert found.arrays["dependence_names"][0] == "c44"


def test_categories_change_together_and_are_in_the_users_words():
    frame = pd.DataFrame(
        {"size": np.arange(12.0), "city": ["Bern", "Thun", "Visp"] * 4, "rent": np.arange(12.0) ** 2 / 8}
    )
    preprocessing = from_table(frame, "rent", test_fraction=0.0).preprocessing
    model = BayesianNetwork(MLP((5, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=NOISE))
    samples = samples_of(np.random.default_rng(0).normal(size=(1, 9, 6)))
    run = Explained(samples, model, preprocessing)
    (found,) = explanation.partial_dependence(run, frame, "city")
    assert found.values.tolist() == ["Bern", "Thun", "Visp", "(other)"]
    weights, scaled = samples.positions[0], preprocessing.transform(frame)
    for point, city in enumerate(found.values):
        rows = preprocessing.transform(frame.assign(city=city))
        functions = preprocessing.inverse_mean((weights[:, :5] @ rows.T + weights[:, 5:]).mean(axis=1)[:, None])
        np.testing.assert_allclose(found.mean[point], functions.mean(), rtol=1e-4)
    (size,) = explanation.partial_dependence(run, frame, "size")
    np.testing.assert_allclose(size.values, frame["size"], atol=1e-5)
    assert [len(one.indices) for one in run.columns(scaled.shape[1])] == [1, 4]
    labels = [label.get_text() for label in plots.dependence_plot(found).get_yticklabels()]
    assert labels == ["Bern", "Thun", "Visp", "(other)"]


def test_what_a_column_becomes_is_one_column():
    days = pd.date_range("2024-01-01", periods=12, freq="40D").strftime("%Y-%m-%d").to_numpy(object)
    days[3] = None
    frame = pd.DataFrame(
        {"a=b": np.r_[np.nan, np.arange(11.0)], "day": days, "a": ["b", "b=c"] * 6, "y": np.arange(12)}
    )
    choices = Choices(types={"day": "date"})
    preprocessing = from_table(frame, "y", task="regression", test_fraction=0.0, choices=choices).preprocessing
    names = preprocessing.encoded_names
    samples = samples_of(np.random.default_rng(0).normal(size=(1, 9, len(names) + 1)))
    model = BayesianNetwork(MLP((len(names), 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=NOISE))
    run = Explained(samples, model, preprocessing)
    columns = run.columns(len(names))
    assert [(one.name, *[names[index] for index in one.indices]) for one in columns] == [
        ("a=b", "a=b", "a=b is missing"),
        ("day", *[one for one in names if one.startswith("day")]),
        ("a", "a=b", "a=b=c", "a=(other)"),
    ]
    found = explanation.permutation_importance(run, frame, frame["y"], "day", seed=3)
    scaled, rng = preprocessing.transform(frame), np.random.default_rng(3)
    losses = np.zeros(12)
    for _ in range(3):
        permuted, together = scaled.copy(), list(columns[1].indices)
        permuted[:, together] = scaled[rng.permutation(12)][:, together]
        scores = [
            predict(samples, rows, model=model, levels=(), y=preprocessing.transform_target(frame["y"])).log_density
            for rows in (scaled, permuted)
        ]
        losses += (np.asarray(scores[0]) - np.asarray(scores[1])) / 3
    np.testing.assert_allclose(found.loss, [losses.mean()], rtol=1e-4)
    parts = [one.name for one in run.settable(len(names))]
    assert parts == ["a=b", *[one for one in names if one.startswith("day: ")], "a"]
    (year,) = explanation.partial_dependence(run, frame, "day: year")
    assert year.values[0] >= 2024
    with pytest.raises(SettingError, match="'day' is no input"):
        explanation.partial_dependence(run, frame, "day")


def test_relevance_is_the_learned_scale_of_each_input():
    prior = {"layers.0.weight": priors.NormalGamma(group="input", width=0.7, alpha=2.0), "*": priors.Normal(1.0)}
    model = BayesianNetwork(MLP((3, 1)), prior, likelihoods.Gaussian(noise=NOISE))
    x = np.zeros((4, 3), np.float32)
    samples = samples_of(np.random.default_rng(0).normal(size=(2, 5, model.dim)), target=model.condition(x, x[:, 0]))
    found = explanation.input_relevance(samples)
    assert found.names == ("x0", "x1", "x2")
    np.testing.assert_allclose(found.draws.reshape(2, 5, 3), samples.scales()["input relevance"], rtol=1e-5)
    direct = BayesianNetwork(MLP((3, 2, 1), direct=True), prior, likelihoods.Gaussian(noise=NOISE))
    samples = samples_of(np.zeros((1, 2, direct.dim)), target=direct.condition(x, x[:, 0]))
    assert "input relevance" not in samples.scales()
    with pytest.raises(CapabilityError, match="its direct connections have no part in it"):
        explanation.input_relevance(samples)
    with pytest.raises(CapabilityError, match=r"The prior has no scale for each input"):
        explanation.input_relevance(linear()[0])


def test_an_embedding_has_one_relevance():
    """The root mean square over its numbers, which could be exchanged between chains."""
    prior = {"layers.0.weight": priors.NormalGamma(group="input", width=0.7, alpha=2.0), "*": priors.Normal(1.0)}
    model = BayesianNetwork(EmbeddedMLP((3, 2, 1), levels=(30, 5)), prior, likelihoods.Gaussian(noise=NOISE))
    x = np.zeros((4, 3), np.float32)
    samples = samples_of(np.random.default_rng(0).normal(size=(2, 5, model.dim)), target=model.condition(x, x[:, 0]))
    found, position = explanation.input_relevance(samples), samples.positions[0, 0]
    assert found.names == ("x0", "x1", "x2")
    np.testing.assert_allclose(found.draws.reshape(2, 5, 3), samples.scales()["input relevance"], rtol=1e-5)
    every = np.asarray(model.scales(jnp.asarray(position))["layers.0.weight by input"])
    assert every.shape == (6,)
    expected = [every[0], np.sqrt(np.mean(every[1:4] ** 2)), np.sqrt(np.mean(every[4:] ** 2))]
    np.testing.assert_allclose(found.draws[0], expected, rtol=1e-5)


def test_draws_are_few_and_spread_over_their_weights():
    positions = np.arange(1000.0)[None, :, None].repeat(4, axis=2)
    weights = np.zeros((1, 1000))
    weights[0, 500:] = 1.0
    found = few(samples_of(positions, stats={"weight": weights}))
    assert found.positions.shape == (1, 256, 4)
    assert found.positions.min() >= 500
    assert np.ptp(np.diff(found.positions[0, :, 0])) <= 1
    assert not found.stats


def test_chains_have_draws_in_proportion_to_their_weights():
    """As parts of a space have, of which one may have almost all the mass."""
    positions = np.arange(4.0)[:, None, None].repeat(100, axis=1)
    weights = np.array([0.0, 1.0, 6.0, 1.0])[:, None].repeat(100, axis=1)
    found = few(samples_of(positions, stats={"weight": weights}))
    assert found.positions.shape == (1, 256, 1)
    assert [int((found.positions == chain).sum()) for chain in range(4)] == [0, 32, 192, 32]
    every = few(samples_of(positions[:, :9]))
    np.testing.assert_array_equal(every.positions[0, :, 0], np.arange(4.0).repeat(9))


def test_what_cannot_be_explained_is_said():
    samples, x = linear()
    with pytest.raises(SettingError, match=r"`columns`: 'x9' is no input\. .*Known: x0, x1, x2"):
        explanation.partial_dependence(samples, x, "x9")
    with pytest.raises(SettingError, match=r"`repeats` must be an integer of at least 1, got 0"):
        explanation.permutation_importance(samples, x, x[:, 0], repeats=0)
    with pytest.raises(DataError, match=r"`x` has 90 rows, but `y` has 3"):
        explanation.permutation_importance(samples, x, x[:3, 0])
    with pytest.raises(SettingError, match=r"Explanations need a fitted estimator, .* Call `fit` first"):
        explanation.partial_dependence(BayesianRegressor(), x)
    with pytest.raises(CapabilityError, match=r"carry no network"):
        explanation.partial_dependence(samples_of(samples.positions), x)
    with pytest.raises(DataError, match=r"`x` has no rows"):
        explanation.partial_dependence(samples, x[:0])
    with pytest.raises(CapabilityError, match=r"shape \[rows, inputs\]"):
        explanation.partial_dependence(samples, x[:, :, None])


@pytest.mark.parametrize(
    ("kind", "levels"), [("ordinal", [1, 2, 5]), ("ordinal:low,middle,high", ["low", "middle", "high"])]
)
def test_an_ordinal_column_is_varied_over_its_levels(kind, levels):
    frame = pd.DataFrame({"rating": levels * 4, "x": np.arange(12.0), "y": np.arange(12.0) ** 2})
    choices = Choices(types={"rating": kind})
    preprocessing = from_table(frame, "y", task="regression", test_fraction=0.0, choices=choices).preprocessing
    model = BayesianNetwork(MLP((2, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=NOISE))
    samples = samples_of(np.random.default_rng(0).normal(size=(1, 9, 3)))
    (found,) = explanation.partial_dependence(Explained(samples, model, preprocessing), frame, "rating")
    assert found.values.tolist() == levels
    for point, level in enumerate(levels):
        rows = preprocessing.transform(frame.assign(rating=level))
        functions = samples.positions[0, :, :2] @ rows.T + samples.positions[0, :, 2:]
        expected = preprocessing.inverse_mean(functions.mean(axis=1)[:, None]).mean()
        np.testing.assert_allclose(found.mean[point], expected, rtol=1e-4)
    plots.dependence_plot(found)
