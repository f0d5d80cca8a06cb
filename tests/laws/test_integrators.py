"""Every integrator under every metric: reversible, volume preserving, of its order, and the textbook's leapfrog."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import HMC, NUTS, Target, WindowedHMC
from ergonet._errors import SettingError
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import (
    DenseMetric,
    DiagonalMetric,
    GradientDiagonalMetric,
    IdentityMetric,
    first_metric,
)
from ergonet.hamiltonian.phase import Phase, phase_at, with_force
from ergonet.hamiltonian.registry import INTEGRATORS, METRICS
from tests.stages import cases, slow

FACTOR = np.array([[0.9, 0.0, 0.0], [0.4, 1.2, 0.0], [-0.3, 0.2, 0.7]])
POSITION, MOMENTUM = np.array([0.4, -0.7, 0.9]), np.array([-0.5, 0.3, 1.1])
ORDERS = {"leapfrog": 2, "two-stage": 2, "minimal-norm": 2, "yoshida": 4}


def logdensity(q):
    """Not quadratic, and every coordinate is coupled to every other."""
    return -0.25 * jnp.sum(q**4) - 0.5 * jnp.sum(q) ** 2 + jnp.cos(q[0] * q[1]) + 0.3 * jnp.sin(q[2] + q[0])


def build_target():
    return Target.from_logdensity(logdensity, jnp.zeros(3))


def build_metric(name):
    metrics = {
        "identity": IdentityMetric,
        "diagonal": lambda: DiagonalMetric(scale=jnp.array([0.6, 1.5, 0.9])),
        "diagonal-gradient": lambda: GradientDiagonalMetric(scale=jnp.array([0.6, 1.5, 0.9])),
        "dense": lambda: DenseMetric(factor=jnp.asarray(FACTOR)),
    }
    return metrics[name]()


def start():
    return phase_at(build_target(), jnp.asarray(POSITION), jnp.asarray(MOMENTUM))


def run(name, metric_name, step_size, num_steps, phase):
    steps, metric, target = INTEGRATORS.make(name), build_metric(metric_name), build_target()
    return jax.lax.fori_loop(0, num_steps, lambda _, z: steps.step(target, metric, jnp.asarray(step_size), z), phase)


@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_a_carried_force_equals_a_recomputed_one(name):
    metric = build_metric("dense")
    kept = run(name, "dense", 0.1, 20, with_force(start(), metric))
    anew = run(name, "dense", 0.1, 20, start())
    np.testing.assert_allclose(kept.position, anew.position, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kept.momentum, anew.momentum, rtol=0, atol=1e-13)
    np.testing.assert_allclose(kept.force, metric.to_momentum(anew.gradient), rtol=0, atol=1e-13)
    assert anew.force is None


@pytest.mark.parametrize("kernel", [HMC(metric="dense"), slow(WindowedHMC(metric="dense")), NUTS(metric="dense")])
def test_a_leapfrog_step_takes_two_products_with_a_dense_metric(kernel, monkeypatch):
    target = build_target()
    tuning = kernel.tuning(target, jnp.asarray(POSITION))
    state = kernel.init(target, jnp.asarray(POSITION))
    trajectory = kernel.begin(jax.random.key(0), target, state, tuning)
    products = []
    for name in ("to_position", "to_momentum"):
        product = getattr(DenseMetric, name)
        counted = partial(_counted, products, product)
        monkeypatch.setattr(DenseMetric, name, lambda metric, vector, counted=counted: counted(metric, vector))
    jax.eval_shape(lambda trajectory: kernel.advance(target, trajectory, tuning), trajectory)
    assert len(products) == 2


def _counted(products, product, metric, vector):
    products.append(product)
    return product(metric, vector)


def flipped(phase):
    return Phase(position=phase.position, momentum=-phase.momentum, potential=phase.potential, gradient=phase.gradient)


@pytest.mark.parametrize("metric", cases(METRICS.names(), quick=["dense"]))
@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_there_and_back_ends_at_the_start(name, metric):
    end = run(name, metric, 0.13, 25, start())
    assert np.max(np.abs(end.position - POSITION)) > 0.1
    back = flipped(run(name, metric, 0.13, 25, flipped(end)))
    np.testing.assert_allclose(back.position, POSITION, rtol=0, atol=1e-10)
    np.testing.assert_allclose(back.momentum, MOMENTUM, rtol=0, atol=1e-10)
    np.testing.assert_allclose(back.gradient, start().gradient, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_a_negative_step_undoes_a_step(name):
    end = run(name, "dense", -0.2, 7, run(name, "dense", 0.2, 7, start()))
    np.testing.assert_allclose(end.position, POSITION, rtol=0, atol=1e-12)
    np.testing.assert_allclose(end.momentum, MOMENTUM, rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", cases(METRICS.names(), quick=["dense"]))
@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_volume_is_preserved(name, metric):
    def flow(z):
        end = run(name, metric, 0.17, 6, phase_at(build_target(), z[:3], z[3:]))
        return jnp.concatenate([end.position, end.momentum])

    jacobian = jax.jacfwd(flow)(jnp.concatenate([POSITION, MOMENTUM]))
    assert np.max(np.abs(jacobian - np.eye(6))) > 0.1
    assert abs(abs(np.linalg.det(jacobian)) - 1) < 1e-8


@pytest.mark.parametrize("metric", cases(METRICS.names(), quick=["dense"]))
@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_the_energy_error_is_of_the_order_of_the_integrator(name, metric):
    time, counts = 1.6, np.array([32, 64, 128, 256]) * (1 if ORDERS[name] == 2 else 2)
    begin = total_energy(start())
    errors = [
        abs(float(total_energy(run(name, metric, time / count, int(count), start())) - begin)) for count in counts
    ]
    slope = np.polyfit(np.log(time / counts), np.log(errors), 1)[0]
    assert abs(slope - ORDERS[name]) < 0.1, (slope, errors)


@pytest.mark.parametrize("metric_name", METRICS.names())
def test_a_standardized_leapfrog_is_the_textbook_leapfrog(metric_name):
    metric, step_size = build_metric(metric_name), 0.21
    inverse_mass = np.asarray(metric.inverse_mass_matrix(jnp.asarray(POSITION)))
    inverse_mass = np.diag(inverse_mass) if inverse_mass.ndim == 1 else inverse_mass
    gradient = jax.grad(build_target().potential)
    q, p = POSITION.copy(), np.asarray(metric.textbook_momentum(jnp.asarray(MOMENTUM)))
    np.testing.assert_allclose(0.5 * p @ inverse_mass @ p, 0.5 * MOMENTUM @ MOMENTUM, rtol=1e-12)
    for _ in range(9):
        p = p - 0.5 * step_size * np.asarray(gradient(q))
        q = q + step_size * inverse_mass @ p
        p = p - 0.5 * step_size * np.asarray(gradient(q))
    end = run("leapfrog", metric_name, step_size, 9, start())
    np.testing.assert_allclose(end.position, q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(metric.textbook_momentum(end.momentum), p, rtol=0, atol=1e-12)
    np.testing.assert_allclose(end.potential, build_target().potential(jnp.asarray(q)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", METRICS.names())
def test_a_metric_is_the_factor_of_its_covariance(name):
    covariance = FACTOR @ FACTOR.T
    diagonal = np.diag(covariance)
    known = {"identity": np.ones(3), "dense": covariance}.get(name, diagonal)
    metric = first_metric(name, jnp.asarray(POSITION)).with_covariance(jnp.asarray(known))
    inverse_mass = metric.inverse_mass_matrix(jnp.asarray(POSITION))
    np.testing.assert_allclose(inverse_mass, known, rtol=0, atol=1e-12)
    as_matrix = jax.jacobian(metric.to_position)(jnp.zeros(3))
    transposed = jax.jacobian(metric.to_momentum)(jnp.zeros(3))
    back = jax.jacobian(metric.textbook_momentum)(jnp.zeros(3))
    np.testing.assert_allclose(as_matrix @ as_matrix.T, np.diag(known) if known.ndim == 1 else known, atol=1e-12)
    np.testing.assert_allclose(transposed, as_matrix.T, atol=1e-12)
    np.testing.assert_allclose(back @ as_matrix.T, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("dim", [1, 257, slow(256), slow(600)])
def test_a_dense_metric_in_panels_equals_its_triangular_factor(dim):
    rng = np.random.default_rng(dim)
    factor = np.tril(0.3 * rng.normal(size=(dim, dim)) / np.sqrt(dim), -1) + np.diag(rng.uniform(0.5, 2.0, dim))
    metric = DenseMetric(factor=jnp.asarray(factor))
    vector = jnp.asarray(rng.normal(size=dim))
    assert (len(metric.panels) == 1) == (dim <= 256)
    np.testing.assert_array_equal(metric.factor, factor)
    np.testing.assert_allclose(metric.to_position(vector), factor @ vector, rtol=0, atol=1e-12)
    np.testing.assert_allclose(metric.to_momentum(vector), factor.T @ vector, rtol=0, atol=1e-12)
    np.testing.assert_allclose(metric.textbook_momentum(vector), np.linalg.solve(factor.T, vector), rtol=0, atol=1e-10)
    np.testing.assert_allclose(metric.inverse_mass_matrix(vector), factor @ factor.T, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_a_step_costs_the_gradients_that_it_claims(name):
    calls = []

    def counted(q):
        calls.append(1)
        return logdensity(q)

    target = Target.from_logdensity(counted, jnp.zeros(3))
    phase = start()
    calls.clear()
    INTEGRATORS.make(name).step(target, build_metric("identity"), jnp.asarray(0.1), phase)
    assert (
        len(calls)
        == INTEGRATORS.make(name).gradients_per_step
        == {"leapfrog": 1, "two-stage": 2, "minimal-norm": 2, "yoshida": 3}[name]
    )


@pytest.mark.parametrize(
    ("coefficients", "complaint"),
    [
        ((0.3, 1.0, 0.7), "palindromic"),
        ((0.25, 0.4, 0.5, 0.6, 0.25), "palindromic"),
        ((0.5, 0.5), "odd length"),
        ((1.0,), "odd length"),
        ((0.5, 0.9, 0.5), "sum to 1"),
        ((0.45, 1.0, 0.45), "sum to 1"),
    ],
)
def test_coefficients_of_no_symmetric_integrator_are_rejected(coefficients, complaint):
    with pytest.raises(SettingError, match=complaint):
        Composition(coefficients=coefficients)


def test_unknown_integrators_are_rejected_with_the_nearest_name():
    with pytest.raises(SettingError, match="leapfrog"):
        INTEGRATORS.make("leap-frog")
