"""The fixed trajectory is an involution with a flip, and its accept probability balances exactly."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import HMC, Target
from ergonet.hamiltonian.box import FreeSpace
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import DiagonalMetric, IdentityMetric
from ergonet.hamiltonian.phase import Phase, phase_at
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers.base import Tuning
from ergonet.trajectory.fixed import Fixed
from tests.laws.static import coupled, integers


class Shift(Composition):
    """An integrator on the integers: one place along the momentum, which is -1 or 1, or back."""

    def __init__(self):
        self.coefficients = (0.5, 1.0, 0.5)
        self.space = FreeSpace()

    def step(self, target, metric, step_size, phase):
        return phase_at(target, phase.position + jnp.sign(step_size) * phase.momentum, phase.momentum)


@eqx.filter_jit
def propose(kernel, target, metric, phase, settings):
    """The whole trajectory; its end, its probability and the state that it leaves."""
    step_size, num_steps, uniform = settings
    trajectory = kernel.trajectory.begin(phase, step_size, num_steps, uniform)
    tuning = Tuning(step_size=step_size, metric=metric, num_steps=num_steps)
    trajectory = jax.lax.while_loop(
        lambda t: ~kernel.finished(t), lambda t: kernel.advance(target, t, tuning), trajectory
    )
    state, info = kernel.conclude(trajectory)
    return trajectory.phase, kernel.accept_probability(trajectory), state, info


def with_integrator(steps):
    return eqx.tree_at(lambda k: k.trajectory, HMC(num_steps=3, step_size=1.0), Fixed(steps))


def transition_on_integers(kernel, energies, starts, num_steps):
    """P[(i, v) -> (j, v')] with the momentum flipped after an accepted and after a rejected move."""
    target, index = integers(energies), {}
    states = [(i, v) for i in starts for v in (-1, 1)]
    index = {state: n for n, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states) + 1))  # the last column: outside of the starts
    for (place, sign), row in index.items():
        begin = phase_at(target, jnp.array([float(place)]), jnp.array([float(sign)]))
        settings = (jnp.asarray(1.0), jnp.asarray(num_steps), jnp.asarray(0.5))
        _, probability, _, _ = propose(kernel, target, IdentityMetric(), begin, settings)
        end = (place + sign * num_steps, -sign)
        matrix[row, index.get(end, -1)] += float(probability)
        matrix[row, index[(place, sign)]] += 1 - float(probability)
    return matrix, states


@pytest.mark.parametrize("num_steps", [1, 2, 5])
def test_balance_on_integers_with_planted_divergences(num_steps):
    energies = 2.0 * np.random.default_rng(4).normal(size=44)
    energies[[17, 26, 30]] = [np.inf, np.nan, 4000.0]
    starts = [i for i in range(10, 34) if np.isfinite(energies[i])]
    matrix, states = transition_on_integers(with_integrator(Shift()), energies, starts, num_steps)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-14)
    weights = np.array([np.exp(-energies[place]) for place, _ in states])
    flow = weights[:, None] * matrix[:, :-1]
    np.testing.assert_allclose(flow, flow.T, rtol=0, atol=1e-12 * flow.max())
    assert np.count_nonzero(flow - np.diag(np.diag(flow))) > 10


def test_a_random_direction_balances_without_a_momentum_flip():
    energies = 2.0 * np.random.default_rng(4).normal(size=44)
    target, kernel, num_steps = integers(energies), with_integrator(Shift()), 3
    flows = {}
    for sign in (-1.0, 1.0):
        flows[sign] = np.zeros((24, 24))
        for place in range(10, 34):
            begin = phase_at(target, jnp.array([float(place)]), jnp.array([1.0]))
            settings = (jnp.asarray(sign), jnp.asarray(num_steps), jnp.asarray(0.5))
            end, probability, _, _ = propose(kernel, target, IdentityMetric(), begin, settings)
            there = round(float(end.position[0])) - 10
            if 0 <= there < 24:
                flows[sign][place - 10, there] = float(probability) * np.exp(-energies[place])
    both = flows[-1.0] + flows[1.0]
    np.testing.assert_allclose(both, both.T, rtol=0, atol=1e-12 * both.max())
    assert np.max(np.abs(flows[1.0] - flows[1.0].T)) > 0.1 * both.max()


class NoAcceptStep(HMC):
    def accept_probability(self, trajectory):
        return jnp.ones_like(trajectory.energy)


def test_a_missing_accept_step_is_caught():
    energies = 2.0 * np.random.default_rng(4).normal(size=44)
    no_accept_step = NoAcceptStep(num_steps=3, step_size=1.0)  # pyright: ignore[reportCallIssue]
    kernel = eqx.tree_at(lambda k: k.trajectory, no_accept_step, Fixed(Shift()))
    matrix, states = transition_on_integers(kernel, energies, list(range(10, 34)), 3)
    weights = np.array([np.exp(-energies[place]) for place, _ in states])
    flow = weights[:, None] * matrix[:, :-1]
    assert np.max(np.abs(flow - flow.T)) > 0.1 * flow.max()


