"""Energies of many rows in float32: the potential without its bulk, which draws have put back."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, MLP, NUTS, BayesianNetwork, Target, likelihoods, priors

ROWS = 100_000


def network_target():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, 3))
    model = BayesianNetwork(MLP((3, 5, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=1.0))
    return model.condition(x, np.sin(x[:, 0]) + 0.05 * rng.normal(size=ROWS))


def terms_target():
    data = jnp.asarray(np.random.default_rng(1).normal(size=(ROWS, 2)), jnp.float32)
    return Target.from_terms(
        lambda p: -0.5 * jnp.sum(p**2),
        lambda p, rows: -0.5 * jnp.sum((rows - p) ** 2, axis=1) - 7.0,
        data,
        jnp.zeros(2),
    )


@pytest.mark.parametrize("make", [network_target, terms_target])
def test_an_offset_shifts_the_potential_and_leaves_the_gradient(make):
    target = make()
    position = target.initial_position(jax.random.key(0))
    offset = target.offset_at(position)
    moved = target.with_offset(offset)
    whole, rest = target.potential(position), moved.potential(position)
    np.testing.assert_allclose(whole - offset, rest, atol=2e-6 * abs(float(whole)) + 1e-3)
    assert abs(float(rest)) < 0.01 * abs(float(whole))
    slopes = jax.grad(target.potential)(position), jax.grad(moved.potential)(position)
    np.testing.assert_allclose(*slopes, rtol=1e-4, atol=1e-3 * np.abs(slopes[0]).max())


def test_energy_differences_lose_less_to_rounding():
    target = terms_target()
    moved = target.with_offset(target.offset_at(jnp.zeros(2)))
    rows = np.asarray(target.data, np.float64)
    plain, better = [], []
    for step in range(12):
        near = 1e-2 * jax.random.normal(jax.random.key(step), (2,))
        point = np.asarray(near, np.float64)
        truth = 0.5 * np.sum(point**2) + 0.5 * np.sum((rows - point) ** 2)
        plain.append(float(target.potential(near)) - truth)
        better.append(float(moved.potential(near)) - truth)
    assert np.std(better) < 0.1 * np.std(plain)


def test_a_log_density_has_no_rows_to_take_off():
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))
    offset = target.offset_at(jnp.ones(3))
    assert offset == 0
    assert target.with_offset(offset) is target


@pytest.mark.parametrize("thin", [1, 2])
def test_draws_have_the_offset_put_back(thin):
    target = terms_target()
    samples = ergonet.sample(
        target, NUTS(), num_chains=2, num_warmup=60, num_draws=20, thin=thin, seed=0, progress=False
    )
    last = np.asarray(samples.positions)[:, -1]
    expected = [-float(target.potential(jnp.asarray(position))) for position in last]
    np.testing.assert_allclose(samples.stats["lp"][:, -1], expected, rtol=1e-6)
    kinetic = samples.stats["energy"] + samples.stats["lp"]
    assert np.all(kinetic > -0.1)
    assert np.all(kinetic < 30)


def test_lanes_of_a_batch_have_offsets_of_their_own():
    from ergonet.inference import batches, chains
    from ergonet.inference.chains import Plan

    target, kernel = terms_target(), HMC(num_steps=4, step_size=0.003, metric="identity")
    numbers = [jnp.asarray([0, 0, chain, 0], jnp.uint32) for chain in range(2)]
    records = [chains.start_chain(kernel, target, one, None) for one in numbers]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *records)
    plan = Plan.of(None, 0.8)
    together = batches.finish_stage(kernel, target, together, plan, jnp.asarray(False))
    assert together.offset[0] != together.offset[1]
    _, draws = batches.advance_chain(kernel, target, together, plan, jnp.asarray(3), thin=jnp.asarray(2), capacity=3)
    for chain in range(2):
        expected = float(target.potential(draws.positions[chain, -1]))
        np.testing.assert_allclose(draws.potential[chain, -1], expected, rtol=1e-6)
        assert float(draws.info.energy[chain, -1]) > expected - 0.2
