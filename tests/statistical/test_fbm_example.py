"""The regression problem of Neal's software for flexible Bayesian modeling (FBM), with its priors and its sampler.

One input x ~ N(0, 1), y = 0.3 + 0.4 x + 0.5 sin(2.7 x) + 1.1 / (1 + x^2) + N(0, 0.1^2), 100 rows; 8 tanh units.
Precisions have width 0.05 and alpha 0.5 (FBM's `0.05:0.5`) for the weights and biases of the units and for the noise,
`x0.05:0.5` (the width over the root of the number of units) for the output weights; the output bias has standard
deviation 100. Gibbs updates of precisions, windowed trajectories of 100 steps (window 10) in Neal's step sizes.
"""

import warnings

import numpy as np
import pytest

import ergonet
from ergonet import MLP, BayesianNetwork, GibbsHMC, WindowedHMC, likelihoods, priors

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

NOISE = 0.1


def rows(count, rng):
    x = rng.normal(size=(count, 1))
    y = 0.3 + 0.4 * x + 0.5 * np.sin(2.7 * x) + 1.1 / (1 + x**2) + NOISE * rng.normal(size=x.shape)
    return x.astype(np.float32), y.astype(np.float32)


def test_the_squared_test_error_is_near_the_noise_variance():
    rng = np.random.default_rng(1)
    (x, y), (x_test, y_test) = rows(100, rng), rows(1000, rng)
    prior = {
        "layers.0.*": priors.NormalGamma(0.05, 0.5, "leaf", "centered"),
        "layers.1.weight": priors.NormalGamma(0.05 / np.sqrt(8), 0.5, "leaf", "centered"),
        "layers.1.bias": priors.Normal(100.0),
    }
    model = BayesianNetwork(MLP((1, 8, 1)), prior, likelihoods.Gaussian(likelihoods.GammaPrecision(0.05, 0.5)))
    update = WindowedHMC(10, num_steps=100, step_size=0.3, metric="identity", length_jitter=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # weights of a network do not mix; predictions do
        samples = ergonet.sample(
            model.condition(x, y),
            GibbsHMC(update, step_sizes="curvature"),
            num_warmup=300,
            num_draws=300,
            seed=2,
            progress=False,
        )
    predicted = ergonet.predict(samples, x_test)
    errors = (np.asarray(predicted.mean).reshape(-1) - y_test[:, 0]) ** 2
    assert errors.mean() < 2.5 * NOISE**2
    found = np.exp(-0.5 * np.asarray(samples.parameters()["likelihood.log_precision"]))
    assert 0.08 < found.mean() < 0.13
