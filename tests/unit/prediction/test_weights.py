"""Draws that count differently: a weight of two is the same as being there twice."""

from dataclasses import replace

import numpy as np
import pytest

import ergonet
from ergonet import MLP, NUTS, BayesianNetwork, likelihoods, predict, priors
from ergonet._errors import SettingError
from ergonet.prediction.predictive import sample_predictive

WEIGHTS = np.array([[2.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0, 2.0]], np.float32)


@pytest.fixture(scope="module", params=["gaussian", "categorical"])
def fitted(request):
    rng = np.random.default_rng(2)
    x = rng.normal(size=(30, 2)).astype(np.float32)
    regression = request.param == "gaussian"
    y = x[:, 0] if regression else (x[:, 0] > 0).astype(int)
    likelihood = likelihoods.Gaussian(noise=0.5) if regression else likelihoods.Categorical()
    target = BayesianNetwork(MLP((2, 3, 1 if regression else 2)), priors.Normal(1.0), likelihood).condition(x, y)
    kernel = NUTS(max_doublings=3, step_size=0.1, metric="identity")
    samples = ergonet.sample(target, kernel, num_chains=2, num_warmup=5, num_draws=4, seed=1, progress=False)
    return samples, x, y


def test_a_weight_is_a_number_of_copies(fitted):
    samples, x, y = fitted
    weighted = replace(samples, stats={**samples.stats, "weight": WEIGHTS})
    copies = np.concatenate([np.repeat(samples.positions[c], WEIGHTS[c].astype(int), axis=0) for c in range(2)])
    repeated = replace(samples, positions=copies[None], stats={})
    one, other = predict(weighted, x, y=y), predict(repeated, x, y=y)
    for name in ("mean", "function_sd", "quantiles", "log_density", "entropy", "expected_entropy"):
        found, expected = getattr(one, name), getattr(other, name)
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)
    assert np.abs(one.mean - predict(samples, x).mean).max() > 1e-4


def test_draws_that_do_not_count_are_not_simulated(fitted):
    samples, x, _ = fitted
    only = np.zeros_like(WEIGHTS)
    only[1, 2] = 3.0
    alone = replace(samples, positions=samples.positions[1:2, 2:3], stats={})
    found = sample_predictive(replace(samples, stats={"weight": only}), x, num_samples=5, seed=3)
    np.testing.assert_array_equal(found, sample_predictive(alone, x, num_samples=5, seed=3))


def test_draws_of_which_none_counts_are_refused(fitted):
    samples, x, _ = fitted
    with pytest.raises(SettingError, match="Every stored draw has weight 0"):
        predict(replace(samples, stats={"weight": 0 * WEIGHTS}), x)
