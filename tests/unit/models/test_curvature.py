"""Neal's and Choo's curvatures against the thesis's equations, case by case and unit by unit, and against Hessians.

Equations are those of Choo2000, chapter 4.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, likelihoods, priors
from ergonet.models.curvature import LEAST_SHARE
from ergonet.models.precision import GammaPrecision
from ergonet.target.capabilities import CenteredCurvature, Missing, WeightCurvature, offers
from tests.stages import cases

ROWS = 5
NOISE = GammaPrecision(0.4, 3.0)
WAYS = ("centered", "non-centered")


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def by_leaf(way):
    return priors.NormalGamma(0.7, 1.5, "leaf", way)


def by_unit(way):
    """ARD by the unit that weights and biases lead to."""
    return priors.NormalGamma(0.9, 2.5, "incoming", way)


def by_source(way):
    """ARD by the unit that weights come from; biases together, and those of the output fixed."""
    return {
        "layers.0.bias": priors.NormalGamma(0.5, 0.8, "leaf", way),
        "*.bias": priors.Normal(0.6),
        "*": priors.NormalGamma(1.2, 2.0, "outgoing", way),
    }


HIERARCHY = priors.NormalGamma(0.9, 2.0, "leaf", "centered", below=(priors.Level("incoming"), priors.Level("weight")))
PRIORS = {"leaf": by_leaf, "incoming": by_unit, "outgoing": by_source}
SIZES = {"one hidden layer": (2, 3, 2), "two hidden layers": (2, 3, 4, 2), "no bias": (3, 4, 2)}
LIKELIHOODS = {
    "learned noise": likelihoods.Gaussian(NOISE),
    "known noise": likelihoods.Gaussian(0.3),
    "classes": likelihoods.Categorical(),
}
CASES = list(itertools.product(PRIORS, SIZES, LIKELIHOODS))
QUICK_CASES = cases(CASES, quick=[("incoming", "two hidden layers", "learned noise")])


def posterior_of(prior, sizes, likelihood, way, *, seed=0):
    rng = np.random.default_rng(seed)
    network = MLP(SIZES[sizes], bias=sizes != "no bias")
    chosen = PRIORS[prior](way)
    if isinstance(chosen, dict) and not network.bias:
        chosen = {"*": chosen["*"]}
    model = BayesianNetwork(network, chosen, LIKELIHOODS[likelihood])
    x = rng.normal(size=(ROWS, network.sizes[0]))
    y = rng.integers(0, 2, ROWS) if likelihood == "classes" else rng.normal(size=(ROWS, 2))
    posterior = model.condition(x, y)
    position = rng.normal(0, 0.7, size=posterior.dim)
    return posterior, x, y, position[: posterior.num_weights], position[posterior.num_weights :]


class Thesis:
    """A network's coordinates and log precisions, element by element, as the thesis writes them."""

    def __init__(self, prior, posterior, weights, own):
        network = posterior.model.network
        self.sizes, self.bias = network.sizes, network.bias
        self.kind, self.weights, self.groups, self.alpha = prior, {}, {}, {}
        self.log_precision, self.count = {}, 0
        for path, leaf in network.leaves().items():
            self.weights[path], weights = weights[: leaf.size].reshape(leaf.shape), weights[leaf.size :]
            group, self.alpha[path], self.width = self.rule(path, leaf.shape)
            self.groups[path] = group
            if group is None:
                self.log_precision[path] = np.full(leaf.shape, -2 * np.log(0.6))
                continue
            used = group.max() + 1
            values = np.full(used, -2 * np.log(self.width)) if own is None else own[self.count : self.count + used]
            self.log_precision[path] = values[group]
            self.groups[path] = group + self.count
            self.count += used

    def rule(self, path, shape):
        """Group of every element, alpha and width."""
        rows = np.arange(shape[0])
        if self.kind == "leaf":
            return np.zeros(shape, int), 1.5, 0.7
        if self.kind == "incoming":
            return (rows if len(shape) == 1 else np.repeat(rows[:, None], shape[1], 1)), 2.5, 0.9
        if len(shape) == 2:
            return np.repeat(np.arange(shape[1])[None], shape[0], 0), 2.0, 1.2
        return (np.zeros(shape, int), 0.8, 0.5) if path == "layers.0.bias" else (None, None, None)

    def layers(self):
        return range(len(self.sizes) - 1)


