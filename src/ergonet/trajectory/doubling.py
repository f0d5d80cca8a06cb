"""The doubling trajectory: a tree of states that grows by its own size, in O(depth) memory.

Starting from one state, each doubling draws a direction and extends the tree by a subtree of its own size, one
leapfrog step at a time (`advance` costs one gradient). The criterion is asked at every block of the subtree that
closes and at the whole tree after a doubling; the selection keeps one running draw per tree. No-U-turn, exhaustive
and stochastic-gradient trajectories are settings of it. Sources: Hoffman and Gelman 2014; Betancourt 2017, appendix
A; Lau 2018, section 2.3.

Vectors live in buffers that are written in place: the two ends `[2, 3, dim]` by direction, the proposals
`[3, 2, dim]` where tree and subtree trade places by index and the third row takes rejected writes.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Count, Flag, Float, PRNGKey, Scalar, UInt
from ergonet.hamiltonian.energy import is_divergent, total_energy
from ergonet.hamiltonian.integrator import AbstractIntegrator
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase
from ergonet.models.target import Target
from ergonet.trajectory.criterion import AbstractCriterion, Growth
from ergonet.trajectory.selection import AbstractSelection
from ergonet.trajectory.uniforms import bits_and_uniform, key_words, uniform_pair


class DoublingTrajectory(eqx.Module):
    """A tree under construction. Directions and uniforms are data: `directions` holds one bit per doubling."""

    current: Float[Array, "3 dim"]  # [position | momentum | gradient, dim] of the end that grows next
    ends: Float[Array, "2 3 dim"]  # the same of both ends: [backward | forward, ...]
    proposals: Float[Array, "3 2 dim"]  # [row, position | gradient, dim]
    proposal_scalars: Float[Array, "3 2"]  # [row, potential | energy]
    tree_row: Count
    subtree_row: Count
    memory: Any
    directions: UInt[Array, ""]
    uniform_key: UInt[Array, "2"]
    energy_start: Scalar
    threshold: Scalar
    log_weight_tree: Scalar
    log_weight_subtree: Scalar
    depth: Count
    leaf: Count
    num_states: Count
    sum_acceptance: Scalar
    energy_error: Scalar
    finished: Flag
    moved: Flag
    turned: Flag
    divergent: Flag
    nonfinite: Flag
    leaf_probability: Scalar  # of the last `inside` decision, for exact enumeration
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
        directions = bits if directions is None else directions
        energy = total_energy(start)
        dtype = start.position.dtype
        end = jnp.stack([start.position, start.momentum, start.gradient])
        proposal = jnp.stack([start.position, start.gradient])
        threshold = self.selection.threshold(uniform, energy)
        zero, one = jnp.zeros((), dtype), jnp.ones((), jnp.int32)
        return DoublingTrajectory(
            current=end,
            ends=jnp.stack([end, end]),
            proposals=jnp.stack([proposal, proposal, proposal]),
            proposal_scalars=jnp.tile(jnp.stack([start.potential, energy]), (3, 1)),
            tree_row=0 * one,
            subtree_row=one,
            memory=self.criterion.begin(self.max_doublings + 1, start, metric),
            directions=directions,
            uniform_key=words,
            energy_start=energy,
            threshold=threshold,
            log_weight_tree=self.selection.log_weight(threshold, zero),
            log_weight_subtree=jnp.full((), -jnp.inf, dtype),
            depth=0 * one,
            leaf=0 * one,
            num_states=0 * one,
            sum_acceptance=zero,
            energy_error=zero,
            finished=jnp.zeros((), bool),
            moved=jnp.zeros((), bool),
            turned=jnp.zeros((), bool),
            divergent=jnp.zeros((), bool),
            nonfinite=jnp.zeros((), bool),
            leaf_probability=zero,
            merge_probability=zero,
        )

    def advance(
        self, target: Target, metric: AbstractMetric, step_size: Scalar, tree: DoublingTrajectory
    ) -> DoublingTrajectory:
        """Add one leaf; close the blocks and merge the subtree that it completes."""
        forward = _direction(tree.directions, tree.depth)
        position, momentum, gradient = tree.current
        # A step needs no potential to start from, and no criterion reads that of the leaf before.
        previous = Phase(position=position, momentum=momentum, potential=tree.energy_start, gradient=gradient)
        signed = jnp.where(forward == 1, step_size, -step_size)
        phase = self.integrator.step(target, metric, signed, previous)
        error = total_energy(phase) - tree.energy_start
        divergent = is_divergent(error + tree.threshold)
        leaf_uniform, merge_uniform = uniform_pair(tree.uniform_key, tree.num_states, error.dtype)
        log_weight = jnp.where(divergent, -jnp.inf, self.selection.log_weight(tree.threshold, error))
        log_subtree = jnp.logaddexp(tree.log_weight_subtree, log_weight)
        leaf_probability = jnp.nan_to_num(self.selection.inside(log_weight, log_subtree), nan=0.0)
        proposals, scalars = self._propose(tree, phase, leaf_uniform < leaf_probability)

        opened = 1 + lax.population_count(tree.leaf)
        complete = tree.leaf + 1 == (1 << tree.depth)
        end = jnp.stack([phase.position, phase.momentum, phase.gradient])
        ends = lax.dynamic_update_index_in_dim(tree.ends, end, forward, axis=0)
        far = lax.dynamic_index_in_dim(ends, 1 - forward, keepdims=False)[1]
        growth = Growth(previous=previous, phase=phase, far=far, forward=forward, metric=metric)
        memory = self.criterion.extend(tree.memory, opened, growth)
        turned_subtree, turned_tree = self._closed_blocks(tree.leaf, memory, growth, complete)

        merge = complete & ~divergent & ~turned_subtree
        merge_probability = jnp.nan_to_num(self.selection.across(log_subtree, tree.log_weight_tree), nan=0.0)
        merge_probability = jnp.where(merge, merge_probability, 0.0)
        swap = merge_uniform < merge_probability
        depth = tree.depth + merge
        return DoublingTrajectory(
            current=lax.dynamic_index_in_dim(ends, _direction(tree.directions, depth), keepdims=False),
            ends=ends,
            proposals=proposals,
            proposal_scalars=scalars,
            tree_row=jnp.where(swap, tree.subtree_row, tree.tree_row),
            subtree_row=jnp.where(swap, tree.tree_row, tree.subtree_row),
            memory=memory,
            directions=tree.directions,
            uniform_key=tree.uniform_key,
            energy_start=tree.energy_start,
            threshold=tree.threshold,
            log_weight_tree=jnp.where(merge, jnp.logaddexp(tree.log_weight_tree, log_subtree), tree.log_weight_tree),
            log_weight_subtree=jnp.where(complete, -jnp.inf, log_subtree),
            depth=depth,
            leaf=jnp.where(complete, 0, tree.leaf + 1),
            num_states=tree.num_states + 1,
            sum_acceptance=tree.sum_acceptance + jnp.where(divergent, 0.0, jnp.minimum(1.0, jnp.exp(-error))),
            energy_error=jnp.where(divergent | (jnp.abs(error) > jnp.abs(tree.energy_error)), error, tree.energy_error),
            finished=divergent | turned_subtree | turned_tree | (depth == self.max_doublings),
            moved=tree.moved | swap,
            turned=turned_subtree | turned_tree,
            divergent=divergent,
            nonfinite=~jnp.isfinite(error),
            leaf_probability=leaf_probability,
            merge_probability=merge_probability,
        )

    def _propose(self, tree: DoublingTrajectory, phase: Phase, taken: Flag) -> tuple[Array, Array]:
        """Write the leaf over the subtree's draw, or over the row that nobody reads."""
        row = jnp.where(taken, tree.subtree_row, 3 - tree.tree_row - tree.subtree_row)
        record = jnp.stack([phase.position, phase.gradient])
        scalars = jnp.stack([phase.potential, total_energy(phase)])
        return (
            lax.dynamic_update_index_in_dim(tree.proposals, record, row, axis=0),
            lax.dynamic_update_index_in_dim(tree.proposal_scalars, scalars, row, axis=0),
        )

    def _closed_blocks(self, leaf: Count, memory: Any, growth: Growth, complete: Flag) -> tuple[Flag, Flag]:
        """Ask the criterion at each block that this leaf closes, innermost first, then at the whole tree.

        The innermost, a pair, needs no question where the criterion has its answer ready.
        """
        innermost = lax.population_count(leaf)
        num_closed = _trailing_ones(leaf)
        num_checks = num_closed + complete

        def pending(carry: tuple[Count, Flag]) -> Flag:
            check, turned = carry
            return (check < num_checks) & ~turned

        def ask(carry: tuple[Count, Flag]) -> tuple[Count, Flag]:
            check, _ = carry
            row = jnp.where(check < num_closed, innermost - check, 0)
            return check + 1, self.criterion.turned(memory, row, growth)

        first, turned = jnp.zeros_like(num_checks), jnp.zeros((), bool)
        pair = self.criterion.turned_pair(memory)
        if pair is not None:
            first = jnp.minimum(num_closed, 1)
            turned = pair & (num_closed > 0)
        checks, turned = lax.while_loop(pending, ask, (first, turned))
        at_tree = checks > num_closed
        return turned & ~at_tree, turned & at_tree

    def chosen(self, tree: DoublingTrajectory) -> tuple[Array, Scalar, Array, Scalar]:
        """Position, potential, gradient and energy of the state that the trajectory has drawn."""
        record = lax.dynamic_index_in_dim(tree.proposals, tree.tree_row, keepdims=False)
        scalars = lax.dynamic_index_in_dim(tree.proposal_scalars, tree.tree_row, keepdims=False)
        return record[0], scalars[0], record[1], scalars[1]


def _direction(directions: Array, depth: Count) -> Count:
    """0 backward, 1 forward: the bit of this doubling."""
    return ((directions >> depth.astype(jnp.uint32)) & 1).astype(jnp.int32)


def _trailing_ones(number: Count) -> Count:
    """How many blocks close at this leaf: the ones at the end of its binary form."""
    return lax.population_count(number & ~(number + 1))
