"""Exact detailed balance of the windowed trajectory, by going through every offset from every start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet.hamiltonian.metric import IdentityMetric
from ergonet.inference.run import sample
from ergonet.samplers.hmc import HMC
from ergonet.samplers.windowed_hmc import WindowedHMC
from ergonet.target.constructors import Target
from ergonet.trajectory.windowed import Windowed
from tests.laws.enumeration import Walk, imbalance, integer_starts, table_target
from tests.stages import cases

OFFSET = 40


def transitions(energies: np.ndarray, *, num_steps: int, window: int, size: int, bias: float = 0.0) -> np.ndarray:
    """P(start -> start + k), `[start, 2 reach + 1]`; a forward and a backward trajectory each with half."""
    target = table_target(energies, OFFSET)
    scheme = Windowed(Walk())
    starts = integer_starts(target, np.arange(-size, size + 1))
    reach = num_steps

    def run(start, offset, sign):
        begun = scheme.begin(
            start,
            sign,
            num_steps=jnp.asarray(num_steps),
            window=jnp.asarray(window),
            offset=offset,
            uniform=jnp.asarray(0.5),
            uniform_key=jnp.zeros(2, jnp.uint32),
        )

        def body(trajectory, _):
            new = scheme.advance(target, IdentityMetric(), trajectory)
            backward = trajectory.steps_back > 0
            place = new.ends[jnp.where(backward, 0, 1), 0, 0] - start.position[0]
            return new, (place, new.entry_probability)

        end, (places, entries) = jax.lax.scan(body, begun, None, length=num_steps)
        return places, entries, scheme.accept_probability(end), end.nonfinite

    over_all = jax.jit(jax.vmap(jax.vmap(jax.vmap(run, (None, None, 0)), (None, 0, None)), (0, None, None)))
    places, entries, accept, broken = (
        np.asarray(part) for part in over_all(starts, jnp.arange(window), jnp.asarray([-1.0, 1.0]))
    )
    matrix = np.zeros((2 * size + 1, 2 * reach + 1))
    for i, s, d in np.ndindex(accept.shape):
        draws = np.zeros((2, 2 * reach + 1))
        draws[:, reach] = 1.0, float(s >= num_steps - window + 1)
        for place, probability in zip(places[i, s, d], entries[i, s, d], strict=True):
            draws *= (1 - probability)[:, None]
            draws[:, reach + int(place)] += probability
        if broken[i, s, d]:
            matrix[i, reach] += 1
        else:
            a = np.clip(accept[i, s, d] + bias, 0, 1)
            matrix[i] += a * draws[1] + (1 - a) * draws[0]
    return matrix / (2 * window)


@pytest.mark.parametrize(
    ("num_steps", "window"), cases([(1, 1), (5, 1), (5, 2), (6, 3), (7, 6), (7, 8), (4, 5)], quick=[(5, 2), (7, 8)])
)
@pytest.mark.parametrize("barrier", [False, True])
def test_detailed_balance_is_exact(num_steps, window, barrier):
    energies = np.random.default_rng(0).normal(size=2 * OFFSET + 1) * 2
    if barrier:
        energies[OFFSET + 4] = np.inf
    size = 12
    matrix = transitions(energies, num_steps=num_steps, window=window, size=size)
    assert np.allclose(matrix.sum(1), 1)
    assert imbalance(matrix, energies[OFFSET - size : OFFSET + size + 1]) < 1e-12


@pytest.mark.parametrize("num_steps", [1, 4, 7])
def test_a_window_of_the_whole_trajectory_draws_from_all_of_it(num_steps):
    """P(start -> state) is its share e^-H of a trajectory, averaged over the places that the start may have in it."""
    energies = np.random.default_rng(2).normal(size=2 * OFFSET + 1) * 2
    size, count = 9, num_steps + 1
    matrix = transitions(energies, num_steps=num_steps, window=count, size=size)
    expected = np.zeros_like(matrix)
    for start in range(2 * size + 1):
        for back in range(count):
            places = start + OFFSET - size - back + np.arange(count)
            weights = np.exp(-energies[places])
            columns = num_steps - back + np.arange(count)
            expected[start, columns] += weights / weights.sum() / count
    np.testing.assert_allclose(matrix, expected, rtol=0, atol=1e-14)


def test_a_wrong_window_ratio_is_caught():
    energies = np.random.default_rng(0).normal(size=2 * OFFSET + 1) * 2
    matrix = transitions(energies, num_steps=6, window=3, size=12, bias=-0.01)
    assert imbalance(matrix, energies[OFFSET - 12 : OFFSET + 13]) > 1e-4


def test_a_window_of_one_is_static_hmc_bit_for_bit():
    target = Target.from_logdensity(lambda q: -0.5 * jnp.sum((q / jnp.arange(1.0, 6.0)) ** 2), jnp.zeros(5))
    settings = {"num_steps": 7, "step_size": 1.4, "step_jitter": 0.1, "metric": "identity"}
    run = {"num_chains": 2, "num_warmup": 0, "num_draws": 500, "seed": 1, "progress": False}
    static, windowed = (sample(target, kernel, **run) for kernel in (HMC(**settings), WindowedHMC(1, **settings)))
    assert np.array_equal(static.positions, windowed.positions)
    assert 0.5 < static.stats["acceptance_rate"].mean() < 0.95


@jax.jit
def from_minus_2_to_4(energies):
    """A trajectory of 6 steps from 0 with windows of 3, over a table of energies."""
    target, scheme = table_target(energies, OFFSET), Windowed(Walk())
    start = jax.tree.map(lambda leaf: leaf[0], integer_starts(target, np.zeros(1, int)))
    begun = scheme.begin(
        start,
        jnp.asarray(1.0),
        num_steps=jnp.asarray(6),
        window=jnp.asarray(3),
        offset=jnp.asarray(2),
        uniform=jnp.asarray(0.5),
        uniform_key=jnp.zeros(2, jnp.uint32),
    )
    return jax.lax.while_loop(
        lambda t: ~scheme.finished(t), lambda t: scheme.advance(target, IdentityMetric(), t), begun
    )


@pytest.mark.parametrize("place", cases([-2, -1, 1, 2, 4], quick=[-1, 4]))
def test_a_divergence_anywhere_in_the_trajectory_is_counted(place):
    energies = np.zeros(2 * OFFSET + 1)
    energies[OFFSET + place], energies[OFFSET + (1 if place == 2 else 2)] = 1500.0, -5000.0
    _, info = WindowedHMC(3, num_steps=6).conclude(from_minus_2_to_4(energies))
    assert bool(info.diverging)
    assert not bool(info.nonfinite)
    assert float(info.max_energy_error) == -5000.0
    energies[OFFSET + place] = 999.0
    assert not bool(from_minus_2_to_4(energies).diverging)


@pytest.mark.parametrize("place", [-2, 3, 4])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_never_accepted(place, bad):
    energies = np.zeros(2 * OFFSET + 1)
    energies[OFFSET + place] = bad
    state, info = WindowedHMC(3, num_steps=6).conclude(from_minus_2_to_4(energies))
    assert bool(info.diverging)
    assert bool(info.nonfinite)
    assert float(info.acceptance) == 0
    assert float(info.energy_error) == 0 == float(state.position[0])
    np.testing.assert_equal(float(info.max_energy_error), bad)