def weight_curvature(thesis, x, c_out, *, is_centered):
    """Equations 4.27 to 4.34; centered, without the factors e^-lambda of the weights themselves (section 4.8)."""
    found, c = {}, np.full(thesis.sizes[-1], c_out)
    for layer in reversed(thesis.layers()):
        path = f"layers.{layer}.weight"
        precision = np.exp(thesis.log_precision[path])
        found[path] = np.zeros(precision.shape)
        for j, i in np.ndindex(precision.shape):
            data = 0.0
            for case in x:
                data += c[j] * (case[i] ** 2 if layer == 0 else 1.0)
            own = thesis.groups[path] is None
            found[path][j, i] = precision[j, i] + data if is_centered or own else 1 + data / precision[j, i]
        if thesis.bias:
            path_b = f"layers.{layer}.bias"
            of_bias = np.exp(thesis.log_precision[path_b])
            is_plain = is_centered or thesis.groups[path_b] is None
            found[path_b] = of_bias + len(x) * c if is_plain else 1 + len(x) * c / of_bias
        c = np.array([sum(c[j] / precision[j, i] for j in range(len(c))) for i in range(precision.shape[1])])
    return np.concatenate([found[path].ravel() for path in thesis.weights])


def hyperparameter_curvature(thesis, x, y, likelihood):
    """Equations 4.36 to 4.42 at the prior means, before the absolute value of 4.43."""
    actual = {path: thesis.weights[path] * np.exp(-thesis.log_precision[path] / 2) for path in thesis.weights}
    actual |= {path: thesis.weights[path] for path in thesis.weights if thesis.groups[path] is None}
    total, noise = np.zeros(thesis.count), 0.0
    precision = {"learned noise": 0.4**-2, "known noise": 0.3**-2, "classes": 0.25}[likelihood]
    for case, target in zip(x, y, strict=True):
        values, hidden = case, []
        for layer in thesis.layers():
            hidden.append(np.tanh(values) if layer else values)
            values = actual[f"layers.{layer}.weight"] @ hidden[-1]
            values = values + actual[f"layers.{layer}.bias"] if thesis.bias else values
        if likelihood == "classes":
            first = np.exp(values) / np.exp(values).sum() - np.eye(len(values))[target]
        else:
            first = precision * (values - target)
            noise += precision * np.sum((values - target) ** 2) / 2
        second = np.full(len(values), precision)
        for layer in reversed(thesis.layers()):
            weight, group = actual[f"layers.{layer}.weight"], thesis.groups[f"layers.{layer}.weight"]
            slopes = np.zeros((thesis.count, weight.shape[0]))  # dg_j / dlambda
            for j, i in np.ndindex(weight.shape):
                slopes[group[j, i], j] -= weight[j, i] * hidden[layer][i] / 2
            if thesis.bias and thesis.groups[f"layers.{layer}.bias"] is not None:
                for j, number in enumerate(thesis.groups[f"layers.{layer}.bias"]):
                    slopes[number, j] -= actual[f"layers.{layer}.bias"][j] / 2
            total += -0.5 * slopes @ first + slopes**2 @ second
            first = (1 - hidden[layer] ** 2) * (weight.T @ first)
            second = weight.T**2 @ second
    for path, group in thesis.groups.items():
        if group is not None:
            total[np.unique(group)] += thesis.alpha[path] / 2
    return np.append(total, NOISE.alpha / 2 + noise) if likelihood == "learned noise" else total


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("prior", "sizes", "likelihood"), QUICK_CASES)
def test_curvatures_of_weights_are_the_thesis_s(prior, sizes, likelihood, way):
    posterior, x, _, weights, own = posterior_of(prior, sizes, likelihood, way)
    learned = np.exp(own[-1]) if own.size else 1.0
    c_out = {"learned noise": learned, "known noise": 0.3**-2, "classes": 0.25}[likelihood]
    thesis = Thesis(prior, posterior, weights, own)
    expected = weight_curvature(thesis, x, c_out, is_centered=way == "centered")
    np.testing.assert_allclose(posterior.curvature.of_weights(jnp.asarray(own)), expected, rtol=1e-10)


