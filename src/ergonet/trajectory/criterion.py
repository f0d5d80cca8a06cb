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

from ergonet._checks import is_number
from ergonet._errors import SettingError, suggest
from ergonet._types import Array, Count, Flag, Float, Position, Scalar
from ergonet.hamiltonian.energy import kinetic_energy, total_energy
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase


class Growth(eqx.Module):
    """What a criterion sees of a tree that has just grown by one leaf; what it leaves alone costs nothing.

    Attributes:
        previous: the state that the leaf follows.
        phase: the leaf.
        energy: H of the leaf.
        square: |w|^2 of its standardised momentum.
        cross: w'w_previous, with that of the state that it follows.
        far: standardised momentum of the tree's other end, the first state of row 0.
        forward: 1 where the tree grows forward in time, 0 where it grows backward. Momenta always point forward.
        metric: that of the kinetic energy.
    """

    previous: Phase
    phase: Phase
    energy: Scalar
    square: Scalar
    cross: Scalar
    far: Position
    forward: Count
    metric: AbstractMetric


class AbstractCriterion(eqx.Module):
    """Decides whether a block of neighbouring states has turned."""

    @abc.abstractmethod
    def begin(self, num_rows: int, start: Phase, metric: AbstractMetric) -> Any:
        """Memory of a tree with one state, with `num_rows` rows."""

    @abc.abstractmethod
    def extend(self, memory: Any, row: Count, growth: Growth) -> Any:
        """Add the leaf; remember it as the first of a block at `row`."""

    @abc.abstractmethod
    def turned(self, memory: Any, row: Count, growth: Growth) -> Flag:
        """Whether the block that opened at `row` and ends at the leaf has turned; its second half opened at `row + 1`.

        The leaf has been added before.
        """

    def turned_pair(self, memory: Any) -> Flag | None:
        """Whether the last two leaves have turned, where the memory tells it; None: `turned` is asked, as for others.

        Every second leaf closes a block of two, so a short answer here halves the questions. It is read only where
        both leaves belong to the same subtree, or where they are the whole tree.
        """
        return None


class OriginalMemory(eqx.Module):
    """Position and textbook momentum of the tree's two ends, and of the first state of each open block."""

    ends: Float[Array, "2 2 dim"]  # [backward | forward, position | momentum, dim]
    rows: Float[Array, "row 2 dim"]


class Original(AbstractCriterion):
    """No-U-turn as it was first written: the ends of a block approach each other.

    With (q-, p-) and (q+, p+) the first and the last state of a block in time, and p ~ N(0, M), it has turned when

        (q+ - q-)'p- < 0    or
        (q+ - q-)'p+ < 0.

    Distances are those of the coordinates as they are, whatever the metric; under a dense one, each leaf costs a
    triangular solve. Source: Hoffman and Gelman 2014, equation 9; Ask 2022, equation 5.7 and Algorithms 5.1 and 5.2
    (the first of which branches on s' where it means v = -1).
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
    """Running sum of momenta, and for each open block its first momentum, the one before it, and the sum up to it.

    Besides, the squared length of the last momentum, and whether it and the one before it have turned.
    """

    total: Position
    rows: Float[Array, "row 3 dim"]
    square: Scalar
    pair: Flag


class Generalised(AbstractCriterion):
    """No-U-turn in the form that holds for every metric, with Stan's two extra checks.

    With p- and p+ the momenta of the first and the last state of a block, and rho the sum of all its momenta, it has
    turned when

        (M^-1 p-)'rho <= 0    or
        (M^-1 p+)'rho <= 0.

    The same test is made on the left half with the first momentum of the right half, and on the right half with the
    last momentum of the left half. Of two states all these tests are one, min(|w-|^2, |w+|^2) + w-'w+ <= 0 in
    standardised momenta. Source: Betancourt 2017, appendix A.4.2; Lau 2018, Algorithm 6 (which writes q+ - q- for
    rho); Stan 2.21+.
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
        # Summed at once: six dots are six loops, and one matrix product a call that costs more than its arithmetic.
        products = [whole * first, whole * last, left * first, left * middle, right * previous, right * last]
        return jnp.any(jnp.sum(jnp.stack(products), axis=1) <= 0)


class ExhaustiveMemory(eqx.Module):
    """Starting energy; log weight and weighted mean of the virial of every open block."""

    energy_start: Scalar
    log_weights: Float[Array, "row"]
    means: Float[Array, "row"]


class Exhaustive(AbstractCriterion):
    """Exhaustion of the virial: the trajectory has seen enough of its level set.

    With the virial G = q'p, and sums over the states z of a block, it has turned when

        |sum e^-H(z) dG/dt(z)| / sum e^-H(z) < delta,
        dG/dt = 2 K(p) - q'grad U(q).

    Single states are never tested. Source: Betancourt 2016; Lau 2018, Algorithms 7, 11, 13 (whose division by the
    number of states is left out: the weights normalise already).

    Attributes:
        delta: above 0.
    """

    delta: float = eqx.field(static=True, default=0.1)

    def __check_init__(self):
        if not is_number(self.delta) or not 0 < self.delta < math.inf:
            raise SettingError(f"`Exhaustive(delta=...)` must be a finite number above 0, got {self.delta!r}.")

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
        kept = jnp.where(index < row, memory.log_weights, -jnp.inf)  # blocks inside the one that opens are over
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
        return jnp.abs(lax.dynamic_index_in_dim(memory.means, row, keepdims=False)) < self.delta


def _virial_rate(phase: Phase, square: Scalar) -> Scalar:
    """dG/dt = 2 K - q'grad U = |w|^2 - q'grad U."""
    return square - jnp.dot(phase.position, phase.gradient)


_CRITERIA: dict[str, type[AbstractCriterion]] = {
    "original": Original,
    "generalised": Generalised,
    "exhaustive": Exhaustive,
}


def criterion_names() -> tuple[str, ...]:
    """The names that kernels, settings files and the command line take."""
    return tuple(_CRITERIA)


def resolve_criterion(owner: str, choice: str | AbstractCriterion) -> AbstractCriterion:
    """A criterion as it is, or the one of that name with its defaults; `owner` is the kernel that an error names."""
    if isinstance(choice, AbstractCriterion):
        return choice
    if choice not in criterion_names():
        raise SettingError(f"`{owner}(criterion={choice!r})` is not known. {suggest(str(choice), _CRITERIA)}")
    return _CRITERIA[choice]()
