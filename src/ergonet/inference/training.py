"""Training with early stopping, as compiled programs: for warm starts, and for ensembles of trained networks.

Some rows are held out, the others give minibatches, and the position with the lowest loss on the held-out rows is kept.
A call of `train` takes so many steps. Which rows a member holds out, and their order in an epoch, depend only on its
seed, its number and that of the epoch, so a training is the same however it is divided into calls.

Indices of rows are padded as the rows are (`target/padding.py`), and their numbers are arguments, so that tables of
about as many rows share the programs.
"""

import abc
import math
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._numbers import like
from ergonet._types import Array, Count, Flag, Int, Key, PRNGKey, Scalar
from ergonet.samplers.stochastic.optimizers import Optimizer
from ergonet.target.padding import is_row, padded_size


class AbstractLoss(eqx.Module):
    """What is minimized, and what early stopping looks at; both are means over rows."""

    @abc.abstractmethod
    def of_rows(self, target: Any, position: Array, rows: Int[Array, "row"]) -> Scalar:
        """The loss on a minibatch, the rows with these indices."""

    @abc.abstractmethod
    def on_held_out(self, target: Any, position: Array, rows: Int[Array, "row"], count: Count) -> Scalar:
        """The loss on the first `count` of these rows, which are held out; there may be none."""


