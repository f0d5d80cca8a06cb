"""Microcanonical kicks and steps: the flow they solve, reversible, of their order, with the volume that they say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import Target
from ergonet.hamiltonian.metric import DenseMetric, DiagonalMetric, GradientDiagonalMetric, IdentityMetric
from ergonet.hamiltonian.microcanonical import (
    MicrocanonicalIntegrator,
    MicrocanonicalPhase,
    kicked,
    partially_refreshed,
    uniform_direction,
)
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.hamiltonian.registry import METRICS as METRIC_NAMES
from tests.stages import cases

FACTOR = np.array([[0.9, 0.0, 0.0], [0.4, 1.2, 0.0], [-0.3, 0.2, 0.7]])
POSITION, DIRECTION = np.array([0.4, -0.7, 0.9]), np.array([-0.48, 0.6, 0.64])
METRICS = {
    "identity": IdentityMetric(),
    "diagonal": DiagonalMetric(scale=jnp.array([0.6, 1.5, 0.9])),
    "diagonal-gradient": GradientDiagonalMetric(scale=jnp.array([0.6, 1.5, 0.9])),
    "dense": None,
}


def metric_of(name):
    return METRICS[name] or DenseMetric(factor=jnp.asarray(FACTOR))


def target():
    def logdensity(q):
        return -0.25 * jnp.sum(q**4) - 0.5 * jnp.sum(q) ** 2 + jnp.cos(q[0] * q[1]) + 0.3 * jnp.sin(q[2] + q[0])

    return Target.from_logdensity(logdensity, jnp.zeros(3))


def phase_at(position, direction):
    potential, gradient = jax.value_and_grad(target().potential)(position)
    return MicrocanonicalPhase(position, direction, potential, gradient, jnp.zeros(()))


def run(name, metric, step_size, num_steps, phase):
    steps = MicrocanonicalIntegrator(INTEGRATORS.make(name))
    moved = jax.jit(
        lambda size, z: jax.lax.fori_loop(0, num_steps, lambda _, z: steps.step(target(), metric, size, z), z)
    )
    return moved(jnp.asarray(step_size), phase)


@pytest.mark.parametrize("size", [0.01, 1.3, 4.0])
def test_a_kick_solves_the_equation_of_motion(size):
    force, direction = jnp.array([0.8, -1.9, 0.4]), jnp.asarray(DIRECTION)
    pull = -force / 2  # over D - 1

    def speed(u):
        return pull - u * jnp.dot(u, pull)

    def rk4(_, carry):
        u, work = carry
        h = size / 4000
        a = speed(u)
        b = speed(u + h / 2 * a)
        c = speed(u + h / 2 * b)
        d = speed(u + h * c)
        after = u + h / 6 * (a + 2 * b + 2 * c + d)
        middle = (u + after) / 2
        return after, work + 2 * h * jnp.dot(middle, pull)  # the kinetic energy grows by (D - 1) u'pull a unit of time

    solved, work = jax.lax.fori_loop(0, 4000, rk4, (direction, 0.0))
    found, growth = kicked(direction, force, jnp.asarray(size))
    np.testing.assert_allclose(found, solved, atol=1e-7)
    np.testing.assert_allclose(growth, work, atol=1e-6)


@pytest.mark.parametrize("size", [0.3, -0.3, 6.0, -6.0])
def test_kicks_in_two_parts_are_one_kick_and_a_kick_back_undoes_it(size):
    force, direction = jnp.array([0.8, -1.9, 0.4]), jnp.asarray(DIRECTION)
    whole, growth = kicked(direction, force, jnp.asarray(size))
    half, first = kicked(direction, force, jnp.asarray(size / 3))
    rest, second = kicked(half, force, jnp.asarray(2 * size / 3))
    np.testing.assert_allclose(rest, whole, atol=1e-12)
    np.testing.assert_allclose(first + second, growth, rtol=1e-12)
    back, loss = kicked(whole, force, jnp.asarray(-size))
    np.testing.assert_allclose(back, direction, atol=1e-9)
    np.testing.assert_allclose(loss, -growth, rtol=1e-9)


@pytest.mark.parametrize("size", [1e-6, 0.02, 3.0, 1e3, 1e6])
def test_kicks_in_single_precision_neither_overflow_nor_lose_the_growth(size):
    rng = np.random.default_rng(3)
    force = rng.normal(size=50)
    for heading in (rng.normal(size=50), force, -force):
        direction = heading / np.linalg.norm(heading)
        exact = kicked(jnp.asarray(direction), jnp.asarray(force), jnp.asarray(size))
        single = [jnp.asarray(one, jnp.float32) for one in (direction, force, size)]
        found, growth = kicked(*single)
        assert found.dtype == jnp.float32
        assert np.isfinite(found).all()
        assert np.isfinite(growth)
        np.testing.assert_allclose(np.linalg.norm(found), 1, rtol=1e-6)
        if abs(np.dot(direction, force)) < 0.9 * np.linalg.norm(force):  # straight uphill the kick is unstable
            np.testing.assert_allclose(found, exact[0], atol=2e-6)
            np.testing.assert_allclose(growth, exact[1], rtol=1e-5, atol=1e-9)


def test_without_a_force_a_kick_changes_nothing():
    direction, growth = kicked(jnp.asarray(DIRECTION), jnp.zeros(3), jnp.asarray(2.0))
    np.testing.assert_array_equal(direction, DIRECTION)
    assert growth == 0


@pytest.mark.parametrize("metric", cases(METRIC_NAMES.names(), quick=["dense"]))
@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_a_trajectory_with_its_direction_negated_returns_to_its_start(name, metric):
    start = phase_at(jnp.asarray(POSITION), jnp.asarray(DIRECTION))
    end = run(name, metric_of(metric), 0.2, 12, start)
    assert np.linalg.norm(end.position - POSITION) > 0.3
    back = run(name, metric_of(metric), 0.2, 12, phase_at(end.position, -end.direction))
    np.testing.assert_allclose(back.position, POSITION, atol=1e-11)
    np.testing.assert_allclose(back.direction, -DIRECTION, atol=1e-11)
    np.testing.assert_allclose(back.kinetic_energy, -end.kinetic_energy, atol=1e-10)


def tangent(u):
    """An orthonormal basis of what is orthogonal to u, `[dim, dim - 1]`."""
    return np.linalg.svd(np.asarray(u)[None, :])[2][1:].T


@pytest.mark.parametrize("metric", cases(["identity", "dense"], quick=["dense"]))
@pytest.mark.parametrize("name", cases(["leapfrog", "minimal-norm"], quick=["minimal-norm"]))
def test_the_volume_shrinks_by_what_the_kinetic_energy_grew(name, metric):
    """The log determinant on positions and the sphere's tangents is minus the growth: the Metropolis ratio needs it."""
    steps, chosen = MicrocanonicalIntegrator(INTEGRATORS.make(name)), metric_of(metric)
    before = tangent(DIRECTION)

    def moved(coordinates):
        direction = jnp.asarray(DIRECTION) + jnp.asarray(before) @ coordinates[3:]
        phase = phase_at(jnp.asarray(POSITION) + coordinates[:3], direction / jnp.linalg.norm(direction))
        for _ in range(3):
            phase = steps.step(target(), chosen, jnp.asarray(0.5), phase)
        return jnp.concatenate([phase.position, phase.direction]), phase.kinetic_energy

    (jacobian, _), (end, growth) = jax.jacfwd(moved)(jnp.zeros(5)), moved(jnp.zeros(5))
    after = tangent(end[3:])
    square = np.concatenate([jacobian[:3], after.T @ jacobian[3:]])
    _, logdet = np.linalg.slogdet(square)
    assert abs(growth) > 0.05
    np.testing.assert_allclose(logdet, -growth, rtol=1e-6)


