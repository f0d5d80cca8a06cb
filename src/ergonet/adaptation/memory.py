"""Learning the memory of a direction: the time L after which a partially refreshed direction has decorrelated.

L = 0.4 e t, where t is the autocorrelation time of the monitored quantities in steps of size e, a mean over quantities.
Until it is known, L = sqrt(D), the radius of a standardized normal density, in which a direction turns once around.

The autocorrelation time comes from the variance of block means, which is t / n times the variance of the values for
blocks of n steps. Blocks of 1, 2, 4, ... transitions are summed at the same time, so that nothing is stored; the result
is that of the longest blocks of which there are at least eight. Sources: Robnik2023; FlyvbjergPetersen1989 (blocks).
"""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Float, Scalar
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.samplers.base import State, Tuning
from ergonet.target.capabilities import quantities
from ergonet.target.contract import AbstractDensity

SHARE = 0.4
NUM_SIZES = 12
FEWEST_BLOCKS = 8


class BlockSums(eqx.Module):
    """Sums over the transitions of a stage; block sizes are 2^0, 2^1, ... transitions.

    Values are relative to `pivot`, those after the first transition.
    """

    count: Scalar
    pivot: Float[Array, "quantity"]
    total: Float[Array, "quantity"]
    open: Float[Array, "size quantity"]  # sum of the block that is not complete
    squares: Float[Array, "size quantity"]  # of the means of complete blocks
    sums: Float[Array, "size quantity"]  # of the means of complete blocks


class MemoryLearner(AbstractLearner):
    """Sets the memory to a share of the autocorrelation time at the end of its stage."""

    learns: ClassVar[str] = "memory"

    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> BlockSums:
        return blank(quantities(target, state.position))

    def observe(self, memory: BlockSums, tuning: Tuning, transition: Transition) -> tuple[BlockSums, Tuning]:
        return observe(memory, quantities(transition.target, transition.after.position)), tuning

    def finish(self, memory: BlockSums, tuning: Tuning, ending: Ending) -> tuple[BlockSums, Tuning]:
        assert tuning.memory is not None
        steps = autocorrelation_time(memory) * tuning.num_steps
        learned = SHARE * steps * tuning.step_size
        is_due = ending.active & (memory.count >= FEWEST_BLOCKS) & jnp.isfinite(learned) & (learned > 0)
        found = jnp.where(is_due, learned, tuning.memory)
        memory = jax.tree.map(lambda leaf: jnp.where(ending.active, jnp.zeros_like(leaf), leaf), memory)
        return memory, eqx.tree_at(lambda one: one.memory, tuning, found)


def blank(first: Float[Array, "quantity"]) -> BlockSums:
    """Sums of zero transitions, for quantities like these."""
    zeros, sizes = jnp.zeros_like(first), jnp.zeros((NUM_SIZES, first.size), first.dtype)
    return BlockSums(jnp.zeros((), first.dtype), zeros, zeros, sizes, sizes, sizes)


def observe(sums: BlockSums, values: Float[Array, "quantity"]) -> BlockSums:
    """Add the values after one transition."""
    pivot = jnp.where(sums.count == 0, values, sums.pivot)
    value, count = values - pivot, sums.count + 1
    size = 2.0 ** jnp.arange(NUM_SIZES, dtype=values.dtype)
    ends = (count % size == 0)[:, None]
    opened = sums.open + value
    mean = opened / size[:, None]
    return BlockSums(
        count=count,
        pivot=pivot,
        total=sums.total + value,
        open=jnp.where(ends, 0.0, opened),
        squares=sums.squares + jnp.where(ends, mean**2, 0.0),
        sums=sums.sums + jnp.where(ends, mean, 0.0),
    )


def autocorrelation_time(sums: BlockSums) -> Scalar:
    """Mean over quantities of the autocorrelation time, in transitions."""
    size = 2.0 ** jnp.arange(NUM_SIZES, dtype=sums.total.dtype)
    blocks = jnp.floor(sums.count / size)
    longest = jnp.maximum(jnp.sum(blocks >= FEWEST_BLOCKS) - 1, 0)
    number = jnp.maximum(blocks, 2.0)[:, None]
    variance = (sums.squares - sums.sums**2 / number) / (number - 1)
    of_values, of_blocks = variance[0], variance[longest]
    varies = of_values > 0
    times = jnp.where(varies, size[longest] * of_blocks / jnp.where(varies, of_values, 1.0), 0.0)
    return jnp.sum(times) / jnp.maximum(jnp.sum(varies), 1)
