"""Energies in float32: potentials relative to a reference point, whose value is added again to draws."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergonet
from ergonet import HMC, MLP, NUTS, BayesianNetwork, Target, likelihoods, priors
from ergonet.adaptation.machine import Adaptations
from ergonet.adaptation.stages import Warmup
from ergonet.inference import batches, chains
from ergonet.target.views import WeightsGiven
from tests.stages import cases, slow

NEAR = 1e-3
PRIORS = {
    "normal": priors.Normal(1.0, 0.1),
    "Student t": priors.StudentT(),
    "centered": priors.NormalGamma(parametrization="centered"),
    "non-centered": priors.NormalGamma(),
}


def network_target(prior, rows, *, is_double=False):
    """A network of 2590 weights on rows that are all different."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 64)).astype(np.float32)
    y = rng.integers(0, 10, rows)
    model = BayesianNetwork(MLP((64, 35, 10), bias=False), prior, likelihoods.Categorical())
    return model.condition(x.astype(np.float64) if is_double else x, y)


def small_target(prior):
    """With biases and a learned noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 3))
    model = BayesianNetwork(MLP((3, 5, 1)), prior, likelihoods.Gaussian())
    return model.condition(x, np.sin(x[:, 0]) + 0.05 * rng.normal(size=50))


def terms_target(rows=100_000):
    data = jnp.asarray(np.random.default_rng(1).normal(size=(rows, 2)), jnp.float32)
    return Target.from_terms(
        lambda p: -0.5 * jnp.sum(p**2) - 1000.0,
        lambda p, rows: -0.5 * jnp.sum((rows - p) ** 2, axis=1),
        data,
        jnp.zeros(2),
    )


@eqx.filter_jit
def potentials(target, positions):
    """As it is, and relative to the first position."""
    moved = target.relative_to(target.reference_point(positions[0]))
    return jnp.stack([jax.lax.map(one.potential, positions) for one in (target, moved)])


def rounding(target, positions, truth):
    """sd of U32 - U64 at these positions, likewise."""
    return np.std(np.asarray(potentials(target, jnp.asarray(positions)), np.float64) - truth, axis=1)


@pytest.mark.parametrize("name", cases(PRIORS, quick=["centered"]))
def test_a_potential_is_smaller_by_that_at_its_reference_point_and_has_the_same_gradient(name):
    @eqx.filter_jit
    def evaluate(target, here, there):
        reference = target.reference_point(there)
        whole = target.potential(there), *jax.value_and_grad(target.potential)(here)
        rest = (
            target.relative_to(reference).potential(there),
            *jax.value_and_grad(target.relative_to(reference).potential)(here),
        )
        return reference.potential, whole, rest

    with jax.enable_x64(True):
        target = small_target(PRIORS[name])
        positions = jnp.asarray(np.random.default_rng(1).normal(size=(2, target.dim)))
        taken_off, (there, whole, slope), (nothing, rest, same_slope) = evaluate(target, *positions)
        np.testing.assert_allclose(taken_off, there, rtol=1e-12)
        np.testing.assert_allclose(nothing, 0, atol=1e-9)
        np.testing.assert_allclose(rest + taken_off, whole, rtol=1e-11)
        np.testing.assert_allclose(same_slope, slope, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("prior", [PRIORS["normal"], PRIORS["centered"]], ids=["normal", "centered"])
def test_neither_rows_nor_weights_take_digits_off_a_potential_relative_to_a_point_nearby(prior):
    target, random = network_target(prior, 500), np.random.default_rng(2)
    start = 0.3 * random.normal(size=target.dim)
    positions = (start + NEAR * random.normal(size=(30, target.dim))).astype(np.float32)
    with jax.enable_x64(True):
        exact = network_target(prior, 500, is_double=True)
        truth = np.asarray(potentials(exact, jnp.asarray(positions, jnp.float64))[0])
    plain, around = rounding(target, positions, truth)
    assert around < 0.25 * plain
    assert around < 3e-5


def test_rows_that_differ_add_up_without_rounding_their_sum():
    target = terms_target()
    positions = (1e-2 * np.random.default_rng(2).normal(size=(30, 2))).astype(np.float32)
    rows, points = np.asarray(target.data, np.float64), positions.astype(np.float64)
    truth = [1000 + 0.5 * np.sum(one**2) + 0.5 * np.sum((rows - one) ** 2) for one in points]
    plain, around = rounding(target, positions, np.asarray(truth))
    assert around < 0.1 * plain


def test_a_row_keeps_its_digits_whatever_all_its_outputs_have_in_common():
    outputs = np.asarray([[1024.5], [1024.25], [1020.0]], np.float32)
    truth = 1024.25 - np.logaddexp.reduce(outputs.astype(np.float64)[:, 0])
    targets = likelihoods.Categorical().prepare(np.array([1]), 3)
    np.testing.assert_allclose(likelihoods.Categorical().log_prob({}, jnp.asarray(outputs), targets), truth, rtol=1e-6)
    sure = jnp.asarray([[12.0, -12.0]])
    known = likelihoods.Bernoulli().log_prob({}, sure, likelihoods.Bernoulli().prepare(np.array([1, 0]), 1))
    np.testing.assert_allclose(known, -np.log1p(np.exp(-12.0)), rtol=1e-6)


def test_a_log_density_has_no_parts_to_take_off():
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2), jnp.zeros(3))
    reference = target.reference_point(jnp.ones(3))
    assert reference.potential == 0
    assert target.relative_to(reference) is target


def test_a_chain_starts_around_its_start():
    target = terms_target()
    kernel = HMC(num_steps=2)
    idle = Adaptations.of(Warmup(()), kernel.warmup()).sampling
    start = chains.evaluate(kernel.evaluate, target, jnp.ones(2))
    record = chains.start_chain(kernel, target, idle, jnp.zeros(4, jnp.uint32), start)
    np.testing.assert_allclose(record.reference.potential, target.potential(jnp.ones(2)), rtol=1e-6)
    assert abs(float(record.state.potential)) < 0.1


def test_the_end_of_a_stage_moves_the_reference_point():
    """Float32 resolves the potential at the start, 9e7, to 8."""
    start = jnp.full(2, 30.0)
    settings = {"num_chains": 1, "num_warmup": 60, "num_draws": 20, "seed": 0, "init": start, "progress": False}
    samples = ergonet.sample(terms_target(), HMC(num_steps=4), **settings)
    errors = np.abs(samples.stats["energy_error"])
    assert np.sum((errors > 0) & (errors < 1)) > 5


@pytest.mark.parametrize(("thin", "num_warmup"), [(2, 60), slow((1, 0))])
def test_draws_have_whole_potentials(thin, num_warmup):
    target = terms_target()
    samples = ergonet.sample(
        target,
        NUTS(step_size=0.003) if num_warmup == 0 else NUTS(),
        num_chains=2,
        num_warmup=num_warmup,
        num_draws=20,
        thin=thin,
        seed=0,
        init=jnp.zeros(2),
        progress=False,
    )
    last = np.asarray(samples.positions)[:, -1]
    expected = [-float(target.potential(jnp.asarray(position))) for position in last]
    np.testing.assert_allclose(samples.stats["lp"][:, -1], expected, rtol=1e-6)
    kinetic = samples.stats["energy"] + samples.stats["lp"]
    assert np.all(kinetic > -0.1)
    assert np.all(kinetic < 30)


@pytest.mark.slow
def test_weights_given_hyperparameters_keep_the_reference_point():
    @eqx.filter_jit
    def evaluate(target, position):
        weights, held = position[: target.num_weights], position[target.num_weights :]
        given = WeightsGiven(target=target, hyperparameters=held, dim=weights.size)
        moved = eqx.tree_at(lambda one: one.target, given, target.relative_to(target.reference_point(position)))
        return given.potential(weights) - target.potential(position), moved.potential(weights)

    target = small_target(PRIORS["centered"])
    np.testing.assert_allclose(evaluate(target, jnp.linspace(-1.0, 1.0, target.dim)), 0, atol=1e-3)


@pytest.mark.slow
def test_vmapped_chains_have_reference_points_of_their_own():
    target, kernel = terms_target(), HMC(num_steps=4, step_size=0.003, metric="identity")
    numbers = [jnp.asarray([0, 0, chain, 0], jnp.uint32) for chain in range(2)]
    idle = Adaptations.of(Warmup(()), kernel.warmup()).sampling
    starts = [chains.evaluate(kernel.evaluate, target, chains.drawn_start(target, one)) for one in numbers]
    records = [chains.start_chain(kernel, target, idle, *each) for each in zip(numbers, starts, strict=True)]
    together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *records)
    here = batches.evaluate(kernel.evaluate, target, together.state.position)
    together = batches.finish_stage(kernel, target, here.around(together), idle)
    assert together.reference.potential[0] != together.reference.potential[1]
    _, draws = batches.advance_chain(kernel, target, together, idle, chains.Stretch.of(6, work=1, thin=2), capacity=3)
    for chain in range(2):
        expected = float(target.potential(draws.positions[chain, -1]))
        np.testing.assert_allclose(-draws.stats["lp"][chain, -1], expected, rtol=1e-6)
        assert float(draws.stats["energy"][chain, -1]) > expected - 0.2
