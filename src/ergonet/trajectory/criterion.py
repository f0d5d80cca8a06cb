"""Termination criteria of doubling trajectories.

A trajectory extends a tree of 2^d states by a new subtree of 2^d states, one leaf at a time. A criterion is evaluated
on subtrees: the sets of 2^k neighboring leaves inside the new subtree, and finally the whole tree. It keeps one row of
memory per open subtree. Row 0 is the tree before the extension; rows 1, 2, ... are the subtrees that are open inside
the new one, outermost first. Leaf n writes row 1 + (number of ones in the binary form of n), which no open subtree uses
any more. Memory is therefore O(depth) vectors.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ergonet._checks import is_number
from ergonet._errors import SettingError
from ergonet._numbers import AbstractSettings, like, plain, real
from ergonet._types import Array, Count, Flag, Float, Position, Scalar
from ergonet.hamiltonian.energy import kinetic_energy, total_energy
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import AbstractPoint, Phase


class Growth(eqx.Module):
    """What a criterion sees after a tree has grown by one leaf; fields that it does not read cost nothing.

    Attributes:
        previous: the state before the leaf.
        phase: the leaf.
        energy: H of the leaf.
        square: |r|^2 of the standardized momentum r of the leaf.
        cross: r'r_previous, the inner product with the momentum of the previous state.
        far: standardized momentum at the other end of the tree, the first state of row 0.
        forward: 1 if the tree grows forward in time, 0 if it grows backward. Momenta always point forward.
        metric: the metric of the kinetic energy.
    """

    previous: AbstractPoint
    phase: Phase
    energy: Scalar
    square: Scalar
    cross: Scalar
    far: Position
    forward: Count
    metric: AbstractMetric


class AbstractCriterion(AbstractSettings):
    """Decides whether a subtree of neighboring states has made a U-turn."""

    @abc.abstractmethod
    def begin(self, num_rows: int, start: Phase, metric: AbstractMetric) -> Any:
        """Memory with `num_rows` rows for a tree with one state."""

    @abc.abstractmethod
    def extend(self, memory: Any, row: Count, growth: Growth) -> Any:
        """Add the leaf and store it as the first state of a subtree at `row`."""

    @abc.abstractmethod
    def turned(self, memory: Any, row: Count, growth: Growth) -> Flag:
        """Whether the subtree that opened at `row` and ends at the leaf has turned.

        Its second half opened at `row + 1`. The leaf must have been added.
        """

    def turned_pair(self, memory: Any) -> Flag | None:
        """Whether the last two leaves have turned, if the memory contains the answer; None: `turned` is called.

        Every second leaf closes a subtree of two leaves, so a cheap answer here halves the number of evaluations. It is
        read only if both leaves belong to the same new subtree, or if they are the whole tree.
        """
        return None


class OriginalMemory(eqx.Module):
    """Position and momentum p at both ends of the tree, and at the first state of each open subtree."""

    ends: Float[Array, "2 2 dim"]  # [backward | forward, position | momentum, dim]
    rows: Float[Array, "row 2 dim"]


class Original(AbstractCriterion):
    """The original no-U-turn criterion: the ends of a subtree approach each other.

    With (q-, p-) and (q+, p+) the first and the last state of a subtree in time, and p ~ N(0, M), it has turned if

        (q+ - q-)'p- < 0    or
        (q+ - q-)'p+ < 0.

    Distances are Euclidean in the coordinates under every metric; with a dense metric, each leaf costs a triangular
    solve. Source: HoffmanGelman2014, equation 9; Ask2022, equation 5.7 and Algorithms 5.1 and 5.2 (Algorithm 5.1
    branches on s' where v = -1 is meant).
    """

    def begin(self, num_rows: int, start: Phase, metric: AbstractMetric) -> OriginalMemory:
        state = jnp.stack([start.position, metric.textbook_momentum(start.momentum)])
        rows = jnp.zeros((num_rows, *state.shape), state.dtype)
        return OriginalMemory(ends=jnp.stack([state, state]), rows=rows)

    def extend(self, memory: OriginalMemory, row: Count, growth: Growth) -> OriginalMemory:
        momentum = growth.metric.textbook_momentum(growth.phase.momentum)
        state = jnp.stack([growth.phase.position, momentum])
        return OriginalMemory(
            ends=lax.dynamic_update_index_in_dim(memory.ends, state, growth.forward, axis=0),
            rows=lax.dynamic_update_index_in_dim(memory.rows, state, row, axis=0),
        )

    def turned(self, memory: OriginalMemory, row: Count, growth: Growth) -> Flag:
        opened = lax.dynamic_index_in_dim(memory.rows, row, keepdims=False)
        far = lax.dynamic_index_in_dim(memory.ends, 1 - growth.forward, keepdims=False)
        first = jnp.where(row == 0, far, opened)
        last = lax.dynamic_index_in_dim(memory.ends, growth.forward, keepdims=False)
        along = last[0] - first[0]  # in the direction of growth
        products = jnp.stack([first[1], last[1]]) @ jnp.where(growth.forward == 1, along, -along)
        return jnp.any(products < 0)


class GeneralisedMemory(eqx.Module):
    """Running sum of momenta; for each open subtree, its first momentum, the momentum before it, and the sum up to it.

    Also the squared length of the last momentum, and whether the last two states have turned.
    """

    total: Position
    rows: Float[Array, "row 3 dim"]
    square: Scalar
    pair: Flag


class Generalized(AbstractCriterion):
    """The generalized no-U-turn criterion, valid for every metric, with Stan's two additional checks.

    With p- and p+ the momenta of the first and the last state of a subtree, and rho the sum of its momenta, it has
    turned if

        (M^-1 p-)'rho <= 0    or
        (M^-1 p+)'rho <= 0.

    The additional checks apply the same test to the left half extended by the first momentum of the right half, and to
    the right half extended by the last momentum of the left half. For two states all these tests coincide: in
    standardized momenta, min(|r-|^2, |r+|^2) + r-'r+ <= 0. Source: Betancourt2017, appendix A.4.2; Lau2018, Algorithm 6
    (which has q+ - q- in place of rho); Stan 2.21 and later.
    """

    def begin(self, num_rows: int, start: Phase, metric: AbstractMetric) -> GeneralisedMemory:
        momentum = start.momentum
        rows = jnp.zeros((num_rows, 3, momentum.size), momentum.dtype)
        square = 2 * kinetic_energy(momentum)
        return GeneralisedMemory(total=momentum, rows=rows, square=square, pair=jnp.zeros((), bool))

    def extend(self, memory: GeneralisedMemory, row: Count, growth: Growth) -> GeneralisedMemory:
        momentum = growth.phase.momentum
        total = memory.total + momentum
        record = jnp.stack([momentum, growth.previous.momentum, total])
        rows = lax.dynamic_update_index_in_dim(memory.rows, record, row, axis=0)
        pair = jnp.minimum(memory.square, growth.square) + growth.cross <= 0
        return GeneralisedMemory(total=total, rows=rows, square=growth.square, pair=pair)

    def turned_pair(self, memory: GeneralisedMemory) -> Flag:
        return memory.pair

    def turned(self, memory: GeneralisedMemory, row: Count, growth: Growth) -> Flag:
        outer = lax.dynamic_index_in_dim(memory.rows, row, keepdims=False)
        inner = lax.dynamic_index_in_dim(memory.rows, row + 1, keepdims=False)
        first, middle, previous = jnp.where(row == 0, growth.far, outer[0]), inner[0], inner[1]
        before, before_middle = outer[2] - outer[0], inner[2] - inner[0]
        last = growth.phase.momentum
        whole = memory.total - before
        left = before_middle - before + middle
        right = memory.total - before_middle + previous
        # One sum for all: six dot products would be six loops, and a matrix product costs more to call than to compute.
        products = [whole * first, whole * last, left * first, left * middle, right * previous, right * last]
        return jnp.any(jnp.sum(jnp.stack(products), axis=1) <= 0)


class ExhaustiveMemory(eqx.Module):
    """Energy at the start; log weight and weighted mean of dG/dt of every open subtree."""

    energy_start: Scalar
    log_weights: Float[Array, "row"]
    means: Float[Array, "row"]


class Exhaustive(AbstractCriterion):
    """The exhaustive termination criterion: the mean rate of change of the virial has become small.

    With the virial G = q'p, and sums over the states z of a subtree, the subtree is exhausted if

        |sum e^-H(z) dG/dt(z)| / sum e^-H(z) < delta,
        dG/dt = 2 K(p) - q'grad U(q).

    Single states are not tested. Source: Betancourt2016; Lau2018, Algorithms 7, 11 and 13 (without their division by
    the number of states, since the weights already normalize).

    Attributes:
        delta: threshold, above 0; smaller values give longer trajectories.
    """

    delta: float = eqx.field(converter=real, default=0.1)

    def __check_init__(self):
        if not is_number(self.delta) or not 0 < self.delta < math.inf:
            raise SettingError(f"`Exhaustive(delta=...)` must be a finite number above 0, got {plain(self.delta)!r}.")

    def begin(self, num_rows: int, start: Phase, metric: AbstractMetric) -> ExhaustiveMemory:
        empty = jnp.full((num_rows,), -jnp.inf, start.potential.dtype)
        rate = _virial_rate(start, 2 * kinetic_energy(start.momentum))
        return ExhaustiveMemory(
            energy_start=total_energy(start),
            log_weights=empty.at[0].set(0.0),
            means=jnp.zeros((num_rows,), start.potential.dtype).at[0].set(rate),
        )

    def extend(self, memory: ExhaustiveMemory, row: Count, growth: Growth) -> ExhaustiveMemory:
        index = jnp.arange(memory.means.size)
        kept = jnp.where(index < row, memory.log_weights, -jnp.inf)  # subtrees inside the one that opens are closed
        log_weight = memory.energy_start - growth.energy
        totals = jnp.where(index <= row, jnp.logaddexp(kept, log_weight), -jnp.inf)
        share = jnp.where(index <= row, jnp.exp(log_weight - totals), 0.0)
        rate = _virial_rate(growth.phase, growth.square)
        return ExhaustiveMemory(
            energy_start=memory.energy_start,
            log_weights=totals,
            means=jnp.where(index <= row, memory.means + share * (rate - memory.means), 0.0),
        )

    def turned(self, memory: ExhaustiveMemory, row: Count, growth: Growth) -> Flag:
        return jnp.abs(lax.dynamic_index_in_dim(memory.means, row, keepdims=False)) < like(self.delta, memory.means)


def _virial_rate(phase: Phase, square: Scalar) -> Scalar:
    """dG/dt = 2 K - q'grad U = |r|^2 - q'grad U."""
    return square - jnp.dot(phase.position, phase.gradient)
