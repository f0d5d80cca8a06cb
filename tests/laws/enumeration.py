"""Exact transition probabilities of a doubling trajectory, by going through every sequence of directions.

Nothing here is random. A trajectory is driven leaf by leaf through its own `begin` and `advance`; the probabilities
that it exposes after each leaf move the exact distributions of the subtree's and of the tree's draw.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet.hamiltonian.box import FreeSpace
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import IdentityMetric
from ergonet.hamiltonian.phase import Phase, phase_at
from ergonet.target.constructors import Target
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.criterion import AbstractCriterion
from ergonet.trajectory.doubling import Doubling


class Walk(Composition):
    """An integrator on the integers: a step moves by one, and the momentum is the position itself."""

    def __init__(self):
        self.coefficients = (0.5, 1.0, 0.5)
        self.space = FreeSpace()

    def step(self, target, metric, step_size, phase):
        position = phase.position + jnp.sign(step_size)
        return phase_at(target, position, position)


def table_target(energies: np.ndarray, offset: int) -> AbstractDensity:
    """H(i) = energies[i + offset] where the momentum at i is i."""
    return Target.from_logdensity(TableDensity(jnp.asarray(energies), offset), jnp.zeros(1))


class TableDensity(eqx.Module):
    """Minus the tabulated energies, less the kinetic energy of a momentum that equals the position."""

    table: Any
    offset: int

    def __call__(self, position):
        index = jnp.round(position[0]).astype(jnp.int32) + self.offset
        return 0.5 * position[0] ** 2 - self.table[index]


class PlantedTurns(AbstractCriterion):
    """A block from `low` to `high` has turned where the table says so."""

    table: Any  # [low + offset, high + offset]
    offset: int

    def begin(self, num_rows, start, metric):
        return jnp.zeros(num_rows, start.momentum.dtype)

    def extend(self, memory, row, growth):
        return memory.at[row].set(growth.phase.momentum[0])

    def turned(self, memory, row, growth):
        first = jnp.where(row == 0, growth.far[0], memory[row])
        ends = jnp.sort(jnp.stack([first, growth.phase.momentum[0]])).astype(jnp.int32) + self.offset
        return self.table[ends[0], ends[1]]


@dataclass
class Paths:
    """What happened on every path; arrays are `[start, sequence, ...]`, leaves on the axis after those."""

    taken: np.ndarray  # whether the leaf was visited
    offset: np.ndarray  # of the leaf from the start, in steps
    position: np.ndarray
    leaf_probability: np.ndarray
    merge_probability: np.ndarray
    depth: np.ndarray  # after the leaf
    stop: dict[str, np.ndarray]  # at the end: divergent, turned, depth, num_states

    def chosen(self, reach: int) -> np.ndarray:
        """Exact distribution of the chosen offset, `[start, sequence, 2 reach + 1]`."""
        shape = (*self.taken.shape[:2], 2 * reach + 1)
        tree, subtree = np.zeros(shape), np.zeros(shape)
        tree[:, :, reach] = 1
        depth = np.zeros(shape[:2], int)
        first, second = np.indices(shape[:2])
        for leaf in range(self.taken.shape[2]):
            taken = self.taken[:, :, leaf]
            inside = np.where(taken, self.leaf_probability[:, :, leaf], 0.0)
            subtree *= (1 - inside)[..., None]
            subtree[first, second, self.offset[:, :, leaf] + reach] += inside
            across = np.where(taken, self.merge_probability[:, :, leaf], 0.0)
            tree = (1 - across)[..., None] * tree + across[..., None] * subtree
            completed = taken & (self.depth[:, :, leaf] > depth)
            subtree[completed] = 0
            depth = np.where(taken, self.depth[:, :, leaf], depth)
        return tree


def enumerate_paths(
    doubling: Doubling, target: AbstractDensity, starts: Phase, *, step_size=1.0, metric=None, log_level=None
) -> Paths:
    """Run every direction sequence from every start (`Phase` with a leading axis).

    `log_level` is log u, the level of the slice; without one the trajectory draws it.
    """
    metric = IdentityMetric() if metric is None else metric
    level = None if log_level is None else jnp.asarray(log_level, jnp.result_type(float))
    seen, stop = _follow(doubling, target, metric, jnp.asarray(step_size), (starts, level))
    return Paths(*(np.asarray(part) for part in seen), stop={k: np.asarray(v) for k, v in stop.items()})


@eqx.filter_jit
def _follow(doubling: Doubling, target: AbstractDensity, metric: Any, step_size: Any, begins: tuple[Phase, Any]):
    starts, log_level = begins

    def run(start: Phase, directions):
        def body(carry, _):
            tree, low, high = carry
            forward = ((directions >> tree.depth.astype(jnp.uint32)) & 1) == 1
            new = doubling.advance(target, metric, step_size, tree)
            taken = ~tree.finished
            offset = jnp.where(forward, high + 1, low - 1)
            low = jnp.where(taken & ~forward, low - 1, low)
            high = jnp.where(taken & forward, high + 1, high)
            turns_round = ((directions >> new.depth.astype(jnp.uint32)) & 1 == 1) != forward
            position = jnp.where(turns_round, new.far[0], new.subtree.end.position)
            seen = (taken, offset, position, new.subtree.leaf_probability, new.merge_probability, new.depth)
            tree = jax.tree.map(lambda n, o: jnp.where(taken, n, o), new, tree)
            return (tree, low, high), seen

        zero = jnp.zeros((), jnp.int32)
        begun = doubling.begin(jax.random.key(0), metric, start, directions)
        if log_level is not None:
            begun = eqx.tree_at(lambda tree: tree.threshold, begun, log_level + begun.energy_start)
        (tree, _, _), seen = jax.lax.scan(body, (begun, zero, zero), None, length=2**doubling.max_doublings - 1)
        stop = {name: getattr(tree.subtree, name) for name in ("divergent", "turned", "num_states")}
        return seen, stop | {"depth": tree.depth, "finished": tree.finished}

    sequences = jnp.arange(2**doubling.max_doublings, dtype=jnp.uint32)
    return jax.vmap(jax.vmap(run, in_axes=(None, 0)), in_axes=(0, None))(starts, sequences)


def transition_matrix(paths: Paths, reach: int) -> np.ndarray:
    """P(start -> start + offset), `[start, 2 reach + 1]`, averaged over directions."""
    return paths.chosen(reach).mean(axis=1)


def imbalance(transitions: np.ndarray, energies: np.ndarray) -> float:
    """Largest |pi_i P_ij - pi_j P_ji|, relative to the largest flow; rows of `transitions` are neighboring starts."""
    weights = np.exp(-(energies - np.min(energies)))
    flow = weights[:, None] * neighbors(transitions)
    off_diagonal = flow - np.diag(np.diag(flow))
    return float(np.max(np.abs(flow - flow.T)) / np.max(off_diagonal))


def slice_imbalance(enumerate_at: Callable[[float], Paths], energies: np.ndarray, reach: int) -> float:
    """Largest |P_u(i -> j) - P_u(j -> i)| under any level u, where the states in the slice are equally likely.

    A transition is the same for all levels between two neighboring densities, so one level of each gap stands for
    all. `energies` are those of the starts, which are neighbors; `enumerate_at(log_u)` goes through their paths.
    """
    # Levels at which a state counts or not by rounding are left out.
    densities = np.unique(np.round(-energies, 9))
    levels = np.concatenate([[densities[0] - 1.0], (densities[1:] + densities[:-1]) / 2])
    worst = 0.0
    for level in levels:
        transitions = transition_matrix(enumerate_at(level), reach)
        in_slice = level <= -energies
        np.testing.assert_allclose(transitions[in_slice].sum(axis=1), 1.0, rtol=0, atol=1e-12)
        moves = neighbors(transitions)[in_slice]
        np.testing.assert_array_equal(moves[:, ~in_slice], 0)
        worst = max(worst, float(np.max(np.abs(moves[:, in_slice] - moves[:, in_slice].T))))
    return worst


def neighbors(transitions: np.ndarray) -> np.ndarray:
    """P[i, j] among the starts, from P(start -> start + offset)."""
    count, width = transitions.shape
    reach = width // 2
    matrix = np.zeros((count, count))
    for i, j in np.ndindex(count, count):
        if abs(j - i) <= reach:
            matrix[i, j] = transitions[i, j - i + reach]
    return matrix


def integer_starts(target: AbstractDensity, positions: np.ndarray) -> Phase:
    """Phase points on the integers."""
    grid = jnp.asarray(positions, jnp.result_type(float))[:, None]
    return jax.vmap(lambda position: phase_at(target, position, position))(grid)


def orbit(target: AbstractDensity, steps: Composition, start: Phase, reach: int, *, step_size, metric) -> Phase:
    """The states of one orbit from -reach to reach, each by steps from the middle."""

    def half(signed):
        def body(phase, _):
            phase = steps.step(target, metric, jnp.asarray(signed), phase)
            return phase, phase

        return jax.lax.scan(body, start, None, length=reach)[1]

    back, ahead = half(-step_size), half(step_size)
    return jax.tree.map(lambda b, s, a: jnp.concatenate([b[::-1], s[None], a]), back, start, ahead)
