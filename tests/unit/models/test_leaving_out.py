"""The posterior without some rows is that of the other rows, with the programs of all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet.models.leaving_out import without

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 3)).astype(np.float32)
Y = RNG.integers(0, 3, 70)
MODEL = BayesianNetwork(MLP((3, 4, 3)), priors.Normal(1.0), likelihoods.Categorical(temperature=1.0))


@pytest.mark.parametrize("rows", [[0], [3, 69, 20], list(range(0, 70, 5)), list(range(1, 70))])
def test_the_density_is_that_of_the_rows_that_stay(rows):
    every = MODEL.condition(X, Y)
    found, kept = without(every, np.array(rows)), np.setdiff1d(np.arange(70), rows)
    expected = MODEL.condition(X[kept], Y[kept])
    position = MODEL.sample_prior(jax.random.key(1))
    assert found.num_rows == len(kept)
    assert jax.tree.structure(found) == jax.tree.structure(every)
    assert [one.shape for one in jax.tree.leaves(found)] == [one.shape for one in jax.tree.leaves(every)]
    value, gradient = jax.value_and_grad(found.potential)(position)
    wanted, slope = jax.value_and_grad(expected.potential)(position)
    np.testing.assert_allclose(value, wanted, rtol=1e-5)
    np.testing.assert_allclose(gradient, slope, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found.rows()[0], X[kept])
    assert jnp.isfinite(gradient).all()
