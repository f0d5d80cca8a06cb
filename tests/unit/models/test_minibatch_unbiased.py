"""For every kind of target: minibatch gradients over a partition of the rows average to the full gradient."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

from ergonet import MLP, BayesianNetwork, Target, likelihoods, priors
from ergonet.target.capabilities import Rows, require

ROWS, BATCH = 24, 6
X = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
REALS = np.sin(X[:, 0]).astype(np.float32)
CLASSES = (X[:, 0] > 0).astype(np.int32) + (X[:, 1] > 0)


def terms():
    return Target.from_terms(
        lambda p: -0.5 * jnp.sum(p["w"] ** 2) - p["s"] ** 2,
        lambda p, rows: dist.Normal(rows["x"] @ p["w"], jnp.exp(p["s"])).log_prob(rows["y"]),
        {"x": X, "y": REALS},
        {"w": jnp.zeros(3), "s": jnp.zeros(())},
    )


def classifier():
    return BayesianNetwork(MLP((3, 5, 3)), priors.Normal(), likelihoods.Categorical()).condition(X, CLASSES)


def hierarchical():
    prior = {"*.bias": priors.Normal(), "*": priors.NormalGamma(1.0, 2.0, "incoming")}
    return BayesianNetwork(MLP((3, 5, 1)), prior, likelihoods.Gaussian()).condition(X, REALS)


def module():
    network = eqx.nn.MLP(3, 1, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    return BayesianNetwork(network, priors.Normal(), likelihoods.Gaussian(noise=0.5)).condition(X, REALS)


def program():
    def regression(x, y):
        w = numpyro.sample("w", dist.Laplace(0, 1).expand([3]).to_event(1))
        noise = numpyro.sample("noise", dist.HalfNormal(1.0))
        with numpyro.plate("rows", ROWS, subsample_size=BATCH) as i:
            numpyro.sample("y", dist.Normal(x[i] @ w, noise), obs=y[i])

    return Target.from_numpyro(regression, (X, REALS))


def spread(values):
    return np.abs(values - values.mean(0)).max()


@pytest.mark.parametrize("make", [terms, classifier, hierarchical, module, program])
def test_minibatch_gradients_average_to_the_full_gradient(make):
    target = make()
    data = require(target, Rows, "test")
    assert data.num_rows == ROWS
    position = 0.5 * target.initial_position(jax.random.key(1))
    order = np.random.default_rng(3).permutation(ROWS).reshape(-1, BATCH)
    batches = jax.tree.map(lambda leaf: leaf[order], data.rows())
    slopes = jax.jit(lambda all_: jax.lax.map(lambda one: _value_and_slope(data, position, one), all_))
    values, gradients = (np.asarray(found) for found in slopes(batches))
    value, gradient = _full_value_and_slope(target, position)
    np.testing.assert_allclose(values.mean(), value, rtol=1e-5)
    np.testing.assert_allclose(gradients.mean(0), gradient, rtol=1e-4, atol=1e-4)
    assert spread(values) > 1e-2 * abs(value)  # the batches differ, or the test would show nothing
    assert spread(gradients) > 1e-2 * np.abs(gradient).max()


def _value_and_slope(target, position, rows):
    return jax.value_and_grad(target.minibatch_potential)(position, rows)


@eqx.filter_jit
def _full_value_and_slope(target, position):
    return jax.value_and_grad(target.potential)(position)
