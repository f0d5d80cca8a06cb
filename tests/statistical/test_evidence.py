"""The evidence of networks by bridge sampling, against closed form and annealed importance sampling; stated errors."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ergonet
from ergonet import HMC, MLP, BayesianNetwork, likelihoods, priors
from ergonet.hamiltonian.box import Box
from ergonet.partition import bridge
from tests.statistical.annealing import annealed_evidence
from tests.statistical.test_linear_network import MEAN, NOISE, SCALE, data, design
from tests.unit.partition.test_bridge import normal, orthant

pytestmark = pytest.mark.statistical


def test_a_linear_network_has_a_closed_form():
    x, y, _ = data()
    model = BayesianNetwork(MLP((4, 2)), priors.Normal(SCALE, MEAN), likelihoods.Gaussian(noise=NOISE))
    target = model.condition(x, y)
    samples = ergonet.sample(
        target, HMC(num_steps=8), num_chains=4, num_warmup=200, num_draws=400, seed=1, progress=False
    )
    cover: Any = SCALE**2 * design(x) @ design(x).T + NOISE**2 * np.eye(len(x))
    center = MEAN * design(x).sum(axis=1)
    truth = sum(stats.multivariate_normal.logpdf(column, center, cover) for column in y.T.astype(float))
    found = ergonet.evidence(target, samples)
    assert abs(found.value - truth) < 4 * found.error < 0.1


def regression():
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(14, 1)).astype(np.float32)
    y = (np.sin(1.5 * x) + 0.2 * rng.normal(size=x.shape)).astype(np.float32)
    likelihood = likelihoods.Gaussian(noise=likelihoods.GammaPrecision(width=0.3, alpha=2.0))
    return BayesianNetwork(MLP((1, 3, 1)), priors.Normal(1.0), likelihood).condition(x, y)


def classification():
    x = np.random.default_rng(4).normal(size=(24, 2)).astype(np.float32)
    model = BayesianNetwork(MLP((2, 2, 3, 2)), priors.Normal(1.0), likelihoods.Categorical())
    return model.condition(x, (x[:, 0] * x[:, 1] > 0).astype(int))


@pytest.mark.parametrize("make", [regression, classification])
def test_networks_agree_with_annealed_importance_sampling(make):
    target = make()
    reference, error = annealed_evidence(target, num_particles=200, num_temperatures=300, seed=1)
    samples = ergonet.sample(
        target, HMC(num_steps=16), num_chains=4, num_warmup=300, num_draws=1000, seed=1, progress=False
    )
    found = ergonet.evidence(target, samples)
    assert abs(found.value - reference) < 4 * math.hypot(found.error, error) < 0.8


@pytest.mark.parametrize("memory", [0.0, 0.7])
def test_stated_errors_cover_the_truth_at_their_rate(memory):
    """A half-space of 4 dimensions; for draws with memory, the walled coordinate is independent, the others AR(1)."""
    dim, num_draws, scores = 4, 400, []
    log_density, factor = normal(dim)
    if memory:
        factor = np.eye(dim)
        log_density = lambda points: stats.norm.logpdf(points.astype(float)).sum(axis=1)  # noqa: E731
    for seed in range(60):
        rng = np.random.default_rng(seed)
        draws, box, truth = orthant(factor, 1, 0.2, num_draws, rng)
        if memory:
            noise = rng.standard_normal((num_draws, dim - 1)) * math.sqrt(1 - memory**2)
            noise[0] = rng.standard_normal(dim - 1)
            for row in range(1, num_draws):
                noise[row] += memory * noise[row - 1]
            draws[:, 1:] = noise
        found = bridge.bridge(log_density, draws[None], region=Box(box.lower, box.upper), seed=seed)
        scores.append((found.value - truth) / found.error)
    assert 0.52 < np.mean(np.abs(scores) < 1) < 0.84
    assert np.max(np.abs(scores)) < 4.5
