"""Exact detailed balance of the doubling trajectory on the integers, with planted turns and divergences.

For every start, every sequence of directions is followed and the distribution of the chosen state is carried along
exactly, so pi(i) P(i -> j) = pi(j) P(j -> i) must hold to rounding. As DynamicHMC.jl does.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.metric import IdentityMetric
from ergonet.trajectory.doubling import Doubling
from ergonet.trajectory.selection import Multinomial, Slice
from tests.laws.enumeration import (
    PlantedTurns,
    Walk,
    enumerate_paths,
    imbalance,
    integer_starts,
    slice_imbalance,
    table_target,
    transition_matrix,
)
from tests.stages import cases, slow

ROUNDING = 1e-12
DEPTHS = (1, 2, 3, 4, 5, 6)


def no_turns(size):
    return np.zeros((size, size), bool)


def turns_inside(size, intervals):
    """A block has turned when it lies inside one of the intervals (of table indices)."""
    table = no_turns(size)
    for low, high in intervals:
        for first in range(low, high + 1):
            table[first, first + 1 : high + 1] = True
    return table


def random_turns(size, share, seed=3):
    return np.random.default_rng(seed).random((size, size)) < share


def problem(depth, *, turns=None, planted=(), seed=11):
    """Energies that vary by several units, with `planted` values at places relative to the first start."""
    reach, num_starts = 2**depth - 1, 2**depth + 12
    size, offset = num_starts + 2 * reach, reach
    energies = 2.0 * np.random.default_rng(seed).normal(size=size)
    for place, value in planted:
        energies[place + offset] = value
    table = no_turns(size) if turns is None else turns(size, offset)
    return energies, table, offset, np.arange(num_starts)


def check(depth, selection=None, criterion=PlantedTurns, **settings):
    energies, table, offset, starts = problem(depth, **settings)
    target = table_target(energies, offset)
    doubling = Doubling(criterion(jnp.asarray(table), offset), selection or Multinomial(), Walk(), depth)
    begin = integer_starts(target, starts)
    here = np.asarray(jax.vmap(total_energy)(begin))
    usable = np.isfinite(here) & (here < 1000)
    paths = enumerate_paths(doubling, target, begin)
    transitions = transition_matrix(paths, 2**depth - 1)
    np.testing.assert_allclose(transitions[usable].sum(axis=1), 1.0, rtol=0, atol=ROUNDING)
    shown = np.where(usable, here, np.inf)  # no chain is ever at a place of density zero
    shown[usable] = energies[offset + starts][usable]
    return imbalance(np.where(usable[:, None], transitions, 0.0), shown), paths


@pytest.mark.parametrize("depth", cases(DEPTHS, quick=[1, 5]))
def test_balance_without_turns(depth):
    error, paths = check(depth)
    assert np.all(paths.stop["num_states"] == 2**depth - 1)
    assert error < ROUNDING


@pytest.mark.parametrize("depth", cases(DEPTHS, quick=[1, 5]))
def test_balance_with_turning_intervals_and_divergences(depth):
    error, paths = check(
        depth,
        turns=lambda size, offset: turns_inside(size, [(offset - 3, offset + 2), (offset + 9, offset + 11)]),
        planted=[(6, np.inf), (7, 5000.0)],
    )
    assert error < ROUNDING
    if depth > 2:
        assert paths.stop["turned"].any()
    assert paths.stop["divergent"].any()


@pytest.mark.parametrize("share", cases([0.05, 0.2, 0.6], quick=[0.2]))
@pytest.mark.parametrize("depth", cases(DEPTHS, quick=[1, 5]))
def test_balance_with_random_turns(depth, share):
    error, paths = check(depth, turns=lambda size, _: random_turns(size, share))
    assert error < ROUNDING
    assert depth <= 2 or paths.stop["turned"].any()


@pytest.mark.parametrize("bad", [np.nan, slow(-np.inf), slow(1e9)])
def test_balance_where_the_potential_is_not_finite(bad):
    error, paths = check(4, planted=[(5, bad), (20, bad)])
    assert error < ROUNDING
    assert paths.stop["divergent"].any()


def test_balance_when_one_state_has_nearly_all_the_mass():
    error, _ = check(5, planted=[(8, -40.0)])
    assert error < ROUNDING


@pytest.mark.parametrize("selection", [Multinomial(), Slice()])
def test_complete_gives_the_same_trajectory_as_single_steps(selection):
    depth = 5
    energies, table, offset, starts = problem(
        depth, turns=lambda size, _: random_turns(size, 0.02), planted=[(20, np.inf)]
    )
    target, metric, step = table_target(energies, offset), IdentityMetric(), jnp.asarray(1.0)
    doubling = Doubling(PlantedTurns(jnp.asarray(table), offset), selection, Walk(), depth)

    def both(of_chain):
        key, start = of_chain
        begun = doubling.begin(key, metric, start)
        by_steps = jax.lax.while_loop(
            lambda tree: ~tree.finished, lambda tree: doubling.advance(target, metric, step, tree), begun
        )
        return doubling.complete(target, metric, step, begun), by_steps

    keys = jax.random.split(jax.random.key(1), len(starts))
    at_once, by_steps = jax.jit(partial(jax.lax.map, both))((keys, integer_starts(target, starts)))
    for one, other in zip(jax.tree.leaves(at_once), jax.tree.leaves(by_steps), strict=True):
        np.testing.assert_allclose(one, other, rtol=ROUNDING)
    leaves = by_steps.subtree
    assert leaves.turned.any()
    assert leaves.divergent.any()
    assert (by_steps.depth == depth).any()
    assert len(np.unique(leaves.num_states)) > 3


def check_slice(depth, selection=None, **settings):
    """The worst imbalance under any level of the slice, and how many of the paths diverged."""
    energies, table, offset, starts = problem(depth, **settings)
    target = table_target(energies, offset)
    doubling = Doubling(PlantedTurns(jnp.asarray(table), offset), selection or Slice(), Walk(), depth)
    begin = integer_starts(target, starts)
    diverged = []

    def enumerate_at(log_level):
        paths = enumerate_paths(doubling, target, begin, log_level=log_level)
        diverged.append(paths.stop["divergent"].mean())
        return paths

    here = np.where(np.isfinite(energies), energies, 1e5)[offset + starts]
    return slice_imbalance(enumerate_at, here, 2**depth - 1), np.array(diverged)


@pytest.mark.parametrize("depth", cases([1, 2, 3, 4], quick=[3]))
def test_balance_under_every_level_of_a_slice(depth):
    error, diverged = check_slice(
        depth, turns=lambda size, _: random_turns(size, 0.1), planted=[(4, np.inf), (5, 5000.0), (13, np.nan)]
    )
    assert error < ROUNDING
    assert np.all(diverged > 0)


NEARLY_DIVERGENT = {"turns": lambda size, _: random_turns(size, 0.1), "planted": [(8, 999.0)]}


def test_whether_a_path_diverges_depends_on_the_level_of_the_slice():
    error, diverged = check_slice(3, **NEARLY_DIVERGENT)
    assert error < ROUNDING
    assert 0 in diverged
    assert np.any(diverged[1:] > 0)  # the first level lies below all densities


class LevelOfTheWrongSign(Slice):
    def log_weight(self, threshold, energy_error):
        return super().log_weight(threshold, -energy_error)


class AlwaysAcrossASlice(Slice):
    def across(self, log_subtree, log_tree):
        return jnp.where(log_subtree > -jnp.inf, 1.0, 0.0)


class AlwaysAcross(Multinomial):
    def across(self, log_subtree, log_tree):
        return jnp.ones_like(log_tree)


class ReversedAcross(Multinomial):
    def across(self, log_subtree, log_tree):
        return jnp.minimum(1.0, jnp.exp(log_tree - log_subtree))


class ProgressiveInside(Multinomial):
    def inside(self, log_weight, log_total):
        return jnp.minimum(1.0, 2 * jnp.exp(log_weight - log_total))


class WeightsOfTheWrongSign(Multinomial):
    def log_weight(self, threshold, energy_error):
        return energy_error


class WholeTreeOnly(PlantedTurns):
    """Forgets to ask at the blocks of the new subtree."""

    def turned(self, memory, row, growth):
        return super().turned(memory, row, growth) & (row == 0)


class FarEndForgotten(PlantedTurns):
    """Asks at the new subtree where it should ask at the whole tree."""

    def turned(self, memory, row, growth):
        return super().turned(memory, jnp.maximum(row, 1), growth)


@pytest.mark.parametrize(
    "selection", [AlwaysAcross, slow(ReversedAcross), slow(ProgressiveInside), slow(WeightsOfTheWrongSign)]
)
def test_a_wrong_selection_is_caught(selection):
    error, _ = check(3, selection=selection())
    assert error > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("selection", [LevelOfTheWrongSign, AlwaysAcrossASlice])
def test_a_wrong_slice_is_caught(selection):
    settings = {"turns": lambda size, _: random_turns(size, 0.1), "planted": [(4, np.inf)]}
    try:
        error, _ = check_slice(3, selection=selection(), **settings)
    except AssertionError:  # a state outside the slice was drawn
        return
    assert error > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("criterion", [WholeTreeOnly, FarEndForgotten])
def test_a_criterion_checked_on_the_wrong_subtrees_is_caught(criterion):
    error, _ = check(3, criterion=criterion, turns=lambda size, _: random_turns(size, 0.2))
    assert error > 1e-3
