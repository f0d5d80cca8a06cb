"""A network without a hidden layer under Gaussian noise, against its posterior and predictive in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ergonet
from ergonet import HMC, MLP, NUTS, BayesianNetwork, likelihoods, priors
from tests.statistical.densities import moments

pytestmark = pytest.mark.statistical

NOISE, SCALE, MEAN = 0.5, 1.3, 0.2
KERNELS = {"nuts": lambda: NUTS(target_acceptance=0.7), "hmc": lambda: HMC(target_acceptance=0.7)}


def data():
    rng = np.random.default_rng(9)
    x = rng.normal(size=(30, 4)) @ np.diag([1.0, 0.3, 2.0, 1.0])
    y = x @ rng.normal(size=(4, 2)) + rng.normal(size=2) + NOISE * rng.normal(size=(30, 2))
    return x.astype(np.float32), y.astype(np.float32), rng.normal(size=(6, 4)).astype(np.float32)


def design(x):
    """Inputs and a one for the bias."""
    return np.column_stack([x, np.ones(len(x))]).astype(np.float64)


def posterior(x, y, noise):
    """Mean `[weight, output]` and covariance of the weights of each output, with prior N(MEAN, SCALE^2)."""
    columns = design(x)
    precision = columns.T @ columns / noise**2 + np.eye(columns.shape[1]) / SCALE**2
    covariance = np.linalg.inv(precision)
    return covariance @ (columns.T @ y / noise**2 + MEAN / SCALE**2), covariance


def run(model, x, y, kernel, warm_start=None):
    target = model.condition(x, y)
    settings = {"num_chains": 4, "num_warmup": 800, "num_draws": 2500, "seed": 2, "progress": False}
    return target, ergonet.sample(target, kernel, warm_start=warm_start, **settings)


@pytest.mark.parametrize("warm_start", [None, "adam", "adam+mclmc"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_posterior_and_predictive_with_known_noise(kernel, warm_start):
    x, y, new = data()
    model = BayesianNetwork(MLP((4, 2)), priors.Normal(SCALE, MEAN), likelihoods.Gaussian(noise=NOISE))
    _, samples = run(model, x, y, KERNELS[kernel](), warm_start)
    mean, covariance = posterior(x, y, NOISE)
    named = samples.parameters()
    weight, bias = named["layers.0.weight"], named["layers.0.bias"]  # [chain, draw, out, in], [chain, draw, out]
    draws = np.concatenate([weight, bias[..., None]], axis=3).reshape(4, -1, 10)
    estimate, error = moments(draws)
    truth = mean.T.reshape(-1)
    variances = np.tile(np.diag(covariance), 2)
    scores = (estimate - np.concatenate([truth, truth**2 + variances])) / error
    assert np.max(np.abs(scores)) < 4, scores
    correlation = np.corrcoef(draws[..., :5].reshape(-1, 5).T)
    deviation = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(correlation, covariance / np.outer(deviation, deviation), atol=0.08)

    outputs = jax.jit(jax.vmap(jax.vmap(lambda position: model.outputs(position, jnp.asarray(new).T))))
    function = np.asarray(outputs(jnp.asarray(samples.positions))).reshape(4, -1, 12)  # [chain, draw, output x row]
    estimate, error = moments(function)
    expected = (design(new) @ mean).T.reshape(-1)
    variance = np.tile(np.einsum("ij,jk,ik->i", design(new), covariance, design(new)), 2)
    scores = (estimate - np.concatenate([expected, expected**2 + variance])) / error
    assert np.max(np.abs(scores)) < 4.2, scores  # 24 quantities
    observed = model.likelihood.variance({}, jnp.zeros((2, 6)))
    np.testing.assert_allclose(observed, NOISE**2, rtol=1e-6)


def marginal(x, y, prior):
    """Density of the log precision on a grid, with the weights integrated out."""
    grid = np.linspace(-3, 8, 2001)
    logs = []
    for log_precision in grid:
        cover = SCALE**2 * design(x) @ design(x).T + np.exp(-log_precision) * np.eye(len(x))
        center = MEAN * design(x).sum(axis=1)
        evidence = sum(stats.multivariate_normal.logpdf(column, center, cover) for column in y.T.astype(float))
        shape, rate = prior.alpha / 2, prior.alpha / 2 * prior.width**2
        logs.append(evidence + stats.gamma.logpdf(np.exp(log_precision), shape, scale=1 / rate) + log_precision)
    weights = np.exp(np.array(logs) - np.max(logs))
    return grid, weights / weights.sum()


@pytest.mark.parametrize("kernel", KERNELS)
def test_posterior_with_learned_noise(kernel):
    x, y, _ = data()
    x, y = x[:12], y[:12, :1]
    prior = likelihoods.GammaPrecision(width=0.3, alpha=1.0)
    model = BayesianNetwork(MLP((4, 1)), priors.Normal(SCALE, MEAN), likelihoods.Gaussian(noise=prior))
    target, samples = run(model, x, y, KERNELS[kernel]())
    grid, weights = marginal(x, y, prior)
    means, squares = [], []
    for log_precision in grid:
        mean, covariance = posterior(x, y, np.exp(-0.5 * log_precision))
        means.append(mean[:, 0])
        squares.append(mean[:, 0] ** 2 + np.diag(covariance))
    truth = np.concatenate([weights @ np.array(means), [weights @ grid]])
    square = np.concatenate([weights @ np.array(squares), [weights @ grid**2]])
    assert list(target.unravel(jnp.zeros(target.dim))) == [
        "layers.0.weight",
        "layers.0.bias",
        "likelihood.log_precision",
    ]
    estimate, error = moments(samples.positions)
    scores = (estimate - np.concatenate([truth, square])) / error
    assert np.max(np.abs(scores)) < 4, scores
