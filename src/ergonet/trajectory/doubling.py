"""The doubling trajectory: a tree of states that grows by its own size, in O(depth) memory.

Starting from one state, each doubling draws a direction and extends the tree by a new subtree of the same size, one
leapfrog step at a time (`advance` costs one gradient). The termination criterion is evaluated on every subtree that is
completed inside the new one, and on the whole tree after a doubling; the selection keeps one running draw per tree.
No-U-turn, exhaustive and stochastic-gradient trajectories are settings of it. Sources: HoffmanGelman2014;
Betancourt2017, appendix A; Lau2018, section 2.3.

States are numbered from the start, which is 0. Doubling d adds the numbers from 2^d to 2^(d + 1) - 1, so that the
binary form of a number shows which subtrees it opens and closes. The part of the tree that a leaf changes is a separate
record (`Subtree`), so that a loop over the leaves of a subtree carries nothing else.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Count, Flag, Float, Position, PRNGKey, Scalar, UInt
from ergonet.hamiltonian.energy import is_divergent, momentum_products, total_energy
from ergonet.hamiltonian.integrator import AbstractIntegrator
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase, Point
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.criterion import AbstractCriterion, Growth
from ergonet.trajectory.packing import packed_while_loop
from ergonet.trajectory.selection import AbstractSelection
from ergonet.trajectory.uniforms import bits_and_uniform, key_words, uniform_pair


class Draw(eqx.Module):
    """A state that may become the chain's next."""

    position: Position
    gradient: Position
    potential: Scalar
    energy: Scalar


class Subtree(eqx.Module):
    """The part of the tree that a leaf changes: the subtree under construction, and totals over all leaves."""

    end: Point  # the last leaf
    draw: Draw
    memory: Any
    log_weight: Scalar
    rejected: Flag  # it has diverged, or a subtree inside it has turned
    num_states: Count  # of the trajectory, without the start
    sum_acceptance: Scalar
    max_energy_error: Scalar
    turned: Flag
    divergent: Flag
    nonfinite: Flag
    leaf_probability: Scalar  # of the last `inside` decision, for exact enumeration


class DoublingTrajectory(eqx.Module):
    """A tree under construction. Directions and uniforms are data: `directions` holds one bit per doubling."""

    subtree: Subtree
    far: Float[
        Array, "vector dim"
    ]  # vectors of the end that does not grow, in one buffer, so that one task copies them
    draw: Draw
    directions: UInt[Array, ""]
    uniform_key: UInt[Array, "2"]
    energy_start: Scalar
    threshold: Scalar
    log_weight: Scalar
    depth: Count
    finished: Flag
    moved: Flag
    merge_probability: Scalar  # of the last `across` decision; 0 if no subtree was merged


