"""`HMC` with the length that it learns, against `NUTS`: effective sample sizes of means and of squares."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base.array import array_stats

import ergonet
from ergonet import HMC, NUTS, Target
from tests.sampling import gaussian_target

pytestmark = [pytest.mark.statistical, pytest.mark.usefixtures("optimized")]  # runs for long

SEEDS = range(8)  # because lengths differ by seed


class Autoregression(eqx.Module):
    """arK of posteriordb: intercept, coefficients, and the log of the noise; data are leaves."""

    y: Any
    lags: Any

    def __call__(self, q):
        scale = jnp.exp(q[-1])
        prior = -0.5 * jnp.sum((q[:-1] / 10) ** 2) - jnp.log1p((scale / 2.5) ** 2) + q[-1]
        errors = (self.y - q[0] - self.lags @ q[1:-1]) / scale
        return prior - 0.5 * jnp.sum(errors**2) - self.y.size * q[-1]


def autoregression(count=200):
    random, y = np.random.default_rng(0), np.zeros(count + 5)
    for place in range(5, count + 5):
        y[place] = 0.1 + y[place - 5 : place][::-1] @ [0.7, -0.3, 0.2, 0.1, -0.2] + 0.15 * random.normal()
    lags = np.stack([y[4 - lag : count + 4 - lag] for lag in range(5)], axis=1)
    return Target.from_logdensity(
        Autoregression(*(jnp.asarray(one, jnp.float32) for one in (y[5:], lags))), jnp.zeros(7)
    )


TARGETS = {  # with the least fraction of what `NUTS` has
    "arK": (autoregression, 0.85),
    "Gaussian": (lambda: gaussian_target(np.ones(50)), 1.5),
}


def ess_per_gradient(target, kernel):
    """The smallest, over means and squares of all coordinates; the geometric mean over seeds."""
    return np.exp(np.mean([np.log(of_seed(target, kernel, seed)) for seed in SEEDS]))


def of_seed(target, kernel, seed):
    found = ergonet.sample(target, kernel, num_chains=4, num_warmup=500, num_draws=1000, seed=seed, progress=False)
    draws = np.asarray(found.positions, float)
    sizes = [
        np.min(array_stats.ess(values, chain_axis=0, draw_axis=1, method="bulk"))
        for values in (draws, (draws - draws.mean(axis=(0, 1))) ** 2)
    ]
    return min(sizes) / found.gradients["sampling"]


@pytest.mark.parametrize("name", TARGETS)
def test_a_learned_length_suits_means_and_squares(name):
    """Lengths by values alone give 0.66 and 1.1."""
    make, least = TARGETS[name]
    target = make()
    assert ess_per_gradient(target, HMC()) > least * ess_per_gradient(target, NUTS())
