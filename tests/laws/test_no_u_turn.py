"""The generalised criterion with a real leapfrog: exact balance along an orbit, and the recursion path by path."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import Target
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.integrator import integrator
from ergonet.hamiltonian.metric import DenseMetric, DiagonalMetric, IdentityMetric
from ergonet.hamiltonian.phase import phase_at
from ergonet.trajectory.criterion import Generalised
from ergonet.trajectory.doubling import Doubling
from ergonet.trajectory.selection import Multinomial
from tests.laws.enumeration import enumerate_paths, imbalance, orbit, transition_matrix
from tests.laws.reference_nuts import Reference

PRECISION = np.array([[1.5, -0.9], [-0.9, 2.0]])
FACTOR = np.array([[1.1, 0.0], [0.5, 0.7]])


def quartic(q):
    return -0.25 * jnp.sum(q**4) + 0.3 * jnp.sum(q)


def gaussian(q):
    return -0.5 * q @ jnp.asarray(PRECISION) @ q


def banana_with_a_wall(q):
    """Diverges beyond q0 = 1.2."""
    density = -0.5 * q[0] ** 2 - 2.0 * (q[1] - q[0] ** 2) ** 2
    return jnp.where(q[0] > 1.2, -jnp.inf, density)


METRICS = {
    "identity": IdentityMetric,
    "diagonal": lambda: DiagonalMetric(scale=jnp.array([0.7, 1.3])),
    "dense": lambda: DenseMetric(factor=jnp.asarray(FACTOR)),
}
CASES = {
    "quartic": (quartic, "identity", 0.23, [0.4], [1.1]),
    "gaussian": (gaussian, "dense", 0.31, [0.5, -1.0], [0.8, 0.3]),
    "gaussian, long steps": (gaussian, "diagonal", 0.9, [0.5, -1.0], [0.8, 0.3]),
    "banana": (banana_with_a_wall, "diagonal", 0.12, [0.3, -0.2], [2.1, 0.9]),
}
DEPTH = 6
REACH = 2**DEPTH - 1


def setting(case):
    logdensity, metric, step_size, position, momentum = CASES[case]
    target = Target.from_logdensity(logdensity, jnp.zeros(len(position)))
    doubling = Doubling(Generalised(), Multinomial(), integrator("leapfrog"), DEPTH)
    start = phase_at(target, jnp.asarray(position, float), jnp.asarray(momentum, float))
    states = orbit(target, doubling.integrator, start, 34, step_size=step_size, metric=METRICS[metric]())
    finite = np.isfinite(np.asarray(states.potential))
    first, last = 34 - np.argmin(finite[34::-1]), 34 + np.argmin(finite[34:])
    low = 0 if finite[:35].all() else first + 1
    high = len(finite) if finite[34:].all() else last
    return target, doubling, METRICS[metric](), step_size, jax.tree.map(lambda leaf: leaf[low:high], states)


@pytest.mark.parametrize("case", CASES)
def test_balance_along_an_orbit(case):
    target, doubling, metric, step_size, states = setting(case)
    paths = enumerate_paths(doubling, target, states, step_size=step_size, metric=metric)
    transitions = transition_matrix(paths, REACH)
    np.testing.assert_allclose(transitions.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    count = len(transitions)
    for start in range(count):  # every visited state is the state of the orbit that it is taken for
        taken = paths.taken[start] & (np.abs(paths.offset[start] + start - count // 2) < count // 2)
        expected = np.asarray(states.position)[(paths.offset[start] + start)[taken]]
        np.testing.assert_allclose(paths.position[start][taken], expected, rtol=0, atol=1e-9)
    energies = np.asarray(jax.vmap(total_energy)(states))
    assert np.ptp(energies) > 1e-4
    assert imbalance(transitions, energies) < 1e-9
    assert paths.stop["turned"].any()


@pytest.mark.parametrize("case", CASES)
def test_every_path_is_that_of_the_recursion(case):
    target, doubling, metric, step_size, states = setting(case)
    starts = jax.tree.map(lambda leaf: leaf[:: max(1, len(leaf) // 6)], states)
    paths = enumerate_paths(doubling, target, starts, step_size=step_size, metric=metric)
    chosen, reasons, without_extra = paths.chosen(REACH), set(), 0
    for start, (q, w) in enumerate(zip(np.asarray(starts.position), np.asarray(starts.momentum), strict=True)):
        p = np.asarray(metric.textbook_momentum(jnp.asarray(w)))
        recursion = reference(case, target, metric, step_size, extra_checks=True)
        plain = reference(case, target, metric, step_size, extra_checks=False)
        for sequence in range(2**DEPTH):
            signs = [1 if sequence >> depth & 1 else -1 for depth in range(DEPTH)]
            expected = recursion.transition(q, p, signs)
            compare(paths, chosen, (start, sequence), expected)
            reasons.add(expected.stop)
            without_extra += plain.transition(q, p, signs).visited != expected.visited
    assert "turned" in reasons
    if case == "banana":
        assert "divergent" in reasons
    if case == "gaussian, long steps":
        assert without_extra > 0  # the extra checks decide on some path, or this test would not see them


def reference(case, target, metric, step_size, *, extra_checks):
    logdensity = CASES[case][0]
    value = jax.jit(lambda q: -logdensity(q))
    gradient = jax.jit(jax.grad(value))
    inverse_mass = np.asarray(metric.inverse_mass_matrix(jnp.zeros(target.dim)))
    inverse_mass = np.diag(inverse_mass) if inverse_mass.ndim == 1 else inverse_mass
    return Reference(
        lambda q: float(value(q)),
        lambda q: np.asarray(gradient(q)),
        inverse_mass,
        step_size,
        extra_checks=extra_checks,
    )


def compare(paths, chosen, path, expected):
    taken = paths.taken[path]
    assert paths.offset[path][taken].tolist() == expected.visited
    for offset, position in zip(paths.offset[path][taken], paths.position[path][taken], strict=True):
        np.testing.assert_allclose(position, expected.positions[int(offset)], rtol=0, atol=1e-9)
    stop = "divergent" if paths.stop["divergent"][path] else "turned" if paths.stop["turned"][path] else "depth"
    assert stop == expected.stop
    assert paths.stop["depth"][path] == expected.depth
    assert paths.stop["num_states"][path] == len(expected.visited)
    distribution = np.zeros(2 * REACH + 1)
    for offset, probability in expected.chance.items():
        distribution[offset + REACH] = probability
    np.testing.assert_allclose(chosen[path], distribution, rtol=0, atol=1e-9)
