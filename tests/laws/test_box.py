"""Reflected drifts: against bounces counted one by one, reversible, volume preserving, and in detailed balance."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import HMC, MAMS, NUTS, ConstrainedHMC, Target
from ergonet.hamiltonian.box import Box
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import DenseMetric, DiagonalMetric, IdentityMetric
from ergonet.hamiltonian.microcanonical import MicrocanonicalIntegrator, MicrocanonicalPhase
from ergonet.hamiltonian.phase import phase_at
from ergonet.hamiltonian.registry import METRICS
from ergonet.trajectory.doubling import Doubling
from tests.laws.enumeration import enumerate_paths, imbalance, orbit, transition_matrix
from tests.laws.test_integrators import FACTOR, MOMENTUM, POSITION, build_metric, build_target, flipped
from tests.stages import cases, slow

BOX = Box([0.1, -0.8, -np.inf], [0.5, np.inf, 1.0])
LEAPFROG = (0.5, 1.0, 0.5)
NAMES = METRICS.names()


def bounced(lower, upper, place, shift):
    """One coordinate, from wall to wall; and the number of bounces."""
    sign, left, bounces = np.sign(shift), abs(shift), 0
    while True:
        wait = upper - place if sign > 0 else place - lower
        if left <= wait:
            return place + sign * left, bounces
        place, left, sign, bounces = (upper if sign > 0 else lower), left - wait, -sign, bounces + 1


@pytest.mark.parametrize("metric", [IdentityMetric(), DenseMetric(jnp.eye(4))], ids=["folded", "followed"])
def test_a_drift_bounces_as_often_as_it_meets_walls(metric):
    lower, upper = np.array([0.0, -1.0, -np.inf, -np.inf]), np.array([1.0, np.inf, 2.0, np.inf])
    drift, bounces = eqx.filter_jit(Box(lower, upper).drift), []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        start = np.array([rng.uniform(), rng.uniform(-1, 3), rng.uniform(-3, 2), rng.normal()])
        momentum, time = rng.normal(size=4), rng.choice([-7.0, 7.0])
        found = [bounced(*one) for one in zip(lower, upper, start, time * momentum, strict=True)]
        end, after = drift(metric, jnp.asarray(time), jnp.asarray(start), jnp.asarray(momentum))
        np.testing.assert_allclose(end, [place for place, _ in found], rtol=0, atol=1e-12)
        np.testing.assert_allclose(after, [one * (-1) ** many for one, (_, many) in zip(momentum, found, strict=True)])
        bounces.append([many for _, many in found])
    most = np.max(bounces, axis=0)
    assert most[0] > 10
    np.testing.assert_array_equal(most[1:], [1, 1, 0])


def test_thousands_of_bounces_in_single_precision_stay_inside_and_return():
    low, high = np.float32(1000.0), np.float32(1000.0 + 2**-10)
    box, metric, time = Box(low, high), DiagonalMetric(jnp.full(4, 0.5, jnp.float32)), jnp.asarray(8.0, jnp.float32)
    places = jnp.asarray(np.linspace(low, np.nextafter(high, low), 4), jnp.float32)
    momentum = jnp.asarray([1.0, -1.3, 2.0, 0.7], jnp.float32)
    end, after = box.drift(metric, time, places, momentum)
    assert np.all((low <= end) & (end < high))
    np.testing.assert_array_equal(np.abs(after), np.abs(momentum))
    back, _ = box.drift(metric, -time, end, after)
    np.testing.assert_allclose(back, places, rtol=0, atol=6.2e-5)  # the spacing of floats there
    still, same = box.drift(metric, jnp.zeros_like(time), places, momentum)
    np.testing.assert_array_equal(still, places)
    np.testing.assert_array_equal(same, momentum)
    lost, _ = box.drift(metric, time, places, jnp.asarray([np.inf, -np.inf, np.nan, 1.0], jnp.float32))
    assert np.isnan(lost[:3]).all()


def test_a_path_with_too_many_bounces_is_not_a_number():
    end, _ = Box(0.0, 1e-3).drift(DenseMetric(jnp.eye(2)), jnp.asarray(2.0), jnp.full(2, 5e-4), jnp.ones(2))
    assert np.isnan(end).all()


def many(metric, phase, *, steps=12, size=0.3):
    step = Composition(LEAPFROG, BOX).step
    target = build_target()
    return jax.lax.fori_loop(0, steps, lambda _, z: step(target, metric, jnp.asarray(size), z), phase)


@pytest.mark.parametrize("name", cases(NAMES, quick=["diagonal", "dense"]))
def test_there_and_back_with_bounces_ends_at_the_start(name):
    metric, run = build_metric(name), jax.jit(many)
    begin = phase_at(build_target(), jnp.asarray(POSITION), jnp.asarray(MOMENTUM))
    free = Composition(LEAPFROG).step(build_target(), metric, jnp.asarray(0.3), begin)
    end = run(metric, begin)
    assert bool(BOX.contains(end.position))
    assert not bool(BOX.contains(free.position))
    back = flipped(run(metric, flipped(end)))
    np.testing.assert_allclose(back.position, POSITION, rtol=0, atol=1e-9)
    np.testing.assert_allclose(back.momentum, MOMENTUM, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", cases(["diagonal", "dense"], quick=["dense"]))
def test_volume_is_preserved_with_bounces(name):
    metric = build_metric(name)

    def flow(z):
        end = many(metric, phase_at(build_target(), z[:3], z[3:]), steps=4, size=0.35)
        return jnp.concatenate([end.position, end.momentum])

    z, side, run = np.concatenate([POSITION, MOMENTUM]), 1e-6, jax.jit(flow)
    rows = [(np.asarray(run(z + side * unit)) - np.asarray(run(z - side * unit))) / (2 * side) for unit in np.eye(6)]
    assert abs(abs(np.linalg.det(np.stack(rows))) - 1) < 1e-6


def test_a_reflection_in_the_metric_preserves_kinetic_energy_and_the_velocity_along_the_wall():
    metric = DenseMetric(jnp.asarray(FACTOR))
    r = jnp.asarray([-1.0, 0.4, 0.3])
    box = Box([-np.inf] * 3, [np.inf, np.inf, POSITION[2] + 1e-9])
    _, after = box.drift(metric, jnp.asarray(1e-6), jnp.asarray(POSITION), r)
    np.testing.assert_allclose(after @ after, r @ r, rtol=1e-12)
    before, change = metric.textbook_momentum(r), metric.textbook_momentum(after) - metric.textbook_momentum(r)
    np.testing.assert_allclose(change[:2], 0, atol=1e-12)  # a wall pushes along its normal only
    np.testing.assert_allclose(metric.to_position(after)[2], -metric.to_position(r)[2], rtol=1e-12)
    assert abs(float(change[2] + 2 * before[2])) > 0.1  # it is not the mirror of one coordinate


@pytest.mark.parametrize("name", cases(["diagonal", "dense"], quick=["dense"]))
def test_microcanonical_steps_return_and_keep_a_unit_direction(name):
    metric, target, integrator = (
        build_metric(name),
        build_target(),
        MicrocanonicalIntegrator(Composition(LEAPFROG, BOX)),
    )
    unit = jnp.asarray(MOMENTUM / np.linalg.norm(MOMENTUM))
    begin = phase_at(target, jnp.asarray(POSITION), unit)
    start = MicrocanonicalPhase(begin.position, unit, begin.potential, begin.gradient, jnp.zeros(()))

    @jax.jit
    def run(z):
        return jax.lax.fori_loop(0, 12, lambda _, z: integrator.step(target, metric, jnp.asarray(0.3), z), z)

    end = run(start)
    assert bool(BOX.contains(end.position))
    np.testing.assert_allclose(jnp.linalg.norm(end.direction), 1, rtol=1e-12)
    back = run(MicrocanonicalPhase(end.position, -end.direction, end.potential, end.gradient, end.kinetic_energy))
    np.testing.assert_allclose(back.position, POSITION, rtol=0, atol=1e-9)
    np.testing.assert_allclose(back.direction, -unit, rtol=0, atol=1e-9)
    np.testing.assert_allclose(back.kinetic_energy, 0, atol=1e-9)


DEPTH = 3


@pytest.mark.parametrize("name", cases(["diagonal", "dense"], quick=["dense"]))
def test_a_doubling_tree_with_bounces_is_in_detailed_balance(name):
    """Along an orbit in a corner, with every sequence of directions."""
    box = Box([-0.4, -np.inf], [np.inf, 0.9])
    metric = {"diagonal": DiagonalMetric(jnp.array([0.7, 1.3])), "dense": DenseMetric(jnp.asarray(FACTOR[:2, :2]))}[
        name
    ]
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum(q**2) - 0.4 * q[0] * q[1], jnp.zeros(2))
    steps = Composition(LEAPFROG, box)
    trajectory = NUTS(max_doublings=DEPTH).trajectory
    doubling = Doubling(trajectory.criterion, trajectory.selection, steps, DEPTH)
    start = phase_at(target, jnp.asarray([0.2, 0.5]), jnp.asarray([1.1, 0.6]))
    states = orbit(target, steps, start, 24, step_size=0.6, metric=metric)
    assert np.all(box.contains(states.position))
    paths = enumerate_paths(doubling, target, states, step_size=0.6, metric=metric)
    energies = np.asarray(jax.vmap(total_energy)(states))
    assert np.ptp(energies) > 0.05
    assert imbalance(transition_matrix(paths, 2**DEPTH - 1), energies) < 1e-9
    assert paths.stop["turned"].any()


LATTICE = 12


@pytest.mark.parametrize("num_steps", cases([1, 4], quick=[4]))
def test_a_fixed_trajectory_on_a_lattice_is_in_detailed_balance(num_steps):
    """Whole momenta move by whole places and bounce up to six times a step; kicks are zero."""
    box = Box(-0.5, LATTICE - 0.5)
    table = jnp.asarray(np.random.default_rng(2).normal(size=LATTICE))
    flat = Target.from_logdensity(lambda q: -table[jnp.round(q[0]).astype(jnp.int32)], jnp.zeros(1))
    steps, moves = Composition(LEAPFROG, box), [-67.0, -13.0, -5.0, 5.0, 13.0, 67.0]
    states = [(place, move) for place in range(LATTICE) for move in moves]
    index = {state: number for number, state in enumerate(states)}

    @jax.jit
    @jax.vmap
    def ends(place, move):
        begin = phase_at(flat, place, move)
        end = jax.lax.fori_loop(0, num_steps, lambda _, z: steps.step(flat, IdentityMetric(), jnp.ones(()), z), begin)
        return end.position, end.momentum, jnp.minimum(1, jnp.exp(begin.potential - end.potential))

    places, momenta, chances = ends(*(jnp.asarray(one, float)[:, None] for one in zip(*states, strict=True)))
    matrix = np.zeros((len(states), len(states)))
    for number, (place, move) in enumerate(zip(places[:, 0], momenta[:, 0], strict=True)):
        assert abs(float(place) - round(float(place))) < 1e-12
        matrix[number, index[round(float(place)), -float(move)]] += float(chances[number])
        matrix[number, number] += 1 - float(chances[number])
    flow = np.repeat(np.exp(-np.asarray(table)), len(moves))[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12)
    assert np.count_nonzero(flow - np.diag(np.diag(flow))) > 50


@pytest.mark.parametrize("update", [HMC(num_steps=3), slow(NUTS(max_doublings=3)), slow(MAMS(num_steps=3))])
def test_boxes_of_any_shape_share_one_program(update):
    traces = []

    def counted(q):
        traces.append(1)
        return -0.5 * jnp.sum(q**2)

    target = Target.from_logdensity(counted, jnp.zeros(2))

    @eqx.filter_jit
    def transition(kernel, key, position):
        position = kernel.start_near(position)
        state, tuning = kernel.init(target, position), kernel.tuning(target, position)
        return kernel.conclude(kernel.complete(target, kernel.begin(key, target, state, tuning), tuning))[0].position

    counts = []
    for lower, upper in (([-1.0, 0.0], [1.0, 3.0]), ([2.0, -np.inf], [np.inf, -5.0]), ([0.0, 0.0], [1e-6, np.inf])):
        kernel = ConstrainedHMC(lower, upper, update=update)
        ends = np.stack([transition(kernel, key, jnp.zeros(2)) for key in jax.random.split(jax.random.key(1), 3)])
        assert np.all(kernel.box.contains(ends))
        counts.append(len(traces))
    assert len(set(counts)) == 1
