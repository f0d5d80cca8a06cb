"""Roots and quantiles of predictive mixtures, against SciPy and known distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from ergonet import likelihoods
from ergonet.models.likelihoods.distribution import bracket
from ergonet.prediction.pit import ends
from ergonet.prediction.quantiles import MOST_STEPS, find_root, mixture_quantiles

LEVELS = np.array([0.001, 0.05, 0.5, 0.9, 0.999], np.float32)
LOG_PRECISION = "likelihood.log_precision"


def quantiles_of_normals(means, sds, levels: np.ndarray = LEVELS):
    """Of an equal mixture of normals, for one row and one target, `[level]`."""
    probabilities = jnp.asarray(levels, jnp.float32)
    outputs = jnp.asarray(means, jnp.float32)[:, None, None]
    own = {LOG_PRECISION: -2 * jnp.log(jnp.asarray(sds, jnp.float32))}
    find = jax.jit(
        lambda outputs, own: mixture_quantiles(
            likelihoods.Gaussian(), own, outputs, probabilities, jnp.ones(outputs.shape[0])
        )
    )
    return np.asarray(find(outputs, own))[:, 0, 0]


def exact_quantile(means, sds, level):
    return optimize.brentq(lambda q: stats.norm.cdf(q, means, sds).mean() - level, -1e4, 1e4, xtol=1e-12)


def test_one_draw_gives_the_quantiles_of_its_normal():
    found = quantiles_of_normals([1.5], [0.2])
    assert np.allclose(found, stats.norm.ppf(LEVELS, 1.5, 0.2), atol=1e-5)


@pytest.mark.parametrize(
    ("means", "sds"),
    [
        ((-1.0, 2.0), (0.5, 1.5)),
        ((-50.0, 50.0), (0.1, 0.1)),  # two far modes with almost nothing between them
        ((0.0, 0.0), (1e-3, 1e3)),  # scales a million apart
        ((1000.0, 1001.0), (1.0, 2.0)),  # far from 0
    ],
)
def test_two_draws_give_the_quantiles_of_their_mixture(means, sds):
    levels = np.array([0.05, 0.3, 0.9], np.float32)
    found = quantiles_of_normals(means, sds, levels)
    # a quantile is right to the precision of float32 in probability or in the unit of the target
    missed = stats.norm.cdf(found[:, None], means, sds).mean(axis=1) - levels
    exact = np.array([exact_quantile(np.array(means), np.array(sds), float(level)) for level in levels])
    assert np.all((np.abs(missed) < 1e-6) | (np.abs(found - exact) < 1e-5 * max(map(abs, (*means, *sds)))))


def test_many_draws_keep_their_precision():
    rng = np.random.default_rng(0)
    means, sds = rng.normal(size=20_000), np.exp(0.3 * rng.normal(size=20_000))
    found = quantiles_of_normals(means, sds)
    missed = [stats.norm.cdf(q, means, sds).mean() - level for q, level in zip(found, LEVELS, strict=True)]
    assert np.abs(missed).max() < 2e-6


def test_quantiles_rise_with_their_level():
    found = quantiles_of_normals(np.linspace(-3, 3, 40), np.linspace(0.1, 2, 40), np.linspace(0.01, 0.99, 50))
    assert (np.diff(found) > 0).all()


FUNCTIONS = {
    "line": lambda x: x - 0.3,
    "cube": lambda x: (x - 0.3) ** 3,
    "step": lambda x: jnp.where(x < 0.3, -1.0, 1.0),
    "steep": lambda x: jnp.tanh(1000 * (x - 0.3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_finds_the_root_of_any_increasing_function(name):
    low, high = jnp.array([-1.0, 0.0, 0.29]), jnp.array([1.0, 50.0, 0.31])
    tolerance = 0.01 if name == "cube" else 5e-5  # the cube is 0 to the last place of 1 over a centimeter of 1
    assert np.allclose(find_root(FUNCTIONS[name], low, high), 0.3, atol=tolerance)


def test_needs_far_fewer_evaluations_than_bisection():
    calls = []

    def counted(x):
        jax.debug.callback(lambda: calls.append(1))
        return jax.scipy.stats.norm.cdf(x, 0.2, 1.3) - 0.8

    find_root(counted, jnp.linspace(-9.0, -2.0, 20), jnp.linspace(3.0, 9.0, 20)).block_until_ready()
    jax.effects_barrier()
    assert 3 < len(calls) <= 14 < MOST_STEPS


def test_a_search_does_not_depend_on_its_neighbors():
    def excess(x):
        return jax.scipy.stats.norm.cdf(x) - 0.7

    low, high = -jnp.array([1.0, 2.0, 30.0, 900.0]), jnp.array([1.0, 7.0, 2.0, 900.0])
    together = find_root(excess, low, high)
    alone = [find_root(excess, low[i : i + 1], high[i : i + 1])[0] for i in range(4)]
    assert np.array_equal(together, np.array(alone))


def test_the_distribution_function_of_counts_is_once_in_each_program():  # each time, it takes seconds to compile
    counts, outputs, y = likelihoods.NegativeBinomial(dispersion=0.5), jnp.zeros((3, 1, 2)), jnp.zeros((1, 2))

    def size(function, *arguments) -> int:
        return str(jax.make_jaxpr(function)(*arguments)).count("lgamma")

    once = size(lambda f: counts.cdf({}, f, y), outputs[0])
    levels = jnp.asarray([0.1, 0.5])
    assert size(lambda f: mixture_quantiles(counts, {}, f, levels, jnp.ones(3)), outputs) == once > 0
    assert size(lambda f: ends(counts, {}, f, y, None), outputs[0]) == once


def test_a_bracket_grows_from_any_guess_and_a_narrow_one_ends_at_the_smallest_whole_number():
    roots = jnp.array([-700.0, -3.0, 0.0, 3.5, 3.5, 1e5])
    around, width = jnp.array([5.0, -3.0, 0.0, 3.0, 900.0, 0.0]), jnp.array([1.0, 0.0, 2.0, 0.1, 10.0, 1.0])
    found = bracket(lambda x: x - roots, around, width, is_whole=True, is_narrow=True)
    assert np.array_equal(found[1], [-700.0, -3.0, 0.0, 4.0, 4.0, 1e5])
    assert np.array_equal(found[0], found[1] - 1)
    low, high = bracket(lambda x: x - roots, around, width, is_whole=False)
    assert ((low < roots) & (high >= roots)).all()
    alone = bracket(lambda x: x - roots[3], around[3], width[3], is_whole=False)
    assert alone == (low[3], high[3])