class Doubling(eqx.Module):
    """A doubling trajectory with a termination criterion, a selection and an integrator as components."""

    criterion: AbstractCriterion
    selection: AbstractSelection
    integrator: AbstractIntegrator
    max_doublings: int = eqx.field(static=True)

    def begin(
        self, key: PRNGKey, metric: AbstractMetric, start: Phase, directions: UInt[Array, ""] | None = None
    ) -> DoublingTrajectory:
        """Begin with a tree of one state. `directions` (bit d = 1: doubling d goes forward) is drawn unless given.

        The key may be the one used to draw the momentum (`uniforms.py`).
        """
        words = key_words(key)
        bits, uniform = bits_and_uniform(words, start.position.dtype)
        energy = total_energy(start)
        draw = Draw(position=start.position, gradient=start.gradient, potential=start.potential, energy=energy)
        threshold = self.selection.threshold(uniform, energy)
        zero, none, no = jnp.zeros_like(energy), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        subtree = Subtree(
            end=start.point,
            draw=draw,
            memory=self.criterion.begin(self.max_doublings + 1, start, metric),
            log_weight=jnp.full_like(energy, -jnp.inf),
            rejected=no,
            num_states=none,
            sum_acceptance=zero,
            max_energy_error=zero,
            turned=no,
            divergent=no,
            nonfinite=no,
            leaf_probability=zero,
        )
        return DoublingTrajectory(
            subtree=subtree,
            far=start.stacked,
            draw=draw,
            directions=bits if directions is None else directions,
            uniform_key=words,
            energy_start=energy,
            threshold=threshold,
            log_weight=self.selection.log_weight(threshold, zero),
            depth=none,
            finished=no,
            moved=no,
            merge_probability=zero,
        )

    def advance(
        self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, tree: DoublingTrajectory
    ) -> DoublingTrajectory:
        """Add one leaf, and merge the subtree if that completes it."""
        return self._merge(tree, self._grow(target, metric, step_size, tree, tree.subtree))

    def complete(
        self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, tree: DoublingTrajectory
    ) -> DoublingTrajectory:
        """Run `advance` to the end, as a loop over subtrees that contains a loop over their leaves."""

        def double(tree: DoublingTrajectory) -> DoublingTrajectory:
            subtree = packed_while_loop(
                lambda subtree: _is_growing(tree, subtree),
                lambda subtree: self._grow(target, metric, step_size, tree, subtree),
                tree.subtree,
            )
            return self._merge(tree, subtree)

        return packed_while_loop(lambda tree: ~tree.finished, double, tree)

    def _grow(
        self,
        target: AbstractDensity,
        metric: AbstractMetric,
        step_size: Scalar,
        tree: DoublingTrajectory,
        subtree: Subtree,
    ) -> Subtree:
        """Add one leaf to the subtree, and test the inner subtrees that this completes."""
        number, previous = subtree.num_states + 1, subtree.end
        forward = _direction(tree.directions, tree.depth)
        phase = self.integrator.step(target, metric, jnp.where(forward == 1, step_size, -step_size), previous)
        square, cross = momentum_products(phase.momentum, previous.momentum)
        energy = phase.potential + 0.5 * square
        error = energy - tree.energy_start
        divergent = is_divergent(error + tree.threshold)
        log_weight = jnp.where(divergent, -jnp.inf, self.selection.log_weight(tree.threshold, error))
        log_subtree = jnp.logaddexp(subtree.log_weight, log_weight)
        probability = jnp.nan_to_num(self.selection.inside(log_weight, log_subtree), nan=0.0)
        uniform, _ = uniform_pair(tree.uniform_key, subtree.num_states, error.dtype)
        leaf = Draw(position=phase.position, gradient=phase.gradient, potential=phase.potential, energy=energy)
        growth = Growth(
            previous=previous,
            phase=phase,
            energy=energy,
            square=square,
            cross=cross,
            far=tree.far[1],
            forward=forward,
            metric=metric,
        )
        memory = self.criterion.extend(subtree.memory, lax.population_count(number), growth)
        turned, turned_inside = self._closed_blocks(number, memory, growth)
        is_largest = divergent | (jnp.abs(error) > jnp.abs(subtree.max_energy_error))
        return Subtree(
            end=phase.point,
            draw=_where(uniform < probability, leaf, subtree.draw),
            memory=memory,
            log_weight=log_subtree,
            rejected=divergent | turned_inside,
            num_states=number,
            sum_acceptance=subtree.sum_acceptance + jnp.where(divergent, 0.0, jnp.minimum(1.0, jnp.exp(-error))),
            max_energy_error=jnp.where(is_largest, error, subtree.max_energy_error),
            turned=turned,
            divergent=divergent,
            nonfinite=~jnp.isfinite(error),
            leaf_probability=probability,
        )

    def _closed_blocks(self, number: Count, memory: Any, growth: Growth) -> tuple[Flag, Flag]:
        """Evaluate the criterion on each subtree that this leaf completes, innermost first, and last on the whole tree.

        The innermost, a pair, is not evaluated if the criterion already knows the answer. Returns whether a subtree has
        turned, and whether it lies inside the new subtree.
        """
        innermost = lax.population_count(number) - 1
        below = innermost - _trailing_ones(number)  # the outermost completed subtree is the row after this one
        row, turned = innermost, jnp.zeros((), bool)
        pair = self.criterion.turned_pair(memory)
        if pair is not None:
            is_pair = below < innermost
            row, turned = innermost - is_pair, pair & is_pair

        def pending(carry: tuple[Count, Count, Flag]) -> Flag:
            row, below, turned = carry
            return (row > below) & ~turned

        def ask(carry: tuple[Count, Count, Flag]) -> tuple[Count, Count, Flag]:
            row, below, _ = carry
            return row - 1, below, self.criterion.turned(memory, row, growth)

        row, _, turned = packed_while_loop(pending, ask, (row, below, turned))
        return turned, turned & (row >= 0)

    def _merge(self, tree: DoublingTrajectory, subtree: Subtree) -> DoublingTrajectory:
        """Put the subtree back into the tree; if it is complete, merge it unless rejected, and begin the next one."""
        closed = ~_is_growing(tree, subtree)
        merged = closed & ~subtree.rejected
        probability = jnp.nan_to_num(self.selection.across(subtree.log_weight, tree.log_weight), nan=0.0)
        probability = jnp.where(merged, probability, 0.0)
        _, uniform = uniform_pair(tree.uniform_key, subtree.num_states - 1, probability.dtype)
        swap = uniform < probability
        depth = tree.depth + merged
        turns_round = merged & (_direction(tree.directions, depth) != _direction(tree.directions, tree.depth))
        end = _where(turns_round, Point.of(tree.far), subtree.end)
        log_weight = jnp.where(closed, -jnp.inf, subtree.log_weight)
        return replace(
            tree,
            subtree=replace(subtree, end=end, log_weight=log_weight),
            far=jnp.where(turns_round, subtree.end.stacked, tree.far),
            draw=_where(swap, subtree.draw, tree.draw),
            log_weight=jnp.where(merged, jnp.logaddexp(tree.log_weight, subtree.log_weight), tree.log_weight),
            depth=depth,
            finished=subtree.divergent | subtree.turned | (depth == self.max_doublings),
            moved=tree.moved | swap,
            merge_probability=probability,
        )


def _is_growing(tree: DoublingTrajectory, subtree: Subtree) -> Flag:
    """Whether the subtree needs another leaf."""
    return (subtree.num_states + 1 < (2 << tree.depth)) & ~subtree.divergent & ~subtree.turned


def _where(condition: Flag, new: Any, old: Any) -> Any:
    """`jnp.where` on records."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), new, old)


def _direction(directions: Array, depth: Count) -> Count:
    """0 backward, 1 forward: the bit of this doubling."""
    return ((directions >> depth.astype(jnp.uint32)) & 1).astype(jnp.int32)


def _trailing_ones(number: Count) -> Count:
    """Number of subtrees completed by the state with this number: trailing ones of its binary form."""
    return lax.population_count(number & ~(number + 1))
