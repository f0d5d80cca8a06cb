"""The posterior predictive against the naive computation that holds everything at once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ergonet import MLP, BayesianNetwork, Samples, likelihoods, priors
from ergonet._errors import CapabilityError, DataError, SettingError
from ergonet.prediction import chunks, predictive
from ergonet.prediction.predictive import predict, prior_predictive, sample_predictive
from tests.stages import cases, slow

KINDS = {
    "categorical": (likelihoods.Categorical(), 3),
    "bernoulli": (likelihoods.Bernoulli(), 1),
    "known noise": (likelihoods.Gaussian(noise=0.3), 2),
    "learned noise": (likelihoods.Gaussian(), 1),
    "varying noise": (likelihoods.HeteroscedasticGaussian(), 2),
}


def samples_of(model, *, chains=2, draws=70, target=None):
    positions = jax.vmap(model.sample_prior)(jax.random.split(jax.random.key(0), chains * draws))
    return Samples(
        positions=np.asarray(positions).reshape(chains, draws, -1),
        stats={},
        warmup_stats={},
        seconds={},
        gradients={},
        tuning={},
        about={},
        target=target,
    )


def problem(kind, rows=45):
    likelihood, outputs = KINDS[kind]
    model = BayesianNetwork(MLP((3, 5, outputs)), priors.Normal(0.7), likelihood)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    if likelihood.is_classification:
        y = rng.integers(max(outputs, 2), size=rows)
    else:
        y = rng.normal(size=(rows, 1 if kind != "known noise" else 2)).astype(np.float32)
    return model, x, y


def naive(model, samples, x, y):
    """Means, variances and log densities of every draw, `[draw, ...]`."""
    inputs = model.network.prepare(jnp.asarray(x))
    out = {"mean": [], "variance": [], "log_prob": []}
    for position in samples.positions.reshape(-1, model.dim):
        weights, own = model.split(jnp.asarray(position))
        outputs = model.network.apply(weights, inputs)
        targets = model.likelihood.prepare(jnp.asarray(y), outputs.shape[0])
        out["mean"].append(model.likelihood.mean(own, outputs).T)
        out["variance"].append(model.likelihood.variance(own, outputs).T)
        out["log_prob"].append(model.likelihood.log_prob(own, outputs, targets.astype(jnp.float32)))
    return {name: np.stack(values).astype(float) for name, values in out.items()}


@pytest.mark.parametrize("kind", cases(KINDS, quick=["learned noise"]))
def test_equals_the_naive_computation(kind):
    model, x, y = problem(kind)
    samples = samples_of(model)
    prediction = predict(samples, x, model=model, y=y)
    every = naive(model, samples, x, y)
    assert np.allclose(prediction.mean, every["mean"].mean(0), atol=1e-5)
    assert np.allclose(prediction.function_sd, every["mean"].std(0), atol=1e-4)
    expected = np.log(np.exp(every["log_prob"]).mean(0))
    assert np.allclose(prediction.log_density, expected, atol=1e-4)
    halves = np.exp(every["log_prob"]).reshape(2, 2, 35, -1).mean(axis=2)
    assert np.allclose(prediction.members, np.log(halves), atol=1e-4)
    if model.likelihood.is_classification:
        entropies = -np.sum(every["mean"] * np.log(every["mean"]), axis=2)
        assert np.allclose(prediction.expected_entropy, entropies.mean(0), atol=1e-5)
        assert (prediction.mutual_information > -1e-5).all()
        assert prediction.sd is None
    else:
        total = every["variance"].mean(0) + every["mean"].var(0)
        assert np.allclose(prediction.sd, np.sqrt(total), rtol=1e-4)


@pytest.mark.slow
def test_a_mean_does_not_depend_on_the_rows_beside_it():
    model, x, _ = problem("learned noise")
    samples = samples_of(model, draws=700)
    bias = 3.0 * (np.arange(model.dim) == model.dim - 2)  # of the output: means near 3 are rounded more than near 0
    samples = dataclasses.replace(samples, positions=samples.positions + bias.astype(np.float32))
    together = predict(samples, x, model=model).mean
    alone = np.concatenate([predict(samples, row[None], model=model).mean for row in x[:8]])
    assert np.abs(alone - together[:8]).max() < 1e-7


@pytest.mark.parametrize("kind", [slow("known noise"), "learned noise", slow("varying noise")])
def test_quantiles_are_those_of_the_mixture(kind):
    model, x, y = problem(kind, rows=5)
    samples = samples_of(model, draws=20)
    prediction = predict(samples, x, model=model, levels=(0.05, 0.5, 0.95))
    every = naive(model, samples, x, y)
    for level, quantiles in zip(prediction.levels, np.asarray(prediction.quantiles), strict=True):
        for row, target in np.ndindex(quantiles.shape):
            mean, sd = every["mean"][:, row, target], np.sqrt(every["variance"][:, row, target])
            below = stats.norm.cdf(quantiles[row, target], mean, sd).mean()
            assert below == pytest.approx(level, abs=2e-4)


@pytest.mark.slow
def test_a_single_draw_has_the_quantiles_of_its_normal():
    model, x, _ = problem("known noise", rows=4)
    samples = samples_of(model, chains=1, draws=1)
    prediction = predict(samples, x, model=model, levels=(0.1,))
    assert np.allclose(prediction.quantiles[0], prediction.mean + 0.3 * stats.norm.ppf(0.1), atol=1e-4)
    assert np.allclose(prediction.function_sd, 0, atol=1e-6)


@pytest.mark.slow
def test_a_row_does_not_depend_on_its_company(monkeypatch):
    model, x, _ = problem("learned noise", rows=300)
    samples = samples_of(model)
    whole = predict(samples, x, model=model)
    for rows in (slice(0, 1), slice(7, 40), slice(250, 300)):
        part = predict(samples, x[rows], model=model)
        assert np.allclose(part.mean, whole.mean[rows], atol=1e-6)
        assert np.allclose(part.quantiles, whole.quantiles[:, rows], atol=1e-5)
    monkeypatch.setattr(predictive, "QUANTILE_BYTES", 4 * 140 * 16)  # 16 rows fit
    small = predict(samples, x, model=model)
    assert np.allclose(small.quantiles, whole.quantiles, atol=1e-5)


def test_never_holds_more_outputs_than_it_may(monkeypatch):
    model, x, _ = problem("learned noise", rows=300)
    samples = samples_of(model)
    monkeypatch.setattr(predictive, "QUANTILE_BYTES", 4 * 140 * 16)
    seen = []
    original = predictive.Moments.__call__

    def watched(*arguments):
        sums, outputs, own = original(*arguments)
        seen.append(outputs.shape)
        return sums, outputs, own

    monkeypatch.setattr(predictive.Moments, "__call__", watched)
    predict(samples, x, model=model)
    assert max(rows for _, _, rows in seen) == 16
    assert max(draws for draws, _, _ in seen) == chunks.DRAW_CHUNK


@pytest.mark.parametrize("kind", cases(KINDS, quick=["categorical"]))
def test_simulated_targets_have_the_predictive_mean(kind):
    model, x, _ = problem(kind, rows=4)
    samples = samples_of(model)
    draws = sample_predictive(samples, x, num_samples=600, seed=0, model=model)
    prediction = predict(samples, x, model=model)
    if model.likelihood.is_classification:
        frequency = np.stack([(draws[:, :, 0] == k).mean(0) for k in range(prediction.mean.shape[1])], axis=1)
        assert np.abs(frequency - prediction.mean).max() < 4 * 0.5 / np.sqrt(600)
    else:
        z = (np.median(draws, axis=0) - predict(samples, x, model=model, levels=(0.5,)).quantiles[0]) / prediction.sd
        assert np.abs(z).max() < 4 * 1.2533 / np.sqrt(600) * 1.5
    assert prior_predictive(model, x, num_samples=3, seed=1).shape == (3, *draws.shape[1:])


def test_what_cannot_be_predicted_is_said():
    model, x, y = problem("categorical")
    samples = samples_of(model)
    with pytest.raises(CapabilityError, match="model"):
        predict(samples, x)
    with pytest.raises(DataError, match="at least 1 row"):
        predict(samples, x[:0], model=model)
    with pytest.raises(DataError, match="45 rows"):
        predict(samples, x, model=model, y=y[:-1])
    with pytest.raises(SettingError, match="strictly between 0 and 1"):
        predict(samples, x, model=model, levels=(0.0,))
    with pytest.raises(SettingError, match="single precision, which resolves levels from 1e-06"):
        predict(samples, x, model=model, levels=(0.5, 0.99999999))


def test_one_draw_beyond_all_numbers_leaves_predictions_that_are_numbers():
    """The exponential of a far extrapolation, in a draw of its own and in one that counts for nothing."""
    model = BayesianNetwork(MLP((1, 1)), priors.Normal(1.0), likelihoods.Poisson())
    samples = samples_of(model, chains=1, draws=4)
    samples = dataclasses.replace(samples, positions=np.array([[[0, 1], [0, 1], [0, 1], [200, 1]]], np.float32))
    found = predict(samples, np.array([[0.0], [1.0]], np.float32), model=model, levels=())
    assert found.sd is not None
    np.testing.assert_allclose(found.mean[0], np.e, rtol=1e-6)
    np.testing.assert_allclose(found.sd[0], np.sqrt(np.e), rtol=1e-6)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.sd).all()
    assert found.mean[1, 0] > 1e14