@pytest.mark.parametrize(("name", "order"), [("leapfrog", 2), ("two-stage", 2), ("minimal-norm", 2), ("yoshida", 4)])
def test_the_energy_error_falls_with_the_order_of_the_integrator(name, order):
    start = phase_at(jnp.asarray(POSITION), jnp.asarray(DIRECTION))
    sizes = np.array([0.1, 0.05, 0.025])
    errors = [abs(run(name, IdentityMetric(), size, round(2 / size), start).energy - start.energy) for size in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope - order) < 0.35, (errors, slope)


def test_partial_refreshment_has_the_stated_correlation_and_keeps_the_sphere_uniform():
    """In D dimensions the mean cosine after a time t is near e^(-t / L)."""
    keys = jax.random.split(jax.random.key(1), 20000)
    direction = jnp.zeros(200).at[0].set(1.0)
    moved = jax.vmap(lambda key: partially_refreshed(key, direction, jnp.asarray(0.5), jnp.asarray(2.0)))(keys)
    np.testing.assert_allclose(jnp.linalg.norm(moved, axis=1), 1, rtol=1e-12)
    np.testing.assert_allclose(moved[:, 0].mean(), np.exp(-0.25), atol=3e-3)
    never = partially_refreshed(keys[0], direction, jnp.asarray(0.5), jnp.asarray(jnp.inf))
    np.testing.assert_array_equal(never, direction)
    drawn = jax.vmap(lambda key: uniform_direction(key, jnp.zeros(3)))(keys)
    np.testing.assert_allclose(drawn.mean(axis=0), 0, atol=4 / np.sqrt(3 * 20000))
    np.testing.assert_allclose((drawn**2).mean(axis=0), 1 / 3, atol=4 * np.sqrt(4 / 45 / 20000))
