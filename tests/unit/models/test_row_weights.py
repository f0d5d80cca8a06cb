"""The likelihood of a row is raised to its weight: in the density, in its padding, and in minibatches."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, likelihoods, priors, stream
from ergonet._errors import CapabilityError, DataError
from ergonet.target.capabilities import GibbsBlock, require
from tests.stages import cases

ROWS = 21  # after padding 32
LIKELIHOODS = {
    "learned noise": (likelihoods.Gaussian(), 1),
    "counts": (likelihoods.NegativeBinomial(), 1),
    "classes": (likelihoods.Categorical(), 3),
}


def data(likelihood, outputs):
    rng = np.random.default_rng(1)
    model = BayesianNetwork(MLP((3, 4, outputs)), priors.Normal(1.0), likelihood)
    x, y = rng.normal(size=(ROWS, 3)), rng.integers(0, 3, ROWS)
    return (
        model,
        x,
        y if likelihood.is_classification else y.astype(float),
        jnp.asarray(0.3 * rng.normal(size=model.dim)),
    )


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", cases(LIKELIHOODS, quick=["counts"]))
def test_weights_are_copies_of_rows_and_0_leaves_them_out(name):
    model, x, y, position = data(*LIKELIHOODS[name])
    weights = np.random.default_rng(2).integers(0, 3, ROWS)
    copied = np.repeat(np.arange(ROWS), weights)
    weighted = model.condition(x, y, weights=weights)
    assert weighted.padded_targets.shape[1] == 24
    expected = model.condition(x[copied], y[copied]).potential(position)
    np.testing.assert_allclose(weighted.potential(position), expected, rtol=1e-10)
    left_out = model.condition(x[weights > 0], y[weights > 0], weights=weights[weights > 0])
    np.testing.assert_allclose(left_out.potential(position), expected, rtol=1e-10)
    same = model.condition(x, y, weights=np.ones(ROWS)).potential(position)
    np.testing.assert_allclose(same, model.condition(x, y).potential(position), rtol=1e-12)


def test_minibatches_are_unbiased_for_the_weighted_density():
    model, x, y, position = data(*LIKELIHOODS["counts"])
    weights = np.random.default_rng(2).uniform(0, 3, ROWS)
    posterior = model.condition(x, y, weights=weights)
    estimate = jax.jit(partial(posterior.minibatch_potential))
    parts = [
        estimate(position, jax.tree.map(lambda leaf, at=start: leaf[at : at + 7], posterior.rows()))
        for start in (0, 7, 14)
    ]
    np.testing.assert_allclose(np.mean(parts), posterior.potential(position), rtol=1e-10)
    streamed = stream(model, x, y, weights=weights)
    np.testing.assert_allclose(estimate(position, posterior.rows()), posterior.potential(position), rtol=1e-10)
    np.testing.assert_array_equal(streamed.rows()[1], np.asarray(posterior.rows()[1]))


def test_new_rows_have_a_weight_of_1():
    model, x, y, position = data(*LIKELIHOODS["counts"])
    posterior = model.condition(x, y, weights=np.full(ROWS, 2.0))
    targets = posterior.model.likelihood.prepare(y, 1)
    outputs = model.outputs(position, posterior.inputs)
    own = model.split(position)[1]
    np.testing.assert_allclose(
        posterior.log_likelihood(position), 2 * posterior.model.likelihood.log_prob(own, outputs, targets)
    )


@pytest.mark.parametrize(
    ("weights", "complaint"),
    [
        (np.ones(3), r"each of 21 rows, got shape \[3\]"),
        (-np.ones(ROWS), "row 0 .* has -1"),
        (np.zeros(ROWS), "not all 0"),
        (["much"] * ROWS, "`weights` must have numbers"),
    ],
)
def test_impossible_weights_are_refused(weights, complaint):
    model, x, y, _ = data(*LIKELIHOODS["counts"])
    with pytest.raises(DataError, match=complaint):
        model.condition(x, y, weights=weights)


def test_learned_noise_has_no_gibbs_draws_with_weights():
    prior = priors.NormalGamma(parametrization="centered")
    model = BayesianNetwork(MLP((3, 4, 1)), prior, likelihoods.Gaussian())
    _, x, y, _ = data(*LIKELIHOODS["counts"])
    with pytest.raises(CapabilityError, match="rows have weights"):
        require(model.condition(x, y, weights=np.ones(ROWS)), GibbsBlock, "GibbsHMC")
