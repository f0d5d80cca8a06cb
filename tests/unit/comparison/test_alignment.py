"""Planted permutations, signs and scales are found; aligned draws stay; chains in different modes are told apart."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import MLP, BayesianNetwork, Samples, comparison, likelihoods, priors
from ergonet._errors import CapabilityError, SettingError
from ergonet.partition.copies import Layers

DRAWS = 8


def layers_of(model, *, is_odd):
    """Where the weights are; the network of these tests is an `MLP`."""
    return Layers.of(model.network, is_odd=is_odd)


def network(*sizes, activation="tanh"):
    return BayesianNetwork(MLP(sizes, activation=activation), priors.Normal(1.0), likelihoods.Gaussian(noise=0.5))


def around(model, *, chains=2, seed=0, noise=0.02):
    """Draws close to one point, `[chain, draw, dim]`."""
    rng = np.random.default_rng(seed)
    center = rng.normal(size=model.dim)
    return (center + noise * rng.normal(size=(chains, DRAWS, model.dim))).astype(np.float32)


def run(positions):
    return Samples(positions, {}, {}, {}, {}, {}, {})


def shuffled(layers, positions, *, seed=1):
    """Chain 0 stays; every draw of the others becomes a random copy."""
    changed, rng = positions.copy(), np.random.default_rng(seed)
    for chain in range(1, len(positions)):
        changed[chain] = layers.shuffled(positions[chain], rng)
    return changed


@pytest.mark.parametrize(
    ("hidden", "activation"),
    [
        ((5,), "tanh"),
        pytest.param((35,), "tanh", marks=pytest.mark.slow),
        pytest.param((100,), "tanh", marks=pytest.mark.slow),
        pytest.param((100,), "sigmoid", marks=pytest.mark.slow),
        pytest.param((6, 5), "tanh", marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_planted_copies_are_found_exactly(hidden, activation):
    model = network(3, *hidden, 2, activation=activation)
    positions = around(model)
    layers = layers_of(model, is_odd=activation == "tanh")
    planted = shuffled(layers, positions)
    assert not np.array_equal(planted, positions)
    found = comparison.align(run(planted), model=model)
    np.testing.assert_array_equal(found.weights, positions)
    assert found.modes.tolist() == [0, 0]
    assert np.nanmedian(found.before) > 1.5
    assert np.nanmedian(found.after) < 1.2
    unchanged = comparison.align(run(positions), model=model)
    np.testing.assert_array_equal(unchanged.weights, positions)


def test_scales_of_relu_are_removed():
    model = network(3, 6, 5, 1, activation="relu")
    positions, layers = around(model), layers_of(model, is_odd=False)
    planted, rng = shuffled(layers, positions), np.random.default_rng(2)
    for layer, units in enumerate((6, 5)):
        planted[1] = layers.scaled(planted[1], layer, np.exp(rng.normal(size=(DRAWS, units))))
    plain, found = (comparison.align(run(one), model=model) for one in (positions, planted))
    np.testing.assert_allclose(found.weights, plain.weights, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(found.weights[0, -1], positions[0, -1], rtol=1e-5)  # the reference
    assert "order of units and scales" in str(found)
    x = jnp.asarray(np.random.default_rng(3).normal(size=(3, 4)), jnp.float32)
    for one in range(2):
        there, here = (model.outputs(jnp.asarray(draws[1, one]), x) for draws in (found.weights, planted))
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-4)


def test_chains_in_different_modes_are_told_apart():
    model = network(2, 5, 1)
    near, far = around(model, chains=2), around(model, chains=1, seed=5)
    layers = layers_of(model, is_odd=True)
    found = comparison.align(run(shuffled(layers, np.concatenate([near[:1], far, near[1:]]))), model=model)
    assert found.modes.tolist() == [0, 1, 0]
    assert found.distances[0, 2] < 1 < found.distances[0, 1]
    assert "2 modes: chains 0, 2; chain 1." in str(found)
    assert found.names[:3] == ("layers.0.weight[0,0]", "layers.0.weight[0,1]", "layers.0.weight[1,0]")
    assert len(found.names) == found.weights.shape[2]


def test_the_reference_is_the_chain_with_the_highest_density():
    model = network(2, 5, 1)
    positions = around(model)
    planted = shuffled(layers_of(model, is_odd=True), positions)[::-1]
    levels = np.repeat([[-10.0], [-3.0]], DRAWS, axis=1)
    found = comparison.align(dataclasses.replace(run(planted), stats={"lp": levels}), model=model)
    np.testing.assert_array_equal(found.weights, positions[::-1])


def test_draws_of_weight_zero_change_neither_reference_nor_distances():
    model = network(2, 5, 1)
    settled, exploring = around(model), 3 * around(model, seed=5, noise=1.0)
    planted = shuffled(layers_of(model, is_odd=True), settled)[::-1]
    levels = np.concatenate([np.repeat([[90.0], [0.0]], DRAWS, axis=1), np.repeat([[-10.0], [-3.0]], DRAWS, axis=1)], 1)
    weight = np.repeat([0.0, 1.0], DRAWS)[None].repeat(2, axis=0)
    whole = run(np.concatenate([exploring, planted], axis=1))
    found = comparison.align(dataclasses.replace(whole, stats={"lp": levels, "weight": weight}), model=model)
    alone = comparison.align(dataclasses.replace(run(planted), stats={"lp": levels[:, DRAWS:]}), model=model)
    np.testing.assert_array_equal(found.weights[:, DRAWS:], alone.weights)
    np.testing.assert_allclose(found.distances, alone.distances, rtol=1e-6)
    assert found.modes.tolist() == [0, 0]


def test_other_networks_and_chains_are_refused():
    flat = network(2, 1)
    with pytest.raises(CapabilityError, match="hidden layer"):
        comparison.align(run(np.zeros((2, 4, 3), np.float32)), model=flat)
    with pytest.raises(CapabilityError, match="pass `model=`"):
        comparison.align(run(np.zeros((2, 4, 3), np.float32)))
    with pytest.raises(SettingError, match="chain from 0 to 1"):
        comparison.align(run(around(network(2, 5, 1))), model=network(2, 5, 1), reference=2)
