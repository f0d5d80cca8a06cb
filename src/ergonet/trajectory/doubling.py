"""The doubling trajectory: a tree of states that grows by its own size, in O(depth) memory.

Starting from one state, each doubling draws a direction and extends the tree by a subtree of its own size, one
leapfrog step at a time (`advance` costs one gradient). The criterion is asked at every block of the subtree that
closes and at the whole tree after a doubling; the selection keeps one running draw per tree. No-U-turn, exhaustive
and stochastic-gradient trajectories are settings of it. Sources: Hoffman and Gelman 2014; Betancourt 2017, appendix
A; Lau 2018, section 2.3.

States are numbered from the start, which is 0. Doubling d adds the numbers from 2^d to 2^(d + 1) - 1, so that the
binary form of a number says which blocks it opens and closes. What a leaf changes is a record of its own (`Subtree`):
a loop over the leaves of a subtree carries nothing else.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Count, Flag, Float, Position, PRNGKey, Scalar, UInt
from ergonet.hamiltonian.energy import is_divergent, momentum_products, total_energy
from ergonet.hamiltonian.integrator import AbstractIntegrator
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase
from ergonet.models.target import Target
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
    """What a leaf changes: the subtree under construction, and what is known of all leaves."""

    end: Phase  # the last leaf
    draw: Draw
    memory: Any
    log_weight: Scalar
    rejected: Flag  # it has diverged, or a block inside it has turned
    num_states: Count  # of the trajectory, the start left out
    sum_acceptance: Scalar
    max_energy_error: Scalar
    turned: Flag
    divergent: Flag
    nonfinite: Flag
    leaf_probability: Scalar  # of the last `inside` decision, for exact enumeration


class DoublingTrajectory(eqx.Module):
    """A tree under construction. Directions and uniforms are data: `directions` holds one bit per doubling."""

    subtree: Subtree
    far: Float[Array, "vector dim"]  # vectors of the end that does not grow, in one buffer: one task to copy them
    draw: Draw
    directions: UInt[Array, ""]
    uniform_key: UInt[Array, "2"]
    energy_start: Scalar
    threshold: Scalar
    log_weight: Scalar
    depth: Count
    finished: Flag
    moved: Flag
    merge_probability: Scalar  # of the last `across` decision; 0 where no subtree was merged


class Doubling(eqx.Module):
    """A doubling trajectory with a criterion, a selection and an integrator as parts."""

    criterion: AbstractCriterion
    selection: AbstractSelection
    integrator: AbstractIntegrator
    max_doublings: int = eqx.field(static=True)

    def begin(
        self, key: PRNGKey, metric: AbstractMetric, start: Phase, directions: UInt[Array, ""] | None = None
    ) -> DoublingTrajectory:
        """A tree of one state. `directions` (bit d = 1: doubling d goes forward) is drawn unless given.

        The key may be the one that the momentum was drawn with (`uniforms.py`).
        """
        words = key_words(key)
        bits, uniform = bits_and_uniform(words, start.position.dtype)
        energy = total_energy(start)
        draw = Draw(position=start.position, gradient=start.gradient, potential=start.potential, energy=energy)
        threshold = self.selection.threshold(uniform, energy)
        zero, none, no = jnp.zeros_like(energy), jnp.zeros((), jnp.int32), jnp.zeros((), bool)
        subtree = Subtree(
            end=start,
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
            far=jnp.stack(start.vectors),
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
        self, target: Target, metric: AbstractMetric, step_size: Scalar, tree: DoublingTrajectory
    ) -> DoublingTrajectory:
        """Add one leaf, and merge the subtree where that completes it."""
        return self._merge(tree, self._grow(target, metric, step_size, tree, tree.subtree))

    def complete(
        self, target: Target, metric: AbstractMetric, step_size: Scalar, tree: DoublingTrajectory
    ) -> DoublingTrajectory:
        """`advance` to the end, as a loop over subtrees around one over their leaves."""

        def double(tree: DoublingTrajectory) -> DoublingTrajectory:
            subtree = packed_while_loop(
                lambda subtree: _is_growing(tree, subtree),
                lambda subtree: self._grow(target, metric, step_size, tree, subtree),
                tree.subtree,
            )
            return self._merge(tree, subtree)

        return packed_while_loop(lambda tree: ~tree.finished, double, tree)

    def _grow(
        self, target: Target, metric: AbstractMetric, step_size: Scalar, tree: DoublingTrajectory, subtree: Subtree
    ) -> Subtree:
        """The subtree with one more leaf; the blocks that this closes are tested."""
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
            end=phase,
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
        """Ask the criterion at each block that this leaf closes, innermost first; the whole tree comes last.

        The innermost, a pair, needs no question where the criterion has its answer ready. Returns whether a block has
        turned, and whether that lies inside the subtree.
        """
        innermost = lax.population_count(number) - 1
        below = innermost - _trailing_ones(number)  # the outermost that closes is the row after this one
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
        """The tree with this subtree: where it grows no more, merged unless rejected, and the next one begun."""
        closed = ~_is_growing(tree, subtree)
        merged = closed & ~subtree.rejected
        probability = jnp.nan_to_num(self.selection.across(subtree.log_weight, tree.log_weight), nan=0.0)
        probability = jnp.where(merged, probability, 0.0)
        _, uniform = uniform_pair(tree.uniform_key, subtree.num_states - 1, probability.dtype)
        swap = uniform < probability
        depth = tree.depth + merged
        turns_round = merged & (_direction(tree.directions, depth) != _direction(tree.directions, tree.depth))
        position, momentum, gradient, *force = tree.far
        other_end = Phase(position, momentum, subtree.end.potential, gradient, *force)  # no step reads a potential
        end = _where(turns_round, other_end, subtree.end)
        log_weight = jnp.where(closed, -jnp.inf, subtree.log_weight)
        return DoublingTrajectory(
            subtree=eqx.tree_at(lambda one: (one.end, one.log_weight), subtree, (end, log_weight)),
            far=jnp.where(turns_round, jnp.stack(subtree.end.vectors), tree.far),
            draw=_where(swap, subtree.draw, tree.draw),
            directions=tree.directions,
            uniform_key=tree.uniform_key,
            energy_start=tree.energy_start,
            threshold=tree.threshold,
            log_weight=jnp.where(merged, jnp.logaddexp(tree.log_weight, subtree.log_weight), tree.log_weight),
            depth=depth,
            finished=subtree.divergent | subtree.turned | (depth == self.max_doublings),
            moved=tree.moved | swap,
            merge_probability=probability,
        )


def _is_growing(tree: DoublingTrajectory, subtree: Subtree) -> Flag:
    """Whether the subtree wants another leaf."""
    return (subtree.num_states + 1 < (2 << tree.depth)) & ~subtree.divergent & ~subtree.turned


def _where(condition: Flag, new: Any, old: Any) -> Any:
    """`jnp.where` on records."""
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), new, old)


def _direction(directions: Array, depth: Count) -> Count:
    """0 backward, 1 forward: the bit of this doubling."""
    return ((directions >> depth.astype(jnp.uint32)) & 1).astype(jnp.int32)


def _trailing_ones(number: Count) -> Count:
    """How many blocks close at the state of this number: the ones at the end of its binary form."""
    return lax.population_count(number & ~(number + 1))
