"""Priors with hyperparameters: their densities against SciPy, their draws against their densities, their conditionals.

The reference reads a flat position by itself: weights leaf by leaf, then each block's hyperparameters from the top.
False alarm: Kolmogorov-Smirnov distances at about 5e-5 each, |z| < 4.75 for each prior's score.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet._errors import SettingError
from ergonet.models.network import Leaf
from ergonet.models.precision import slice_log_precision
from ergonet.target.capabilities import GibbsBlock, require
from tests.stages import cases, slow

NETWORK = MLP((2, 3, 1))
SHAPES = [(3, 2), (3,), (1, 3), (1,)]
UNOPTIMIZED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
KS = 2.3  # times 1 / sqrt(n): a false alarm of about 5e-5
THREE = (priors.Level("incoming", 3.0), priors.Level("weight", 5.0))
BIAS = {"*.bias": priors.Normal(0.8)}
PARAMETRIZATIONS = ("centered", "non-centered")


def gamma(alpha, mean) -> Any:
    """Shape alpha / 2 and this mean."""
    return stats.gamma(alpha / 2, scale=2 * mean / alpha)


def two_sample(one, other) -> float:
    """The Kolmogorov-Smirnov distance of two samples."""
    found: Any = stats.ks_2samp(one, other)
    return found.statistic


def group_of(name, shape):
    """Number of the group of every weight `[out, in]` or bias `[out]`."""
    out, *fan_in = shape
    row = np.arange(out).reshape(-1, *[1] * len(fan_in)) * np.ones(shape, int)
    column = np.arange(fan_in[0])[None, :] * np.ones(shape, int) if fan_in else None
    known = {"leaf": 0 * row, "incoming": row, "outgoing": column, "input": column}
    return np.arange(row.size).reshape(shape) if name == "weight" else known[name]


def coarser(group, fine):
    """The group of the level above for every group of a level."""
    return np.array([group.ravel()[np.argmax(fine.ravel() == number)] for number in range(fine.max() + 1)])


def normal_gamma(weights, own, levels, *, width, is_centered):
    """Log density of a block and how many hyperparameters it has read; levels are (group, alpha) from the top."""
    groups = [group_of(name, weights.shape) for name, _ in levels]
    total, used, mean = 0.0, 0, None
    for row, (group, (_, alpha)) in enumerate(zip(groups, levels, strict=True)):
        value = own[used : used + group.max() + 1]
        used += value.size
        above = np.full(value.size, width**-2.0) if mean is None else mean[coarser(groups[row - 1], group)]
        total += np.sum(gamma(alpha, above).logpdf(np.exp(value)) + value)
        mean = np.exp(value)
    scale = mean[groups[-1]] ** -0.5 if is_centered else 1.0
    return total + stats.norm.logpdf(weights, 0, scale).sum(), used


def horseshoe(weights, own, group, *, scale, is_centered, slab=None):
    """The same for the horseshoe, with or without a slab (shape, rate)."""
    group = group_of(group, weights.shape)
    count = group.max() + 1
    half = [own[:count], own[2 * count]]
    inverse = [own[count : 2 * count], own[2 * count + 1]]
    total = sum(np.sum(stats.halfnorm.logpdf(np.exp(one)) + one) for one in half)
    known: Any = stats.invgamma(0.5, scale=0.5)
    total += sum(np.sum(known.logpdf(np.exp(one)) + one) for one in inverse)
    local, whole = (np.exp(z) * np.sqrt(np.exp(g)) for z, g in zip(half, inverse, strict=True))
    variance, used = (scale * whole * local) ** 2, 2 * count + 2
    if slab is not None:
        square = np.exp(own[used])
        slabs: Any = stats.invgamma(slab[0], scale=slab[1])
        total += slabs.logpdf(square) + own[used]
        variance, used = square * variance / (square + variance), used + 1
    return total + stats.norm.logpdf(weights, 0, np.sqrt(variance[group]) if is_centered else 1.0).sum(), used


def gammas(levels, width):
    return lambda w, h, c: normal_gamma(w, h, levels, width=width, is_centered=c)


def horseshoes(group, scale, slab=None):
    return lambda w, h, c: horseshoe(w, h, group, scale=scale, is_centered=c, slab=slab)


def plain(weights, own, is_centered):
    return stats.norm.logpdf(weights, 0, 0.8).sum(), 0


CASES = {  # settings of the prior by parametrization, whether biases have one of their own, and the reference
    "leaf": (lambda p: priors.NormalGamma(0.7, 3.0, "leaf", p), False, gammas([("leaf", 3.0)], 0.7)),
    "incoming": (lambda p: priors.NormalGamma(0.5, 2.0, "incoming", p), False, gammas([("incoming", 2.0)], 0.5)),
    "outgoing": (lambda p: priors.NormalGamma(1.5, 4.0, "outgoing", p), True, gammas([("outgoing", 4.0)], 1.5)),
    "input": (lambda p: priors.NormalGamma(1.0, 4.0, "input", p), True, gammas([("input", 4.0)], 1.0)),
    "weight": (lambda p: priors.NormalGamma(1.0, 5.0, "weight", p), False, gammas([("weight", 5.0)], 1.0)),
    "two levels": (
        lambda p: priors.NormalGamma(1.0, 4.0, "leaf", p, below=[{"group": "outgoing", "alpha": 3.0}]),
        True,
        gammas([("leaf", 4.0), ("outgoing", 3.0)], 1.0),
    ),
    "three levels": (
        lambda p: priors.NormalGamma(0.6, 4.0, "leaf", p, below=THREE),
        False,
        gammas([("leaf", 4.0), ("incoming", 3.0), ("weight", 5.0)], 0.6),
    ),
    "horseshoe": (lambda p: priors.Horseshoe(0.4, "weight", p), False, horseshoes("weight", 0.4)),
    "horseshoe ARD": (lambda p: priors.Horseshoe(1.3, "outgoing", p), True, horseshoes("outgoing", 1.3)),
    "regularized": (
        lambda p: priors.RegularizedHorseshoe(0.6, "incoming", p),
        False,
        horseshoes("incoming", 0.6, (2.0, 8.0)),
    ),
}


def assignment(name, parametrization="centered"):
    make, has_bias, _ = CASES[name]
    prior = make(parametrization)
    return priors.assign(BIAS | {"*": prior} if has_bias else prior, NETWORK.leaves())


def reference(name, position, *, is_centered):
    """Of a flat position, read leaf by leaf."""
    _, has_bias, density = CASES[name]
    ends = np.cumsum([int(np.prod(shape)) for shape in SHAPES])
    own, total = position[ends[-1] :], 0.0
    for shape, part in zip(SHAPES, np.split(position[: ends[-1]], ends[:-1]), strict=True):
        use = plain if has_bias and len(shape) == 1 else density
        value, used = use(part.reshape(shape), own, is_centered)
        total, own = total + value, own[used:]
    assert own.size == 0
    return total


@pytest.mark.parametrize("parametrization", PARAMETRIZATIONS)
@pytest.mark.parametrize("name", cases(CASES, quick=["regularized"]))
def test_densities_are_those_of_scipy(name, parametrization):
    chosen = assignment(name, parametrization)
    for seed in range(3):
        position = np.random.default_rng(seed).normal(size=chosen.dim)
        expected = reference(name, position, is_centered=parametrization == "centered")
        np.testing.assert_allclose(chosen.log_prob(jnp.asarray(position, jnp.float32)), expected, rtol=2e-5, atol=1e-4)


@pytest.mark.parametrize("name", cases(CASES, quick=["two levels"]))
def test_the_two_parametrizations_are_one_density_of_weights_and_hyperparameters(name):
    with jax.enable_x64(True):
        centered, other = assignment(name, "centered"), assignment(name, "non-centered")
        position = jnp.asarray(np.random.default_rng(4).normal(size=centered.dim))
        count = centered.num_weights

        def same_weights(position):
            """The centered position of the weights that a non-centered one stands for."""
            weights = [one.reshape(-1) for one in other.split(position).values()]
            return jnp.concatenate([*weights, position[count:]])

        jacobian = jax.jacfwd(same_weights)(position)
        moved = centered.log_prob(same_weights(position)) + jnp.linalg.slogdet(jacobian)[1]
        np.testing.assert_allclose(other.log_prob(position), moved, rtol=1e-9)


def test_a_layer_is_one_group_with_its_biases():
    chosen = priors.assign(priors.NormalGamma(0.7, 3.0, "layer", "centered"), NETWORK.leaves())
    assert chosen.dim == 13 + 2
    position = np.random.default_rng(5).normal(size=chosen.dim)
    expected = 0.0
    for weights, value in ((position[:9], position[13]), (position[9:13], position[14])):
        expected += gamma(3.0, 0.7**-2).logpdf(np.exp(value)) + value
        expected += stats.norm.logpdf(weights, 0, np.exp(-value / 2)).sum()
    np.testing.assert_allclose(chosen.log_prob(jnp.asarray(position, jnp.float32)), expected, rtol=2e-5)
    own = priors.assign(priors.NormalGamma(0.7, 3.0, "layer"), NETWORK.leaves())
    weights = own.split(jnp.asarray(position, jnp.float32))
    np.testing.assert_allclose(
        weights["layers.0.weight"], position[:6].reshape(3, 2) * np.exp(-position[13] / 2), rtol=1e-5
    )
    np.testing.assert_allclose(weights["layers.1.bias"], position[12:13] * np.exp(-position[14] / 2), rtol=1e-5)


def test_a_uniform_prior_is_a_box_in_the_weights():
    prior, leaf = priors.Uniform(-0.5, 2.0), Leaf(shape=(40, 50), fan_in=50)
    drawn = prior.draw(jax.random.key(1), {}, leaf, jnp.float32)
    weights = np.asarray(prior.weights(drawn, {}, leaf))
    known: Any = stats.uniform(-0.5, 2.5)
    assert stats.kstest(weights.ravel(), known.cdf).statistic < KS / np.sqrt(weights.size)
    single = Leaf(shape=(), fan_in=1)
    slope = jax.grad(lambda c: prior.weights(c, {}, single))(jnp.asarray(0.7))
    np.testing.assert_allclose(prior.log_density(jnp.asarray(0.7), {}, single), np.log(slope / 2.5), rtol=1e-5)


SCORED = {
    "normal": priors.Normal(0.7, 0.3),
    "fan-in": priors.FanInNormal(1.4),
    "laplace": priors.Laplace(0.6),
    "student-t": priors.StudentT(5.0, 0.8),
    "uniform": priors.Uniform(-1.0, 3.0),
}


DRAWN = [*SCORED, *[f"{name}/{way}" for name in CASES for way in PARAMETRIZATIONS]]


@pytest.mark.parametrize("name", cases(DRAWN, quick=["student-t", "regularized/non-centered"]))
def test_draws_have_the_density(name):
    """Of draws with density p, the mean of x d log p / dx is -1 for every coordinate, whatever p."""
    case, _, way = name.partition("/")
    prior, leaf = SCORED[name] if name in SCORED else CASES[case][0](way), Leaf(shape=(2, 2), fan_in=2)

    def one(key):
        first, second = jax.random.split(key)
        own = prior.draw_own(first, leaf, jnp.float32)
        drawn = prior.draw(second, own, leaf, jnp.float32), own
        slopes = jax.grad(lambda both: prior.log_density(*both, leaf))(drawn)
        return jnp.concatenate(
            [value.reshape(-1) for value in jax.tree.leaves(jax.tree.map(jnp.multiply, drawn, slopes))]
        )

    products = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(3), 8000)), np.float64)
    scores = (products.mean(axis=0) + 1) / (products.std(axis=0) / np.sqrt(len(products)))
    assert np.max(np.abs(scores)) < 4.75, scores


def test_horseshoe_scales_are_half_cauchy():
    prior, leaf = priors.Horseshoe(0.5, "weight"), Leaf(shape=(4, 5), fan_in=5)
    keys = jax.random.split(jax.random.key(7), 4000)
    own = jax.jit(jax.vmap(lambda key: prior.draw_own(key, leaf, jnp.float32)))(keys)
    direct = np.abs(np.random.default_rng(8).standard_cauchy(4000))
    for place, values in (("local", lambda x: x[:, 2, 3]), ("global", lambda x: x)):
        scale = np.exp(np.asarray(values(prior.log_half_cauchy(own, place)), np.float64))
        assert two_sample(scale, direct) < KS * np.sqrt(2 / 4000)
    each: Any = jax.vmap(lambda h: prior.log_scale(h, leaf))(own)
    whole = np.exp(np.asarray(each[:, 0, 1], np.float64))
    product = 0.5 * direct * np.abs(np.random.default_rng(9).standard_cauchy(4000))
    assert two_sample(whole, product) < KS * np.sqrt(2 / 4000)


def test_a_slab_bounds_a_horseshoe_scale():
    prior, leaf = priors.RegularizedHorseshoe(1.0, "leaf", slab_shape=3.0, slab_rate=2.0), Leaf(shape=(2,), fan_in=1)
    far = {name: jnp.asarray(30.0) for name in prior.hyperparameters(leaf)} | {"log_slab_variance": jnp.asarray(0.6)}
    np.testing.assert_allclose(prior.log_scale(far, leaf), 0.3, rtol=1e-4)
    near = far | {name: jnp.asarray(-8.0) for name in far if name != "log_slab_variance"}
    np.testing.assert_allclose(prior.log_scale(near, leaf), -24.0, rtol=1e-4)


WEIGHTS = np.random.default_rng(10).normal(0, 0.6, size=(3, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("group", "axes", "below"),
    [("leaf", (0, 1), ()), ("incoming", (1,), ()), ("outgoing", (0,), ()), ("weight", (), ()), ("leaf", (1,), (4.0,))],
)
def test_precisions_given_weights_are_gamma(group, axes, below):
    """With a level below, its precisions given those above."""
    levels = tuple(priors.Level("incoming", alpha) for alpha in below)
    prior = priors.NormalGamma(0.5, 3.0, group, "centered", below=levels)
    leaf = Leaf(shape=WEIGHTS.shape, fan_in=4)
    now = {name: jnp.full(one.shape, -0.3) for name, one in prior.hyperparameters(leaf).items()}
    keys = jax.random.split(jax.random.key(11), 4000)
    name = list(now)[-1]
    drawn = jax.jit(jax.vmap(lambda key: prior.gibbs(key, jnp.asarray(WEIGHTS), now, leaf)[name]))(keys)
    squares = np.sum(WEIGHTS.astype(float) ** 2, axis=axes).ravel()
    count = WEIGHTS.size / squares.size
    alpha, omega = (below[0], np.exp(-0.3)) if below else (3.0, 0.5**-2)
    for column, square in zip(np.exp(np.asarray(drawn, np.float64)).reshape(4000, -1).T, squares, strict=True):
        known: Any = stats.gamma((alpha + count) / 2, scale=2 / (alpha / omega + square))
        assert stats.kstest(column, known.cdf).statistic < KS / np.sqrt(4000)


def test_precisions_of_a_layer_given_weights_and_biases_are_gamma():
    chosen = priors.assign(priors.NormalGamma(0.7, 3.0, "layer", "centered"), NETWORK.leaves())
    position = jnp.asarray(np.random.default_rng(12).normal(size=chosen.dim), jnp.float32)
    keys = jax.random.split(jax.random.key(13), 4000)
    drawn = np.exp(np.asarray(jax.jit(jax.vmap(lambda key: chosen.gibbs(key, position)))(keys), np.float64))
    for column, part in zip(drawn.T, (position[:9], position[9:13]), strict=True):
        square = float(np.sum(np.asarray(part, np.float64) ** 2))
        known: Any = stats.gamma((3 + part.size) / 2, scale=2 / (3 * 0.49 + square))
        assert stats.kstest(column, known.cdf).statistic < KS / np.sqrt(4000)


def test_the_noise_precision_given_residuals_is_gamma():
    network = MLP((2, 3, 2))
    model = BayesianNetwork(network, priors.Normal(), likelihoods.Gaussian(likelihoods.GammaPrecision(0.3, 2.5)))
    rng = np.random.default_rng(14)
    x, y = rng.normal(size=(5, 2)).astype(np.float32), rng.normal(size=(5, 2)).astype(np.float32)
    posterior = model.condition(x, y)
    position = jnp.asarray(rng.normal(size=posterior.dim), jnp.float32)
    keys, block = jax.random.split(jax.random.key(15), 4000), require(posterior, GibbsBlock, "test")
    drawn = np.exp(np.asarray(jax.jit(jax.vmap(lambda key: block.draw(key, position)))(keys), np.float64))
    assert drawn.shape == (4000, 1)
    q = np.asarray(position, np.float64)
    hidden = np.tanh(x @ q[:6].reshape(3, 2).T + q[6:9])
    square = np.sum((y - hidden @ q[9:15].reshape(2, 3).T - q[15:17]) ** 2)
    known: Any = stats.gamma((2.5 + 10) / 2, scale=2 / (2.5 * 0.09 + square))
    assert stats.kstest(drawn[:, 0], known.cdf).statistic < KS / np.sqrt(4000)


@pytest.mark.parametrize(
    ("alpha", "count", "alpha_child", "total"),
    [slow((4.0, 3, 2.0, 5.0)), slow((0.5, 1, 0.5, 0.01)), slow((9.0, 2, 1.0, 300.0))],
)
def test_a_slice_step_keeps_the_generalized_inverse_gaussian(alpha, count, alpha_child, total):
    log_mean, chains = 0.4, 4000
    order, a, b = (alpha - count * alpha_child) / 2, alpha / np.exp(log_mean), alpha_child * total
    known: Any = stats.geninvgauss(order, np.sqrt(a * b), scale=np.sqrt(b / a))
    exact = np.log(known.rvs(size=chains, random_state=np.random.default_rng(16)))
    log_sum = jnp.full((chains,), np.log(total), jnp.float32)

    def step(value, key):
        mean = jnp.full_like(value, log_mean)
        new = slice_log_precision(key, value, mean, alpha, (count, alpha_child, log_sum))
        return new, new

    keys = jax.random.split(jax.random.key(17), 60)
    run = jax.jit(lambda start: jax.lax.scan(step, start, keys)[1])
    for start, rows in ((exact, (0, 59)), (np.full(chains, 4.0), (59,))):
        values = np.asarray(run(jnp.asarray(start, jnp.float32)), np.float64)
        for row in rows:
            assert stats.kstest(np.exp(values[row]), known.cdf).statistic < KS / np.sqrt(chains)
        assert np.mean(values[1:] == values[:-1]) < 0.01


@pytest.mark.slow
def test_upper_levels_are_drawn_given_the_levels_beneath():
    """A Gibbs sweep leaves the joint density of three levels given weights from the prior: it moves draws to draws."""
    leaf = Leaf(shape=(3, 2), fan_in=2)
    prior = priors.NormalGamma(0.6, 4.0, "leaf", "centered", below=THREE)

    def swept(key):
        first, second, third = jax.random.split(key, 3)
        own = prior.draw_own(first, leaf, jnp.float32)
        weights = prior.draw(second, own, leaf, jnp.float32)
        return own, prior.gibbs(third, weights, own, leaf)

    before, after = jax.jit(jax.vmap(swept))(jax.random.split(jax.random.key(18), 20000))
    for name in before:
        one, other = (np.asarray(x[name], np.float64).reshape(20000, -1) for x in (before, after))
        assert np.all(np.abs(one - other) > 0)
        for power in (1, 2):
            change = one**power - other**power
            assert np.max(np.abs(change.mean(axis=0)) / change.std(axis=0)) * np.sqrt(20000) < 4.75


@pytest.mark.slow
@pytest.mark.parametrize("prior", [priors.NormalGamma(alpha=0.002), priors.Horseshoe(), priors.RegularizedHorseshoe()])
def test_coordinates_drawn_from_a_vague_prior_are_finite(prior):
    """A standardized weight is N(0, 1) whatever its scale, also where that one overflows."""
    model = BayesianNetwork(NETWORK, prior, likelihoods.Gaussian(0.1))
    # Many loops of rejection, run once: optimizing the program takes longer than all else.
    sample_prior = jax.jit(jax.vmap(model.sample_prior), compiler_options=UNOPTIMIZED)
    draws = sample_prior(jax.random.split(jax.random.key(3), 500))
    weights = np.asarray(draws)[:, : model.prior.num_weights]
    assert np.isfinite(weights).all()
    assert stats.kstest(weights.ravel(), "norm").statistic < KS / np.sqrt(weights.size)


@pytest.mark.parametrize("log_sum", [-np.inf, -200.0, 200.0])
def test_a_slice_step_ends_whatever_the_children_are(log_sum):
    start = jnp.zeros(7)
    children = 4, 0.1, jnp.full(7, log_sum, start.dtype)
    found = slice_log_precision(jax.random.key(0), start, jnp.zeros(7), 0.1, children)
    assert np.isfinite(found).all()


def test_tiny_precisions_of_a_level_do_not_vanish_from_the_one_above():
    """Their sum underflows in single precision, its logarithm does not."""
    prior = priors.NormalGamma(1.0, 2.0, "leaf", "centered", below=(priors.Level("weight", 2.0),))
    leaf = Leaf(shape=(2, 2), fan_in=2)
    own = {name: jnp.full(one.shape, -120.0, jnp.float32) for name, one in prior.hyperparameters(leaf).items()}
    weights = jnp.full((2, 2), 1e18, jnp.float32)
    drawn = [prior.gibbs(jax.random.key(seed), weights, own, leaf) for seed in range(5)]
    assert all(np.isfinite(value).all() for one in drawn for value in one.values())


def test_a_unit_needs_weights_that_lead_to_it():
    with pytest.raises(SettingError, match=r"group='incoming'\)` needs weights \[out, ...\].*shape \[\]"):
        priors.NormalGamma(group="incoming").hyperparameters(Leaf(shape=(), fan_in=1))
