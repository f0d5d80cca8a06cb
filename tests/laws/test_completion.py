"""A transition is the same whether its trajectory is completed at once or advanced step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from ergonet import MLP, NUTS, BayesianNetwork, GibbsHMC, Target, likelihoods, priors
from ergonet.samplers.base import Tuning, run_transition


def curved():
    return Target.from_logdensity(lambda q: -0.25 * jnp.sum(q**4) - 0.5 * jnp.sum(q) ** 2, jnp.zeros(3))


def network():
    source = np.random.default_rng(5)
    x = source.normal(size=(12, 2))
    prior = priors.NormalGamma(parametrization="centered")
    return BayesianNetwork(MLP((2, 3, 1)), prior, likelihoods.Gaussian(noise=0.3)).condition(x, np.sin(x[:, :1]))


CASES = [
    pytest.param(NUTS(max_doublings=5, metric="dense"), curved, id="NUTS with a dense metric"),
    pytest.param(GibbsHMC(NUTS(max_doublings=5)), network, id="Gibbs and NUTS", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("kernel", "build"), CASES)
def test_complete_gives_the_same_end_as_single_steps(kernel, build):
    target = build()
    position = jnp.asarray(np.random.default_rng(1).normal(size=target.dim))
    first = kernel.tuning(target, position)
    tuning = Tuning(step_size=jnp.asarray(0.1), metric=first.metric, num_steps=first.num_steps)
    state = kernel.init(target, position)

    def by_steps(key):
        trajectory = kernel.begin(key, target, state, tuning)
        ended = lax.while_loop(lambda t: ~kernel.finished(t), lambda t: kernel.advance(target, t, tuning), trajectory)
        return kernel.conclude(ended)

    def both(key):
        return run_transition(kernel, key, target, state, tuning), by_steps(key)

    at_once, one_by_one = jax.jit(lambda keys: lax.map(both, keys))(jax.random.split(jax.random.key(2), 10))
    for one, other in zip(jax.tree.leaves(at_once), jax.tree.leaves(one_by_one), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert at_once[1].moved.any()