@pytest.mark.parametrize("name", INTEGRATORS.names())
def test_a_proposal_is_an_involution_and_balances(name):
    kernel = with_integrator(INTEGRATORS.make(name))
    target, metric = Target.from_logdensity(coupled, jnp.zeros(3)), DiagonalMetric(scale=jnp.array([0.7, 1.4, 1.0]))
    rng = np.random.default_rng(7)
    probabilities = []
    for _ in range(20):
        begin = phase_at(target, *(jnp.asarray(0.8 * rng.normal(size=3)) for _ in range(2)))
        settings = (jnp.asarray({"yoshida": 0.25}.get(name, 0.4)), jnp.asarray(7), jnp.asarray(0.5))
        end, there, _, info = propose(kernel, target, metric, begin, settings)
        turned = Phase(position=end.position, momentum=-end.momentum, potential=end.potential, gradient=end.gradient)
        back, again, _, _ = propose(kernel, target, metric, turned, settings)
        np.testing.assert_allclose(back.position, begin.position, rtol=0, atol=1e-9)
        np.testing.assert_allclose(back.momentum, -begin.momentum, rtol=0, atol=1e-9)
        flows = [p * np.exp(-total_energy(z)) for p, z in ((there, begin), (again, end))]
        np.testing.assert_allclose(flows[0], flows[1], rtol=1e-9)
        assert int(info.gradients) == 7 * INTEGRATORS.make(name).gradients_per_step
        probabilities.append(float(there))
    assert min(probabilities) < 0.99


@pytest.mark.parametrize("uniform", [0.2, 0.8])
def test_the_state_moves_where_the_uniform_is_below_the_probability(uniform):
    kernel = with_integrator(INTEGRATORS.make("leapfrog"))
    target, rng, seen = Target.from_logdensity(coupled, jnp.zeros(3)), np.random.default_rng(8), set()
    for _ in range(20):
        begin = phase_at(target, *(jnp.asarray(1.5 * rng.normal(size=3)) for _ in range(2)))
        settings = (jnp.asarray(0.7), jnp.asarray(5), jnp.asarray(uniform))
        end, probability, state, info = propose(kernel, target, IdentityMetric(), begin, settings)
        moved = uniform < float(probability)
        kept = end if moved else begin
        np.testing.assert_array_equal(state.position, kept.position)
        np.testing.assert_array_equal(state.potential, kept.potential)
        np.testing.assert_array_equal(state.gradient, kept.gradient)
        np.testing.assert_allclose(info.energy, total_energy(kept), rtol=1e-12)
        np.testing.assert_allclose(info.max_energy_error, total_energy(end) - total_energy(begin), atol=1e-12)
        assert bool(info.moved) == moved
        seen.add(moved)
    assert seen == {True, False}


@pytest.mark.parametrize(("bad", "where"), itertools.product([np.nan, np.inf, -np.inf], [13, 15]))
def test_a_trajectory_with_a_nonfinite_energy_stops_and_is_rejected(bad, where):
    energies = np.zeros(40)
    energies[where] = bad
    target = integers(energies)
    begin = phase_at(target, jnp.array([11.0]), jnp.array([1.0]))
    settings = (jnp.asarray(1.0), jnp.asarray(4), jnp.asarray(0.0))
    _, probability, state, info = propose(with_integrator(Shift()), target, IdentityMetric(), begin, settings)
    assert float(probability) == 0
    assert float(state.position[0]) == 11
    assert bool(info.diverging)
    assert bool(info.nonfinite)
    assert int(info.num_steps) == where - 11


@pytest.mark.parametrize(("num_steps", "jitter"), [(1, 0.5), (10, 0.0), (10, 0.2), (7, 0.9)])
def test_jitter_fills_its_range_and_stays_inside(num_steps, jitter):
    kernel = HMC(num_steps=num_steps, step_size=0.1, length_jitter=jitter, step_jitter=jitter)
    target = Target.from_logdensity(coupled, jnp.zeros(3))
    state = kernel.init(target, jnp.ones(3))
    tuning = kernel.tuning(target, jnp.ones(3))
    keys = jax.random.split(jax.random.key(0), 400)
    drawn = jax.jit(jax.vmap(lambda key: kernel.begin(key, target, state, tuning)))(keys)
    low, high = max(1, round(num_steps * (1 - jitter))), max(1, round(num_steps * (1 + jitter)))
    assert set(np.asarray(drawn.num_steps).tolist()) == set(range(low, high + 1))
    factor = np.asarray(drawn.step_size) / 0.1
    assert np.all(np.abs(factor - 1) <= jitter + 1e-12)
    assert np.ptp(factor) >= 1.9 * jitter
    if low < high:
        together = np.corrcoef([factor, drawn.num_steps, drawn.uniform]) - np.eye(3)
        assert np.max(np.abs(together)) < 4 / np.sqrt(400)


def test_both_random_directions_have_the_same_jitter():
    settings = {"num_steps": 10, "step_size": 0.1, "length_jitter": 0.3, "step_jitter": 0.2}
    forward, either = HMC(**settings), HMC(direction="random", **settings)
    target = Target.from_logdensity(coupled, jnp.zeros(3))
    state, tuning = forward.init(target, jnp.ones(3)), forward.tuning(target, jnp.ones(3))
    keys = jax.random.split(jax.random.key(0), 400)
    one, other = (
        jax.jit(jax.vmap(lambda key, k=k: k.begin(key, target, state, tuning)))(keys) for k in (forward, either)
    )
    np.testing.assert_array_equal(np.abs(other.step_size), one.step_size)
    np.testing.assert_array_equal(other.num_steps, one.num_steps)
    np.testing.assert_array_equal(other.phase.momentum, one.phase.momentum)
    assert abs(np.mean(other.step_size < 0) - 0.5) < 4 * 0.5 / np.sqrt(400)
    assert abs(np.corrcoef(other.step_size < 0, other.phase.momentum[:, 0])[0, 1]) < 4 / np.sqrt(400)
