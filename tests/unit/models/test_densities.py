"""Priors, likelihoods and networks against SciPy, NumPyro and a plain implementation with the rows first."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import integrate, stats

from ergonet import MLP, likelihoods, priors
from ergonet._errors import DataError, SettingError
from ergonet.models.equinox import as_network
from ergonet.models.likelihood import LOG_PRECISION
from ergonet.models.network import SMALL_PRODUCT, Leaf
from ergonet.models.registry import ACTIVATIONS
from tests.stages import cases, slow

LEAF = Leaf(shape=(3, 4), fan_in=4)
PRIORS = {
    "normal": (priors.Normal(0.7, 0.3), stats.norm(0.3, 0.7)),
    "fan-in": (priors.FanInNormal(1.4), stats.norm(0, 0.7)),
    "laplace": (priors.Laplace(0.6), stats.laplace(0, 0.6)),
    "student-t": (priors.StudentT(5.0, 0.8), stats.t(5, 0, 0.8)),
}


@pytest.mark.parametrize("name", PRIORS)
def test_prior_densities_are_those_of_scipy(name):
    prior, known = PRIORS[name]
    weights = np.random.default_rng(0).normal(size=LEAF.shape)
    ours = prior.log_prob(jnp.asarray(weights, jnp.float32), LEAF)
    np.testing.assert_allclose(ours, known.logpdf(weights).sum(), rtol=1e-5)


@pytest.mark.parametrize("name", PRIORS)
def test_prior_draws_have_the_distribution(name):
    prior, known = PRIORS[name]
    draws = np.asarray(prior.sample(jax.random.key(0), Leaf(shape=(100, 100), fan_in=4), jnp.float32))
    assert draws.dtype == np.float32
    distance = stats.kstest(draws.ravel(), known.cdf).statistic
    assert distance < 2.3 / np.sqrt(draws.size)  # a false alarm of about 5e-5


def test_assignment_by_pattern_first_match_first():
    leaves = MLP((4, 5, 2)).leaves()
    mapping = {"layers.0.weight": priors.Laplace(0.5), "*.bias": priors.Normal(2.0), "*": priors.FanInNormal()}
    chosen = priors.assign(mapping, leaves)
    kinds = dict(zip(chosen.paths, (type(prior).__name__ for prior in chosen.priors), strict=True))
    assert kinds == {
        "layers.0.weight": "Laplace",
        "layers.0.bias": "Normal",
        "layers.1.weight": "FanInNormal",
        "layers.1.bias": "Normal",
    }
    assert chosen.dim == 4 * 5 + 5 + 5 * 2 + 2
    position = jnp.asarray(np.random.default_rng(1).normal(size=chosen.dim), jnp.float32)
    named = chosen.split(position)
    by_leaf = sum(
        p.log_density(named[path], {}, leaves[path]) for path, p in zip(chosen.paths, chosen.priors, strict=True)
    )
    np.testing.assert_allclose(chosen.log_prob(position), by_leaf, rtol=1e-5)
    np.testing.assert_array_equal(jnp.concatenate([value.reshape(-1) for value in named.values()]), position)
    assert "layers.0.weight" in chosen.describe()


def test_neighbors_with_one_normal_prior_are_one_product():
    chosen = priors.assign(priors.Normal(0.5, 0.1), MLP((3, 4, 2)).leaves())
    position = np.random.default_rng(2).normal(size=chosen.dim)
    expected = stats.norm.logpdf(position, 0.1, 0.5).sum()
    np.testing.assert_allclose(chosen.log_prob(jnp.asarray(position, jnp.float32)), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("prior", "complaint"),
    [
        (
            {"layer.0.weight": priors.Normal(), "*": priors.Normal()},
            r"'layer.0.weight' matches no leaf.*layers.0.weight",
        ),
        ({"*": priors.Normal(), "*.bias": priors.Normal()}, r"'\*.bias' decides nothing, because '\*' comes first"),
        ({"*.weight": priors.Normal()}, r"no pattern matches layers.0.bias, layers.1.bias"),
        ({}, r"no pattern matches"),
    ],
)
def test_assignments_that_do_not_fit_are_refused(prior, complaint):
    with pytest.raises(SettingError, match=complaint):
        priors.assign(prior, MLP((2, 3, 1)).leaves())


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_scales_of_priors_are_positive(bad):
    for make in (priors.Normal, priors.FanInNormal, priors.Laplace, priors.StudentT):
        with pytest.raises(SettingError, match="must be a finite number above 0"):
            make(bad)
    with pytest.raises(SettingError, match="mean"):
        priors.Normal(1.0, float("nan"))


@pytest.mark.parametrize(("width", "alpha"), [(0.3, 1.0), (2.0, 0.4), (0.1, 6.0)])
def test_the_gamma_prior_is_a_density_of_the_log_precision(width, alpha):
    prior = likelihoods.GammaPrecision(width=width, alpha=alpha)
    with jax.enable_x64(True):
        log_prob = jax.jit(prior.log_prob)
        total = integrate.quad(lambda t: float(np.exp(log_prob(jnp.asarray(t)))), -80, 20, limit=300)[0]
        mean = integrate.quad(lambda t: float(np.exp(log_prob(jnp.asarray(t)) + t)), -80, 20, limit=300)[0]
        known: Any = stats.gamma(alpha / 2, scale=1 / (alpha / 2 * width**2))
        value = float(log_prob(jnp.asarray(0.7)))
    np.testing.assert_allclose(total, 1, rtol=1e-4)
    np.testing.assert_allclose(mean, width**-2, rtol=1e-4)
    np.testing.assert_allclose(value, known.logpdf(np.exp(0.7)) + 0.7, rtol=1e-8)
    keys = jax.random.split(jax.random.key(1), 4000)
    draws = np.asarray(jax.vmap(lambda key: prior.sample(key, jnp.float32))(keys))
    assert stats.kstest(np.exp(draws.astype(float)), known.cdf).statistic < 2.3 / np.sqrt(4000)


@pytest.mark.parametrize("log_precision", [-1e4, -100.0, 80.0])
def test_the_gamma_prior_is_finite_where_a_precision_is_not(log_precision):
    value, slope = jax.value_and_grad(likelihoods.GammaPrecision().log_prob)(jnp.asarray(log_precision))
    assert np.isfinite(value)
    assert np.isfinite(slope)
    vague = likelihoods.GammaPrecision(alpha=0.02)
    assert np.all(np.isfinite([vague.sample(jax.random.key(n), jnp.float32) for n in range(50)]))


ROWS = 7
OUTPUTS = np.random.default_rng(3).normal(size=(4, ROWS)).astype(np.float32)


def likelihood_cases():
    """Likelihood, its own parameters, outputs, prepared targets, and NumPyro's distribution of a row's target."""
    rng = np.random.default_rng(4)
    labels, real = rng.integers(0, 4, size=ROWS), rng.normal(size=(ROWS, 4))
    learned = {LOG_PRECISION: jnp.asarray(0.8)}
    half = OUTPUTS[:2], np.exp(-0.5 * OUTPUTS[2:])
    below_ceiling = 1 / np.hypot(1 / half[1].T, [2.0, 0.5])
    within_reach = np.where(np.abs(half[0].T) < 0.5, half[0].T, np.sign(half[0].T) * (1.0 - 0.25 / np.abs(half[0].T)))
    return {
        "categorical": (likelihoods.Categorical(), {}, OUTPUTS, labels, dist.Categorical(logits=OUTPUTS.T)),
        "bernoulli": (likelihoods.Bernoulli(), {}, OUTPUTS[:1], labels % 2, dist.Bernoulli(logits=OUTPUTS[0])),
        "gaussian": (likelihoods.Gaussian(noise=0.4), {}, OUTPUTS, real, dist.Normal(OUTPUTS.T, 0.4).to_event(1)),
        "learned": (
            likelihoods.Gaussian(),
            learned,
            OUTPUTS,
            real,
            dist.Normal(OUTPUTS.T, np.exp(-0.4)).to_event(1),
        ),
        "heteroscedastic": (
            likelihoods.HeteroscedasticGaussian(),
            {},
            OUTPUTS,
            real[:, :2],
            dist.Normal(half[0].T, half[1].T).to_event(1),
        ),
        "heavy tails": (
            likelihoods.HeteroscedasticStudentT(floor=(0.5, 2.0)),
            {},
            OUTPUTS,
            real[:, :2],
            dist.StudentT(4.0, half[0].T, np.hypot(half[1].T, [0.5, 2.0])).to_event(1),
        ),
        "floor": (
            likelihoods.HeteroscedasticGaussian(floor=(0.5, 2.0)),
            {},
            OUTPUTS,
            real[:, :2],
            dist.Normal(half[0].T, np.hypot(half[1].T, [0.5, 2.0])).to_event(1),
        ),
        "ceiling": (
            likelihoods.HeteroscedasticGaussian(ceiling=(0.5, 2.0)),
            {},
            OUTPUTS,
            real[:, :2],
            dist.Normal(half[0].T, below_ceiling).to_event(1),
        ),
        "floor and ceiling": (
            likelihoods.HeteroscedasticStudentT(floor=0.3, ceiling=(0.5, 2.0)),
            {},
            OUTPUTS,
            real[:, :2],
            dist.StudentT(4.0, half[0].T, np.hypot(below_ceiling, 0.3)).to_event(1),
        ),
        "reach": (
            likelihoods.HeteroscedasticStudentT(reach=0.5),
            {},
            OUTPUTS,
            real[:, :2],
            dist.StudentT(4.0, within_reach, half[1].T).to_event(1),
        ),
    }


CASES = tuple(likelihood_cases())


@pytest.mark.parametrize("name", CASES)
def test_likelihood_densities_and_moments_are_those_of_numpyro(name):
    likelihood, own, outputs, y, known = likelihood_cases()[name]
    outputs = jnp.asarray(outputs)
    targets = likelihood.prepare(jnp.asarray(y), outputs.shape[0])
    np.testing.assert_allclose(likelihood.log_prob(own, outputs, targets), known.log_prob(y), rtol=1e-4, atol=1e-5)
    mean, variance = likelihood.mean(own, outputs), likelihood.variance(own, outputs)
    if likelihood.is_classification:
        np.testing.assert_allclose(mean.sum(axis=0), 1, rtol=1e-5)
        classes = np.arange(mean.shape[0])[:, None] * np.ones(ROWS, int)
        np.testing.assert_allclose(np.exp([known.log_prob(row) for row in classes]), mean, rtol=1e-4)
        np.testing.assert_allclose(variance, mean * (1 - mean), rtol=1e-5)
        np.testing.assert_allclose(likelihood.monitor(own, outputs).reshape(mean.shape), jnp.log(mean), atol=1e-5)
    else:
        np.testing.assert_allclose(mean.T, known.mean, rtol=1e-5)
        np.testing.assert_allclose(variance.T, known.variance, rtol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_likelihood_samples_have_the_mean_and_variance(name):
    likelihood, own, outputs, _, _ = likelihood_cases()[name]
    outputs = jnp.asarray(outputs)
    keys = jax.random.split(jax.random.key(5), 5000)
    draws = np.asarray(jax.jit(jax.vmap(lambda key: likelihood.sample(key, own, outputs)))(keys))
    mean, variance = np.asarray(likelihood.mean(own, outputs)), np.asarray(likelihood.variance(own, outputs))
    if likelihood.is_classification:
        draws = np.stack([draws[:, 0] == label for label in range(mean.shape[0])], axis=1).astype(float)
    error = np.sqrt(variance / len(draws))
    assert np.max(np.abs(draws.mean(axis=0) - mean) / error) < 4.5
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.2, atol=0.01)


@pytest.mark.parametrize("probability", cases([0.05, 0.5, 0.9], quick=[0.9]))
@pytest.mark.parametrize("name", CASES)
def test_quantiles_invert_the_distribution_function(name, probability):
    likelihood, own, outputs, _, _ = likelihood_cases()[name]
    outputs = jnp.asarray(outputs)
    value = likelihood.quantile(own, outputs, probability)
    reached = np.asarray(likelihood.cdf(own, outputs, value))
    if likelihood.is_classification:
        below = np.asarray(likelihood.cdf(own, outputs, value - 1))
        assert np.all(reached >= probability - 1e-6)
        assert np.all(below < probability + 1e-6)
    else:
        np.testing.assert_allclose(reached, probability, atol=1e-5)


def test_categorical_probabilities_survive_huge_outputs():
    outputs = jnp.asarray([[1e4, -1e4], [0.0, 0.0]])
    targets = likelihoods.Categorical().prepare(jnp.array([0, 1]), 2)
    value, slope = jax.value_and_grad(lambda o: likelihoods.Categorical().log_prob({}, o, targets).sum())(outputs)
    np.testing.assert_allclose(value, 0, atol=1e-6)
    assert np.all(np.isfinite(slope))


@pytest.mark.parametrize(
    ("likelihood", "y", "num_outputs", "complaint"),
    [
        (likelihoods.Categorical(), [0, 1, 3], 3, r"row 2 .* has 3"),
        (likelihoods.Categorical(), [0.5, 1.0], 3, "with fractions"),
        (likelihoods.Categorical(), [[0, 1], [1, 0]], 3, r"shape \[rows\]"),
        (likelihoods.Bernoulli(), [0, 2], 1, r"lie in 0..1"),
        (likelihoods.Gaussian(), np.zeros((3, 2)), 1, r"\[rows, 1\]"),
        (likelihoods.HeteroscedasticGaussian(), np.zeros((3, 2)), 2, r"\[rows, 1\]"),
    ],
)
def test_targets_that_do_not_fit_are_refused(likelihood, y, num_outputs, complaint):
    with pytest.raises(DataError, match=complaint):
        likelihood.prepare(jnp.asarray(y), num_outputs)


@pytest.mark.parametrize(
    ("likelihood", "num_outputs"),
    [(likelihoods.Categorical(), 1), (likelihoods.Bernoulli(), 2), (likelihoods.HeteroscedasticGaussian(), 3)],
)
def test_networks_with_the_wrong_number_of_outputs_are_refused(likelihood, num_outputs):
    with pytest.raises(SettingError, match="output"):
        likelihood.prepare(jnp.zeros(4), num_outputs)


@pytest.mark.parametrize("noise", [0.0, -1.0, float("inf")])
def test_noise_must_be_positive(noise):
    with pytest.raises(SettingError, match="above 0"):
        likelihoods.Gaussian(noise=noise)
    with pytest.raises(SettingError, match="above 0"):
        likelihoods.GammaPrecision(width=noise)


PLAIN = {
    "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
    "softplus": lambda z: np.log1p(np.exp(z)),
}


def random_weights(network, seed=0):
    rng = np.random.default_rng(seed)
    return {path: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32) for path, leaf in network.leaves().items()}


@pytest.mark.parametrize(("bias", "direct"), [(True, False), (False, False), (True, True)])
@pytest.mark.parametrize("name", cases(ACTIVATIONS.names(), quick=["tanh", "relu"]))
@pytest.mark.parametrize("sizes", [slow(((3, 2),)), (3, 5, 2), (3, 4, 6, 1)])
@pytest.mark.parametrize("num_rows", [8, SMALL_PRODUCT])
def test_a_network_is_the_plain_one_with_rows_first(num_rows, sizes, name, bias, direct):
    network = MLP(sizes, activation=name, bias=bias, direct=direct and len(sizes) > 2)
    weights, x = random_weights(network), np.random.default_rng(6).normal(size=(num_rows, 3)).astype(np.float32)
    values = x
    for layer in range(len(sizes) - 1):
        values = PLAIN[name](values) if layer else values
        values = values @ np.asarray(weights[f"layers.{layer}.weight"]).T
        values = values + np.asarray(weights[f"layers.{layer}.bias"]) if bias else values
    values = values + x @ np.asarray(weights["direct.weight"]).T if network.direct else values
    outputs = network.apply(weights, network.prepare(jnp.asarray(x)))
    np.testing.assert_allclose(np.asarray(outputs).T, values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("num_rows", "calls_products"), [(8, False), (SMALL_PRODUCT, True)])
def test_tiny_networks_call_no_matrix_product(num_rows, calls_products):
    network = MLP((2, 8, 1))
    inputs = jnp.ones((2, num_rows))
    gradient = jax.grad(lambda weights: jnp.sum(network.apply(weights, inputs)))
    assert ("dot_general" in str(jax.make_jaxpr(gradient)(random_weights(network)))) == calls_products


def test_an_equinox_module_is_a_network():
    module = eqx.nn.MLP(3, 2, 5, 1, activation=jnp.tanh, key=jax.random.key(0))
    network, ours = as_network(module), MLP((3, 5, 2))
    shapes = {path: leaf.shape for path, leaf in network.leaves().items()}
    assert shapes == {path: leaf.shape for path, leaf in ours.leaves().items()}
    assert [leaf.fan_in for leaf in network.leaves().values()] == [3, 1, 5, 1]
    weights, x = random_weights(ours), jnp.asarray(np.random.default_rng(7).normal(size=(6, 3)), jnp.float32)
    outputs = network.apply(weights, network.prepare(x))
    np.testing.assert_allclose(outputs, ours.apply(weights, ours.prepare(x)), rtol=1e-5, atol=1e-6)
    replaced = eqx.tree_at(
        lambda m: [m.layers[0].weight, m.layers[0].bias, m.layers[1].weight, m.layers[1].bias],
        module,
        [weights[path] for path in network.leaves()],
    )
    np.testing.assert_allclose(outputs.T, jax.vmap(replaced)(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: MLP((2, 3, 1), bias="x"), r"`MLP\(bias=\.\.\.\)` must be True or False, got 'x'"),
        (lambda: MLP((2, 3, 1), bias=1), "must be True or False, got 1"),
        (lambda: MLP((2, 3, 1), direct=1), r"`MLP\(direct=\.\.\.\)` must be True or False, got 1"),
        (lambda: MLP((2, 1), direct=True), "needs a hidden layer"),
        (lambda: MLP((40_000, 1, 60_000), direct=True), "would have 2400160001 weights"),
        (lambda: MLP((3,)), "at least the numbers of inputs and outputs"),
        (lambda: MLP((3, 0, 1)), "integers of at least 1, got 0"),
        (lambda: MLP((3, 2), activation="tahn"), "Did you mean 'tanh'"),
        (lambda: ACTIVATIONS.load("swish"), "silu"),
        (lambda: as_network(np.tanh), "must be an `ergonet.MLP`"),
        (lambda: as_network(eqx.nn.Identity()), "nothing to sample"),
    ],
)
def test_impossible_networks_are_refused(make, complaint):
    with pytest.raises(SettingError, match=complaint):
        make()
