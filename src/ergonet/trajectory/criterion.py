"""When a doubling trajectory ends.

A trajectory extends a tree of 2^d states by a new subtree of 2^d states, one leaf at a time. A criterion looks
at *blocks*: the sets of 2^k neighbouring leaves that form the subtrees of the new subtree, and finally the whole
tree. It keeps one row of memory per open block. Row 0 is the tree as it was before the extension; rows 1, 2, ...
are the blocks that are open inside the new subtree, outermost first (leaf n writes the row one plus the number of
ones in the binary form of n, which no open block needs any more). So memory is O(depth) vectors.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ergonet._errors import SettingError
from ergonet._types import Array, Count, Flag, Float, Position, Scalar
from ergonet.hamiltonian.energy import kinetic_energy, total_energy
from ergonet.hamiltonian.phase import Phase


class AbstractCriterion(eqx.Module):
    """Decides whether a block of neighbouring states has turned."""

    @abc.abstractmethod
    def begin(self, num_rows: int, start: Phase) -> Any:
        """Memory of a tree with one state, with `num_rows` rows."""

    @abc.abstractmethod
    def extend(self, memory: Any, row: Count, previous: Phase, phase: Phase) -> Any:
        """Add a leaf that follows `previous`; remember it as the first of a block at `row`."""

    @abc.abstractmethod
    def turned(self, memory: Any, row: Count, far: Position, phase: Phase) -> Flag:
        """Whether the block that opened at `row` and ends at `phase` has turned.

        The block's second half opened at `row + 1`. `far` is the momentum of the tree's other end, the first
        state of row 0.
        """


class GeneralisedMemory(eqx.Module):
    """Running sum of momenta, and for each open block its first momentum, the one before it, and the sum before it."""

    total: Position
    rows: Float[Array, "row 3 dim"]


class Generalised(AbstractCriterion):
    """No-U-turn in the form that holds for every metric, with Stan's two extra checks.

    With rho the sum of the momenta of a block, end when (M^-1 p-)'rho <= 0 or (M^-1 p+)'rho <= 0. The same
    test is made on the left half with the first momentum of the right half, and on the right half with the last
    momentum of the left half. Source: Betancourt 2017, appendix A.4.2; Lau 2018, Algorithm 6; Stan 2.21+.
    """

    def begin(self, num_rows: int, start: Phase) -> GeneralisedMemory:
        dim = start.momentum.size
        rows = jnp.zeros((num_rows, 3, dim), start.momentum.dtype)
        return GeneralisedMemory(total=start.momentum, rows=rows)

    def extend(self, memory: GeneralisedMemory, row: Count, previous: Phase, phase: Phase) -> GeneralisedMemory:
        record = jnp.stack([phase.momentum, previous.momentum, memory.total])
        rows = lax.dynamic_update_index_in_dim(memory.rows, record, row, axis=0)
        return GeneralisedMemory(total=memory.total + phase.momentum, rows=rows)

    def turned(self, memory: GeneralisedMemory, row: Count, far: Position, phase: Phase) -> Flag:
        outer = lax.dynamic_index_in_dim(memory.rows, row, keepdims=False)
        inner = lax.dynamic_index_in_dim(memory.rows, row + 1, keepdims=False)
        first = jnp.where(row == 0, far, outer[0])
        before = outer[2]
        middle, previous, before_middle = inner[0], inner[1], inner[2]
        last = phase.momentum
        whole = memory.total - before
        left = before_middle - before + middle
        right = memory.total - before_middle + previous
        # One product of all with all, half of which is not needed, is cheaper than six dots.
        products = jnp.stack([whole, left, right]) @ jnp.stack([first, last, middle, previous]).T
        (at_first, at_last, _, _), (left_first, _, left_middle, _), (_, right_last, _, right_previous) = products
        opposed = jnp.stack([at_first, at_last, left_first, left_middle, right_previous, right_last])
        return jnp.any(opposed <= 0)


class ExhaustiveMemory(eqx.Module):
    """Starting energy; log weight and weighted mean of the virial of every open block."""

    energy_start: Scalar
    log_weights: Float[Array, "row"]
    means: Float[Array, "row"]


class Exhaustive(AbstractCriterion):
    """Exhaustion of the virial: the trajectory has seen enough of its level set.

    With the virial G = q'p, dG/dt = 2 K(p) - q'grad U(q); end when its mean over a block, weighted by e^-H, is below
    `delta` in absolute value. Single states are never tested. Source: Betancourt 2016; Lau 2018, Algorithms 7, 11, 13
    (whose division by the number of states is left out: the weights normalise already).

    Attributes:
        delta: above 0.
    """

    delta: float = eqx.field(static=True, default=0.1)

    def __check_init__(self):
        if isinstance(self.delta, bool) or not isinstance(self.delta, int | float) or not 0 < self.delta < math.inf:
            raise SettingError(f"`Exhaustive(delta=...)` must be a finite number above 0, got {self.delta!r}.")

    def begin(self, num_rows: int, start: Phase) -> ExhaustiveMemory:
        empty = jnp.full((num_rows,), -jnp.inf, start.potential.dtype)
        return ExhaustiveMemory(
            energy_start=total_energy(start),
            log_weights=empty.at[0].set(0.0),
            means=jnp.zeros((num_rows,), start.potential.dtype).at[0].set(_virial_rate(start)),
        )

    def extend(self, memory: ExhaustiveMemory, row: Count, previous: Phase, phase: Phase) -> ExhaustiveMemory:
        index = jnp.arange(memory.means.size)
        kept = jnp.where(index < row, memory.log_weights, -jnp.inf)  # blocks inside the one that opens are over
        log_weight = memory.energy_start - total_energy(phase)
        totals = jnp.where(index <= row, jnp.logaddexp(kept, log_weight), -jnp.inf)
        share = jnp.where(index <= row, jnp.exp(log_weight - totals), 0.0)
        return ExhaustiveMemory(
            energy_start=memory.energy_start,
            log_weights=totals,
            means=jnp.where(index <= row, memory.means + share * (_virial_rate(phase) - memory.means), 0.0),
        )

    def turned(self, memory: ExhaustiveMemory, row: Count, far: Position, phase: Phase) -> Flag:
        return jnp.abs(lax.dynamic_index_in_dim(memory.means, row, keepdims=False)) < self.delta


def _virial_rate(phase: Phase) -> Scalar:
    """dG/dt = 2 K - q'grad U."""
    return 2 * kinetic_energy(phase.momentum) - jnp.dot(phase.position, phase.gradient)
