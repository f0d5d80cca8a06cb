"""Scores and transforms of likelihoods that are not Gaussian; true models have a uniform transform."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ergonet import MLP, BayesianNetwork, Samples, likelihoods, priors
from ergonet._errors import DataError
from ergonet.comparison.scored import score_rows
from ergonet.comparison.sources import Known
from ergonet.datasets import from_table
from ergonet.prediction.calibration import coverage_curve, rounding_of, transform_coverage
from ergonet.prediction.pit import ends, probability_transform, steps_of
from ergonet.prediction.predictive import predict
from ergonet.prediction.scores import COUNT_LEVELS, count_scores, sample_crps, transform_scores
from tests.stages import cases

ROWS = 4000
LIKELIHOODS = {
    "gaussian": likelihoods.Gaussian(0.4),
    "student-t": likelihoods.StudentT(),
    "log-normal": likelihoods.LogNormal(),
    "beta": likelihoods.Beta(),
    "poisson": likelihoods.Poisson(unit=2.0),
    "negative-binomial": likelihoods.NegativeBinomial(unit=2.0),
    "zero-inflated-poisson": likelihoods.ZeroInflatedPoisson(unit=2.0),
    "zero-inflated-negative-binomial": likelihoods.ZeroInflatedNegativeBinomial(unit=2.0),
}


@pytest.mark.parametrize("name", cases(LIKELIHOODS, quick=["negative-binomial"]))
def test_the_transform_of_the_true_model_is_uniform(name):
    likelihood, rng = LIKELIHOODS[name], np.random.default_rng(0)
    outputs = jnp.asarray(rng.normal(size=(likelihood.num_outputs(1), ROWS)), jnp.float32)
    own = likelihood.initial_values(jnp.float32)
    drawn = jax.jit(likelihood.sample)(jax.random.key(2), own, outputs)
    both = jax.jit(ends, static_argnums=0)(likelihood, own, outputs, drawn, None)
    below, reached = np.asarray(both, float)[:, 0]
    assert np.all(reached >= below)
    assert (reached > below).all() == likelihood.is_discrete
    transform = below + rng.uniform(size=ROWS) * (reached - below)
    assert stats.kstest(transform, "uniform").statistic < 2.3 / np.sqrt(ROWS)  # a false alarm of about 5e-5


def counting() -> tuple[Any, ...]:
    """Draws of a tiny network of counts, with rows."""
    model = BayesianNetwork(MLP((1, 2, 1)), priors.Normal(0.7), likelihoods.NegativeBinomial(dispersion=0.5, unit=3.0))
    rng = np.random.default_rng(3)
    positions = rng.normal(0, 0.7, (2, 40, model.dim)).astype(np.float32)
    samples = Samples(positions=positions, stats={}, warmup_stats={}, tuning={}, seconds={}, gradients={}, about={})
    x = rng.normal(size=(50, 1)).astype(np.float32)
    inputs = jnp.asarray(model.network.prepare(x))
    outputs = jax.lax.map(lambda one: model.outputs(one, inputs)[0], jnp.asarray(positions).reshape(80, -1))
    mean = 3 * np.exp(np.asarray(outputs, float))
    return model, samples, x, stats.nbinom(2, 1 / (1 + 0.5 * mean))


@pytest.mark.slow
def test_quantiles_and_transforms_of_counts_are_those_of_the_mixture():
    model, samples, x, members = counting()
    y = np.random.default_rng(4).poisson(4, (50, 1))
    found = predict(samples, x, model=model, levels=COUNT_LEVELS, y=y)
    assert found.quantiles is not None
    assert found.log_density is not None
    for level, quantile in zip(COUNT_LEVELS, found.quantiles[:, :, 0], strict=True):
        assert np.all(members.cdf(quantile).mean(axis=0) >= level - 1e-5)
        assert np.all(members.cdf(quantile - 1).mean(axis=0) < level + 1e-5)
    np.testing.assert_allclose(found.log_density, np.log(members.pmf(y[:, 0]).mean(axis=0)), rtol=1e-4)
    transform = probability_transform(samples, x, y, model=model)[:, 0]
    below, reached = (members.cdf(y[:, 0] - less).mean(axis=0) for less in (1, 0))
    assert np.all(transform <= reached + 1e-5)
    assert np.all(transform >= below - 1e-5)
    assert stats.kstest((transform - below) / (reached - below), "uniform").pvalue > 1e-4


def test_the_transform_of_rounded_targets_is_uniform_within_their_steps():
    model = BayesianNetwork(MLP((1, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.4))
    samples = Samples(np.array([[[1.0, 0.0]]], np.float32), {}, {}, {}, {}, {}, {})  # the output is the input
    rng = np.random.default_rng(3)
    x = rng.normal(5, 1, (2000, 1)).astype(np.float32)
    y = np.round(x + 0.4 * rng.normal(size=x.shape))
    steps = steps_of(model.likelihood, y)
    np.testing.assert_array_equal(steps, [y - 0.5, y + 0.5])
    rounded, continuous = (probability_transform(samples, x, y, model=model, steps=one) for one in (steps, None))
    assert stats.kstest(rounded[:, 0], "uniform").pvalue > 1e-4
    curve, without = transform_coverage(rounded), transform_coverage(continuous)
    assert curve.mean_gap < 3 * curve.by_chance
    assert without.mean_gap > 5 * without.by_chance
    assert transform_scores(rounded)["calibration"] == curve.mean_gap
    assert score_rows(Known(samples, model, None), x, y).figures["calibration"].value == curve.mean_gap


@pytest.mark.parametrize("name", ["log", "log1p"])
def test_steps_are_those_before_a_transform_of_the_targets(name):
    model = BayesianNetwork(MLP((1, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.4))
    samples = Samples(np.array([[[1.0, 0.0]]], np.float32), {}, {}, {}, {}, {}, {})  # the output is the input
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 1)).astype(np.float32)
    table = pd.DataFrame({"x": x[:20, 0], "y": np.arange(1.0, 21.0)})
    learned = from_table(table, "y", task="regression", target_transform=name).preprocessing
    scaling = replace(learned, target_mean=np.array([2.0]), target_sd=np.array([0.5]))
    y = np.round(scaling.inverse_target(x + 0.4 * rng.normal(size=x.shape)))
    scaled = scaling.transform_target(y)
    steps = steps_of(model.likelihood, scaled, scaling=scaling)
    assert steps is not None
    np.testing.assert_allclose(scaling.inverse_target(steps), [y - 0.5, y + 0.5], rtol=1e-5)
    rounded = probability_transform(samples, x, scaled, model=model, steps=steps)
    assert stats.kstest(rounded[:, 0], "uniform").pvalue > 1e-4
    figures = score_rows(Known(samples, model, scaling), x, scaled).figures
    assert figures["calibration"].value == transform_coverage(rounded).mean_gap


def test_nothing_is_beyond_an_end_that_is_no_possible_target():
    likelihood, outputs = likelihoods.Gaussian(noise=0.4), jnp.zeros((1, 2))
    steps = jnp.array([[[-jnp.inf, jnp.nan]], [[jnp.nan, jnp.inf]]])
    np.testing.assert_array_equal(ends(likelihood, {}, outputs, outputs, steps), [[[0.0, 0.0]], [[1.0, 1.0]]])


def test_rounding_is_the_smallest_distance_of_values_that_repeat():
    assert rounding_of(np.array([1.0, 3.0, 3.0, 3.5])) == 0.5
    assert rounding_of(np.array([1.0, 3.0, 3.5])) == rounding_of(np.ones(3)) == rounding_of(np.zeros(0)) == 0
    targets = np.array([[1.0, 0.1], [2.0, 0.2], [2.0, 0.3]])
    half = np.array([0.5, 0.0])
    np.testing.assert_array_equal(steps_of(likelihoods.Gaussian(), targets), [targets - half, targets + half])
    assert steps_of(likelihoods.LogNormal(), targets) is steps_of(likelihoods.Poisson(), targets) is None
    assert steps_of(None, targets[:, 1]) is None


def test_scores_of_counts_are_those_written_out():
    rng = np.random.default_rng(1)
    mean, truth = rng.gamma(3, 1, (200, 1)), rng.poisson(3, (200, 1)).astype(float)
    quantiles = stats.poisson(mean).ppf(np.asarray(COUNT_LEVELS)[:, None, None])
    transform = rng.uniform(size=(200, 1))
    found = count_scores(mean, truth, np.full(200, -1.5), quantiles, transform=transform)
    assert found["nll"] == 1.5
    np.testing.assert_allclose(found["mae"], np.abs(quantiles[2] - truth).mean())
    terms = np.where(truth > 0, truth * np.log(np.maximum(truth, 1) / mean), 0) - truth + mean
    np.testing.assert_allclose(found["deviance"], 2 * terms.mean())
    assert found["coverage_90"] == np.mean((quantiles[0] <= truth) & (truth <= quantiles[-1]))
    assert found["calibration"] == transform_coverage(transform).mean_gap


def test_coverage_by_the_transform_is_that_of_the_intervals():
    truth, levels = np.random.default_rng(2).normal(size=(300, 2)), np.arange(1, 20) / 20
    quantiles = np.broadcast_to(stats.norm.ppf(levels)[:, None, None], (19, 300, 2))
    intervals = coverage_curve(quantiles, levels, truth)
    transform = transform_coverage(stats.norm.cdf(truth))
    np.testing.assert_allclose(intervals.nominal, transform.nominal)
    np.testing.assert_allclose(intervals.coverage, transform.coverage)


def test_the_crps_of_draws_has_the_closed_form_of_a_normal_as_its_mean():
    rng = np.random.default_rng(5)
    truth = np.full((2000, 1), 0.7)
    found = sample_crps(rng.normal(size=(6, 2000, 1)), truth)
    exact = 0.7 * (2 * stats.norm.cdf(0.7) - 1) + 2 * stats.norm.pdf(0.7) - 1 / np.sqrt(np.pi)
    assert abs(found["crps"] - exact) < 4.5 * found["crps_standard_error"]
    with pytest.raises(DataError, match="at least 2 draws"):
        sample_crps(np.zeros((1, 3, 1)), np.zeros((3, 1)))
