"""Every criterion and selection with a real leapfrog: exact balance along an orbit, and the recursion path by path."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import NUTS, XHMC
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.metric import IdentityMetric
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers.base import Tuning, run_transition
from ergonet.samplers.common import refresh
from ergonet.trajectory.criterion import Exhaustive, Original
from ergonet.trajectory.doubling import Doubling
from ergonet.trajectory.selection import Multinomial, Slice
from ergonet.trajectory.uniforms import uniform_pair
from tests.laws import reference_nuts
from tests.laws.enumeration import enumerate_paths, imbalance, slice_imbalance, transition_matrix
from tests.laws.orbits import CASES, CRITERIA, DELTA, REFERENCES
from tests.stages import cases

DEPTH, PATH_DEPTH, SLICE_DEPTH = 6, 5, 4


def setting(case, criterion, selection=None, depth=DEPTH):
    doubling = Doubling(criterion, selection or Multinomial(), INTEGRATORS.make("leapfrog"), depth)
    return doubling, CASES[case].orbit(doubling, 34 if depth > SLICE_DEPTH else 15)


def follow(case, doubling, states, **settings):
    chosen = CASES[case]
    return enumerate_paths(
        doubling, chosen.target, states, step_size=chosen.step_size, metric=chosen.metric, **settings
    )


@pytest.mark.parametrize("criterion", cases(CRITERIA, quick=["generalized"]))
@pytest.mark.parametrize("case", cases(CASES, quick=["banana"]))
def test_balance_along_an_orbit(case, criterion):
    doubling, states = setting(case, CRITERIA[criterion])
    paths = follow(case, doubling, states)
    transitions = transition_matrix(paths, 2**DEPTH - 1)
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


@pytest.mark.parametrize("criterion", cases(CRITERIA, quick=["generalized"]))
@pytest.mark.parametrize("case", cases(["gaussian, long steps", "banana"], quick=["banana"]))
def test_balance_under_every_level_of_a_slice(case, criterion):
    doubling, states = setting(case, CRITERIA[criterion], Slice(), SLICE_DEPTH)
    energies = np.asarray(jax.vmap(total_energy)(states))
    assert np.ptp(energies) > 1e-2  # of which every gap is a level
    stops = []

    def enumerate_at(log_level):
        paths = follow(case, doubling, states, log_level=log_level)
        stops.append(paths.stop["turned"].any())
        return paths

    assert slice_imbalance(enumerate_at, energies, 2**SLICE_DEPTH - 1) < 1e-12
    assert any(stops)


class AlwaysForward(Original):
    """Takes every tree to grow forward in time."""

    def turned(self, memory, row, growth):
        return super().turned(memory, row, eqx.tree_at(lambda g: g.forward, growth, jnp.ones_like(growth.forward)))


class StandardisedMomentum(Original):
    """Forgets the metric."""

    def extend(self, memory, row, growth):
        return super().extend(memory, row, dataclasses.replace(growth, metric=IdentityMetric()))


def test_a_wrong_sign_of_time_is_caught():
    doubling, states = setting("gaussian, long steps", AlwaysForward())
    paths = follow("gaussian, long steps", doubling, states)
    energies = np.asarray(jax.vmap(total_energy)(states))
    assert imbalance(transition_matrix(paths, 2**DEPTH - 1), energies) > 1e-3


def mismatches(case, criterion, reference, *, selection=None):
    """Paths, and how many are not those of the recursion, for which reasons they ended."""
    doubling, states = setting(case, criterion, selection, PATH_DEPTH)
    starts = jax.tree.map(lambda leaf: leaf[:: max(1, len(leaf) // 6)], states)
    energies = np.asarray(jax.vmap(total_energy)(starts))
    level = float(np.median(-energies) - 1e-3) if isinstance(selection, Slice) else None
    paths = follow(case, doubling, starts, log_level=level)
    chosen, metric, recursion = paths.chosen(2**PATH_DEPTH - 1), CASES[case].metric, CASES[case].reference(reference)
    reasons, wrong, unweighted = set(), 0, 0
    for start in range(len(energies)):
        if level is not None and level > -energies[start]:
            continue
        q, w = np.asarray(starts.position[start]), starts.momentum[start]
        p = np.asarray(metric.textbook_momentum(w))
        for sequence in range(2**PATH_DEPTH):
            signs = [1 if sequence >> depth & 1 else -1 for depth in range(PATH_DEPTH)]
            expected = recursion.transition(q, p, signs, log_level=level)
            wrong += not agrees(paths, chosen, (start, sequence), expected)
            reasons.add(expected.stop)
            unweighted += len(expected.chance) < 2**expected.depth
    return wrong, reasons, unweighted


def agrees(paths, chosen, path, expected):
    taken = paths.taken[path]
    if paths.offset[path][taken].tolist() != expected.visited:
        return False
    for offset, position in zip(paths.offset[path][taken], paths.position[path][taken], strict=True):
        np.testing.assert_allclose(position, expected.positions[int(offset)], rtol=0, atol=1e-9)
    stop = "divergent" if paths.stop["divergent"][path] else "turned" if paths.stop["turned"][path] else "depth"
    same = (stop, paths.stop["depth"][path], paths.stop["num_states"][path])
    if same != (expected.stop, expected.depth, len(expected.visited)):
        return False
    distribution = np.zeros_like(chosen[path])
    for offset, probability in expected.chance.items():
        distribution[offset + len(distribution) // 2] = probability
    return np.allclose(chosen[path], distribution, rtol=0, atol=1e-9)


@pytest.mark.parametrize("criterion", cases(CRITERIA, quick=["generalized"]))
@pytest.mark.parametrize("case", cases(CASES, quick=["banana"]))
def test_every_path_equals_that_of_the_recursion(case, criterion):
    wrong, reasons, _ = mismatches(case, CRITERIA[criterion], REFERENCES[criterion])
    assert wrong == 0
    assert "turned" in reasons
    assert ("divergent" in reasons) == (case == "banana")


@pytest.mark.parametrize("criterion", cases(CRITERIA, quick=["generalized"]))
@pytest.mark.parametrize("case", cases(["gaussian", "gaussian, long steps", "banana"], quick=["banana"]))
def test_every_path_in_a_slice_equals_that_of_the_recursion(case, criterion):
    wrong, reasons, unweighted = mismatches(case, CRITERIA[criterion], REFERENCES[criterion], selection=Slice())
    assert wrong == 0
    assert "turned" in reasons
    assert unweighted > 0  # the level keeps some states out, or this test would not see it


def without_extra_checks(inverse_mass):
    return reference_nuts.Generalized(inverse_mass, extra_checks=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "criterion", "reference"),
    [
        ("gaussian, long steps", CRITERIA["generalized"], without_extra_checks),
        ("gaussian, long steps", CRITERIA["original"], REFERENCES["generalized"]),
        ("gaussian", StandardisedMomentum(), REFERENCES["original"]),
        ("gaussian", Exhaustive(1.2 * DELTA), REFERENCES["exhaustive"]),
    ],
)
def test_another_criterion_is_caught(case, criterion, reference):
    wrong, _, _ = mismatches(case, criterion, reference)
    assert wrong > 0


KERNELS = {
    "slice-NUTS of 2014": (lambda **s: NUTS(criterion="original", selection="slice", **s), "original"),
    "XHMC": (lambda **s: XHMC(DELTA, **s), "exhaustive"),
    "XHMC in a slice": (lambda **s: XHMC(DELTA, selection="slice", **s), "exhaustive"),
    "NUTS": (NUTS, "generalized"),
}


@pytest.mark.parametrize("kernel", cases(KERNELS, quick=["NUTS"]))
@pytest.mark.parametrize("case", cases(["gaussian, long steps", "gaussian", "banana"], quick=["banana"]))
def test_a_chain_repeats_by_recursion_with_the_same_random_numbers(case, kernel):
    make, criterion = KERNELS[kernel]
    chosen = CASES[case]
    sampler, target = make(step_size=chosen.step_size, max_doublings=DEPTH), chosen.target
    recursion = chosen.reference(REFERENCES[criterion])
    tuning = Tuning(step_size=jnp.asarray(chosen.step_size), metric=chosen.metric, num_steps=jnp.asarray(1))
    state = sampler.init(target, jnp.asarray(chosen.position))
    step = jax.jit(
        lambda key, state: (
            sampler.begin(key, target, state, tuning),
            run_transition(sampler, key, target, state, tuning),
        )
    )
    draw_all = jax.jit(jax.vmap(lambda words, n: jnp.stack(uniform_pair(words, n, jnp.float64)), (None, 0)))
    moved, depths = 0, set()
    for key in jax.random.split(jax.random.key(3), 60):
        begun, (new, info) = step(key, state)
        q, p = np.asarray(state.position), np.asarray(chosen.metric.textbook_momentum(refresh(key, state).momentum))
        level = float(begun.threshold - begun.energy_start) if sampler.trajectory.selection == Slice() else None
        signs = [1 if int(begun.directions) >> depth & 1 else -1 for depth in range(DEPTH)]
        uniforms = np.asarray(draw_all(begun.uniform_key, jnp.arange(2**DEPTH)))
        expected = recursion.transition(q, p, signs, log_level=level, uniforms=uniforms)
        np.testing.assert_allclose(new.position, expected.drawn, rtol=0, atol=1e-9)
        assert (int(info.num_steps), int(info.tree_depth)) == (len(expected.visited), expected.depth)
        assert bool(info.diverging) == (expected.stop == "divergent")
        moved += not np.array_equal(new.position, state.position)
        depths.add(expected.depth)
        state = new
    assert moved > 30
    assert len(depths) > 1
