"""SGLD and SGHMC against BlackJAX's, on the same target with the same minibatches.

BlackJAX's SGHMC moves by L steps q += v; v = (1 - a) v - l g + N(0, 2 a l), with g at the q before, from a fresh
v ~ N(0, l), l = e^2, a = alpha e: an explicit Euler scheme where ours is a symplectic one, so they agree for small e
and by moments only. With one step it never uses the gradient, so that it is run with many.
"""

from typing import Any

import blackjax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import SGHMC, SGLD
from ergonet.samplers.stochastic.noise import normals
from tests.minibatches import linear_regression, random_minibatches, run, steps
from tests.statistical.densities import z_between

pytestmark = pytest.mark.statistical

DRAWS, CHAINS = 4000, 2


def gradient(target):
    """Of the log density, by a minibatch, as BlackJAX takes it."""
    return lambda position, rows: -jax.grad(target.minibatch_potential)(position, rows)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_sgld_equals_blackjax_step_by_step_with_the_same_noise(monkeypatch, temperature):
    """The noise of both is made the same: their generator is replaced by ours, of the same key."""
    target, _, _ = linear_regression()
    minibatches = random_minibatches(target, 200, 6)
    monkeypatch.setattr("blackjax.sgmcmc.diffusions.generate_gaussian_noise", lambda key, like: normals(key, like.size))
    theirs: Any = blackjax.sgld(gradient(target))
    position, rate = jnp.ones(target.dim), 0.001
    found, _, _ = steps(SGLD(learning_rate=rate, temperature=temperature), target, position, minibatches, seed=4)
    step = jax.jit(theirs.step, static_argnums=3)
    for number in range(200):
        rows = jax.tree.map(lambda leaf, number=number: leaf[number], minibatches)
        key = jax.random.fold_in(jax.random.key(4), number)
        position = step(key, position, rows, rate, temperature)
        np.testing.assert_allclose(found[number], position, rtol=1e-4, atol=1e-5)


def theirs_by_moments(target, move, seed, *, thin):
    """`[chain, draw, dim]` of a BlackJAX kernel, `move(key, position)`."""

    @eqx.filter_jit
    def chain(key):
        def one(position, key):
            position = move(key, position)
            return position, position

        keys = jax.random.split(key, (DRAWS + 200) * thin)
        return jax.lax.scan(one, jnp.zeros(target.dim), keys)[1][200 * thin :: thin]

    return np.stack([chain(key) for key in jax.random.split(jax.random.key(seed), CHAINS)])


def assert_agree(mine, theirs):
    center = theirs.mean(axis=(0, 1))
    scores = z_between(mine.positions - center, theirs - center)
    assert np.max(np.abs(scores)) < 4, scores


def test_moments_of_sgld_agree_with_blackjax():
    """On all rows: an epoch without replacement has less noise than minibatches that are drawn independently."""
    target, _, _ = linear_regression()
    sgld: Any = blackjax.sgld(gradient(target))
    theirs = theirs_by_moments(target, lambda key, q: sgld.step(key, q, target.rows(), 0.001), 1, thin=20)
    kernel = SGLD(learning_rate=0.001, batch_size=24, steps_per_draw=20)
    assert_agree(run(target, kernel, num_chains=CHAINS, num_warmup=200, num_draws=DRAWS), theirs)


def test_moments_of_sghmc_agree_with_blackjax():
    """On all rows, so that one minibatch for L steps is as good as L."""
    target, _, _ = linear_regression()
    size, friction, count = 1e-3, 3.0, 150
    sghmc: Any = blackjax.sghmc(gradient(target), num_integration_steps=count, alpha=friction, beta=0.0)
    theirs = theirs_by_moments(target, lambda key, q: sghmc.step(key, q, target.rows(), size), 2, thin=1)
    kernel = SGHMC.from_friction(
        step_size=size, friction=friction, resample_every=count, batch_size=24, steps_per_draw=count
    )
    assert_agree(run(target, kernel, num_chains=CHAINS, num_warmup=200, num_draws=DRAWS), theirs)