@pytest.mark.parametrize(("prior", "sizes", "likelihood"), QUICK_CASES)
def test_curvatures_of_hyperparameters_are_the_thesis_s(prior, sizes, likelihood):
    posterior, x, y, weights, _ = posterior_of(prior, sizes, likelihood, "non-centered")
    expected = hyperparameter_curvature(Thesis(prior, posterior, weights, None), x, y, likelihood)
    ours = np.asarray(posterior.curvature.of_hyperparameters(jnp.asarray(weights)))
    assert ours.shape == expected.shape == (posterior.dim - posterior.num_weights,)
    np.testing.assert_allclose(ours, np.abs(expected), rtol=1e-9)

    centered, *_ = posterior_of(prior, sizes, likelihood, "centered")
    thesis = Thesis(prior, posterior, weights, None)
    constants = np.concatenate(
        [
            [(thesis.alpha[path] + np.sum(group == number)) / 2 for number in np.unique(group)]
            for path, group in thesis.groups.items()
            if group is not None
        ]
    )
    if likelihood == "learned noise":
        constants = np.append(constants, (NOISE.alpha + 2 * ROWS) / 2)
    np.testing.assert_allclose(centered.curvature.of_hyperparameters(jnp.asarray(weights)), constants, rtol=1e-12)


def test_a_curvature_is_positive_where_its_terms_cancel():
    smallest, is_negative = np.inf, False
    for seed in range(60):
        posterior, x, y, weights, _ = posterior_of(
            "leaf", "one hidden layer", "learned noise", "non-centered", seed=seed
        )
        expected = hyperparameter_curvature(Thesis("leaf", posterior, weights, None), x, y, "learned noise")
        is_negative |= bool(np.any(expected < 0))
        smallest = min(smallest, float(np.min(posterior.curvature.of_hyperparameters(jnp.asarray(weights)))))
        if is_negative:
            break
    assert is_negative
    assert smallest >= LEAST_SHARE * 1.5 / 2
    # One weight w~ of one row without inputs' noise: alpha / 2 + c (w f' - ...) is 0 for a residual found by hand.
    model = BayesianNetwork(MLP((1, 1), bias=False), priors.NormalGamma(1.0, 2.0), likelihoods.Gaussian(1.0))
    # d^2 U / d lambda^2 = 1 + (w (w - y) + w^2) / 4 = 0 at w = 1 for y = 6.
    zero = model.condition(np.ones((1, 1)), np.array([6.0]))
    np.testing.assert_allclose(zero.curvature.of_hyperparameters(jnp.ones(1)), [LEAST_SHARE], rtol=1e-12)


def linear(way, *, sizes=(3, 1)):
    rng = np.random.default_rng(1)
    model = BayesianNetwork(
        MLP(sizes, bias=False), priors.NormalGamma(0.7, 1.5, "leaf", way), likelihoods.Gaussian(NOISE)
    )
    posterior = model.condition(rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, sizes[-1])))
    return posterior, rng.normal(size=posterior.dim)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_without_a_hidden_layer_the_curvature_of_weights_is_the_second_derivative(way):
    posterior, position = linear(way, sizes=(3, 2))
    count = posterior.num_weights
    hessian = jax.hessian(posterior.potential)(jnp.asarray(position))
    ours = posterior.curvature.of_weights(jnp.asarray(position[count:]))
    np.testing.assert_allclose(ours, np.diag(hessian)[:count], rtol=1e-10)


@pytest.mark.slow
def test_the_curvature_of_precisions_is_the_second_derivative_where_it_was_taken():
    posterior, position = linear("centered")
    weights = position[:3]
    residual = np.asarray(posterior.targets) - weights @ np.asarray(posterior.inputs)
    means = [(1.5 + 3) / (1.5 * 0.49 + np.sum(weights**2)), (3.0 + ROWS) / (3.0 * 0.16 + np.sum(residual**2))]
    at = jnp.asarray([*weights, *np.log(means)])
    exact = np.diag(jax.hessian(posterior.potential)(at))[3:]
    np.testing.assert_allclose(posterior.curvature.of_hyperparameters(at[:3]), exact, rtol=1e-10)

    posterior, position = linear("non-centered")
    at = jnp.asarray([*position[:3], -2 * np.log(0.7), -2 * np.log(0.4)])
    exact = np.diag(jax.hessian(posterior.potential)(at))[3:]
    np.testing.assert_allclose(posterior.curvature.of_hyperparameters(at[:3]), np.abs(exact), rtol=1e-10)