@dataclass(frozen=True)
class Split:
    """Numbers of rows.

    Attributes:
        num_rows: all rows, at least 1.
        validation: fraction of them that is held out, in [0, 1); at least one row is not.
        batch_size: rows of a minibatch, at most as many as are not held out.
    """

    num_rows: int
    validation: float
    batch_size: int

    @property
    def num_held_out(self) -> int:
        """Rows that are held out."""
        return min(round(self.validation * self.num_rows), self.num_rows - 1)

    @property
    def num_learned(self) -> int:
        """Rows that are not."""
        return self.num_rows - self.num_held_out

    @property
    def num_batches(self) -> int:
        """Minibatches of an epoch."""
        return self.num_learned // self.batch_size

    def order(self, seed: int, member: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the rows that a member holds out and of the others, each padded with zeros."""
        order = np.random.default_rng([seed, member]).permutation(self.num_rows).astype(np.int32)
        size = padded_size(self.num_rows)
        sizes = math.ceil(self.validation * size) if self.num_held_out else 0, size
        parts = order[: self.num_held_out], order[self.num_held_out :]
        held_out, learned = (np.pad(part, (0, size - len(part))) for part, size in zip(parts, sizes, strict=True))
        return held_out, learned


class Training(eqx.Module):
    """What is trained, and how.

    Attributes:
        optimizer: the optimizer.
        loss: what is minimized.
        target: the density or posterior that the loss needs.
        num_held_out: rows that are held out.
        num_learned: rows that are not.
        batch_size: rows of a minibatch.
    """

    optimizer: Optimizer
    loss: AbstractLoss
    target: Any
    num_held_out: Count
    num_learned: Count
    batch_size: int = eqx.field(static=True)

    def __init__(self, optimizer: Optimizer, loss: AbstractLoss, target: Any, split: Split):
        """Keep what is trained."""
        self.optimizer, self.loss, self.target, self.batch_size = optimizer, loss, target, split.batch_size
        self.num_held_out, self.num_learned = jax.device_put(
            (np.int32(split.num_held_out), np.int32(split.num_learned))
        )

    @property
    def num_batches(self) -> Count:
        """Minibatches of an epoch."""
        return self.num_learned // self.batch_size

    def judged(self, member: "Member") -> Scalar:
        """The loss of a member on the rows that it holds out."""
        return self.loss.on_held_out(self.target, member.position, member.held_out, self.num_held_out)


class EarlyStopping(eqx.Module):
    """When training stops.

    Attributes:
        patience: number of epochs without a lower loss on the held-out rows after which it stops, at least 1.
        most_epochs: maximum number of epochs, at least 1.
    """

    patience: Any
    most_epochs: Any

    def is_over(self, epoch: Any, best_epoch: Any) -> Any:
        """Whether a member has stopped, or each of several, given its complete epochs and the best of them."""
        return (epoch >= self.most_epochs) | (epoch - best_epoch >= self.patience)


class Member(eqx.Module):
    """A position during training.

    Attributes:
        key: of the member.
        held_out: indices of the rows that it holds out, padded.
        learned: indices of the others, padded.
        position: current position `[dim]`.
        memory: state of the optimizer.
        loss: loss on the held-out rows at the end of the last epoch.
        best: position with the lowest such loss so far `[dim]`.
        best_loss: that loss.
        best_epoch: the epoch of that loss, counted from 1; 0 for the initial values.
        epoch: number of complete epochs.
        batch: number of minibatches of the current epoch so far.
    """

    key: Key[Array, "..."]
    held_out: Int[Array, "..."]
    learned: Int[Array, "..."]
    position: Array
    memory: Any
    loss: Array
    best: Array
    best_loss: Array
    best_epoch: Int[Array, "..."]
    epoch: Int[Array, "..."]
    batch: Int[Array, "..."]


def begin(
    training: Training, key: PRNGKey, order: tuple[Int[Array, "held_out"], Int[Array, "learned"]], position: Array
) -> Member:
    """A member at its initial values, with its rows in the order of `Split.order`."""
    zero, unknown = jnp.zeros((), jnp.int32), jnp.zeros((), position.dtype)
    memory = training.optimizer.transformation.init(position)
    member = Member(key, *order, position, memory, unknown, position, unknown, zero, zero, zero)
    loss = training.judged(member)
    return replace(member, loss=loss, best_loss=loss)


def train(training: Training, member: Member, stopping: EarlyStopping, count: Count) -> Member:
    """Take `count` more steps, or fewer if training stops early."""
    optimizer, num_batches, size = training.optimizer, training.num_batches, training.batch_size

    def judged(member: Member) -> Member:
        found = training.judged(member)
        better, epoch = found < member.best_loss, member.epoch + 1
        return replace(
            member,
            loss=found,
            best=jnp.where(better, member.position, member.best),
            best_loss=jnp.where(better, found, member.best_loss),
            best_epoch=jnp.where(better, epoch, member.best_epoch),
            epoch=epoch,
            batch=jnp.zeros_like(member.batch),
        )

    def to_end_of_epoch(carry: tuple[Member, Count]) -> tuple[Member, Count]:
        member, left = carry
        rows = _shuffled(jax.random.fold_in(member.key, member.epoch), member.learned, training.num_learned)

        def step(number: Count, carry: tuple[Array, Any]) -> tuple[Array, Any]:
            position, memory = carry
            batch = lax.dynamic_slice_in_dim(rows, number * size, size)
            gradient = jax.grad(lambda position: training.loss.of_rows(training.target, position, batch))(position)
            update: Any
            update, memory = optimizer.transformation.update(gradient, memory, position)
            return position - like(optimizer.learning_rate, position) * update, memory

        end = jnp.minimum(member.batch + left, num_batches)
        position, memory = lax.fori_loop(member.batch, end, step, (member.position, member.memory))
        moved = replace(member, position=position, memory=memory, batch=end)
        return lax.cond(end == num_batches, judged, lambda same: same, moved), left - (end - member.batch)

    def goes_on(carry: tuple[Member, Count]) -> Flag:
        return (carry[1] > 0) & ~stopping.is_over(carry[0].epoch, carry[0].best_epoch)

    return lax.while_loop(goes_on, to_end_of_epoch, (member, count))[0]


def _shuffled(key: PRNGKey, rows: Int[Array, "row"], count: Count) -> Int[Array, "row"]:
    """The first `count` rows in random order, then the others."""
    ranks = jax.random.bits(key, rows.shape, jnp.uint32) >> 1
    last = jnp.uint32(0xFFFF_FFFF)
    return lax.sort_key_val(jnp.where(is_row(rows.size, count), ranks, last), rows)[1]