@pytest.mark.parametrize(
    ("network", "prior", "likelihood", "complaint"),
    [
        (MLP((2, 3, 1), activation="relu"), by_leaf("centered"), likelihoods.Gaussian(), "relu"),
        (MLP((2, 3, 1), direct=True), by_leaf("centered"), likelihoods.Gaussian(), "direct connections"),
        (MLP((2, 3, 1)), by_leaf("non-centered"), likelihoods.Gaussian(), "parametrization='centered'"),
        (MLP((2, 3, 1)), priors.Horseshoe(), likelihoods.Gaussian(), "Horseshoe"),
        (MLP((2, 3, 1)), priors.Laplace(), likelihoods.Gaussian(), "Laplace"),
        (MLP((2, 3, 1)), priors.Normal(1.0, 0.5), likelihoods.Gaussian(), "around 0"),
        (MLP((2, 3, 1)), priors.NormalGamma(1.0, 1.0, "layer", "centered"), likelihoods.Gaussian(), "by leaf"),
        (MLP((2, 3, 1)), priors.NormalGamma(1.0, 1.0, "weight", "centered"), likelihoods.Gaussian(), "by leaf"),
        (MLP((2, 3, 1)), HIERARCHY, likelihoods.Gaussian(), "one level"),
        (MLP((2, 3, 2)), by_leaf("centered"), likelihoods.HeteroscedasticGaussian(), "Heteroscedastic"),
        (MLP((2, 3, 1)), priors.Normal(), likelihoods.Gaussian(0.1), "no hyperparameters"),
    ],
)
def test_models_without_curvatures_say_why(network, prior, likelihood, complaint):
    posterior = BayesianNetwork(network, prior, likelihood).condition(np.zeros((4, 2)), np.zeros((4, 1)))
    found = posterior.capability(CenteredCurvature)
    assert isinstance(found, Missing)
    assert complaint in found.reason


@pytest.mark.parametrize("prior", [HIERARCHY, priors.NormalGamma(0.9, 2.0, "layer", "centered")], ids=repr)
def test_weights_of_a_hierarchy_have_the_curvature_of_their_lowest_precisions(prior):
    """As if those precisions were fixed: by layer, by unit and by weight, equations 4.27 to 4.33 hold alike."""
    x = np.random.default_rng(3).normal(size=(ROWS, 2))
    posterior = BayesianNetwork(MLP((2, 3, 1)), prior, likelihoods.Gaussian(0.5)).condition(x, np.zeros(ROWS))
    assert offers(posterior, WeightCurvature)
    own = np.random.default_rng(4).normal(size=posterior.dim - posterior.num_weights)
    named = posterior.model.hyperparameters(jnp.concatenate([jnp.zeros(posterior.num_weights), own]))
    tau = {}
    for block in posterior.model.prior.blocks():
        lowest = prior.log_precisions(block.hyperparameters(named), block.leaf)[-1]
        values = np.broadcast_to(np.exp(np.asarray(lowest)), block.leaf.shape)
        tau |= {path: np.asarray(part) for path, part in block.cut(jnp.asarray(values)).items()}
    above = 0.5**-2
    hidden = above / tau["layers.1.weight"][0]  # c_j of the hidden units
    expected = {
        "layers.0.weight": tau["layers.0.weight"] + hidden[:, None] * np.sum(x**2, axis=0),
        "layers.0.bias": tau["layers.0.bias"] + hidden * ROWS,
        "layers.1.weight": tau["layers.1.weight"] + above * ROWS,
        "layers.1.bias": tau["layers.1.bias"] + above * ROWS,
    }
    flat = np.concatenate([expected[path].reshape(-1) for path in posterior.model.prior.paths])
    np.testing.assert_allclose(posterior.curvature.of_weights(jnp.asarray(own)), flat, rtol=1e-10)
