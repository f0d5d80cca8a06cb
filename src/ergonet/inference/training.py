"""Training with early stopping, as compiled programs: for warm starts, and for ensembles of trained networks.

Some rows are held out, the others give minibatches, and the position with the lowest loss on the held-out rows is kept.
A call of `train` takes so many steps. The order of rows depends only on the key of the member and the number of the
epoch, so a training is the same however it is divided into calls.
"""

import abc
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._numbers import like
from ergonet._types import Array, Bool, Count, Flag, Int, Key, PRNGKey, Scalar
from ergonet.samplers.stochastic.optimizers import Optimizer

SPLIT_KEY, ORDER_KEY = 1, 2


class AbstractLoss(eqx.Module):
    """What is minimized, and what early stopping looks at; both are means over rows."""

    @abc.abstractmethod
    def of_rows(self, target: Any, position: Array, rows: Any) -> Scalar:
        """The loss on a minibatch of rows."""

    @abc.abstractmethod
    def on_held_out(self, target: Any, position: Array, held_out: Int[Array, "row"]) -> Scalar:
        """The loss on the held-out rows with these indices, which may be none."""


@dataclass(frozen=True)
class Split:
    """Numbers of rows, which are constants of the compiled program.

    Attributes:
        num_rows: all rows.
        num_validation: those that are held out.
        batch_size: those of a minibatch, at most as many as are not held out.
    """

    num_rows: int
    num_validation: int
    batch_size: int

    @property
    def num_batches(self) -> int:
        """Minibatches of an epoch."""
        return (self.num_rows - self.num_validation) // self.batch_size


class Training(eqx.Module):
    """What is trained, and how.

    Attributes:
        optimizer: the optimizer; its batch size is that of `split`.
        loss: what is minimized.
        target: the density or posterior that the loss needs.
        rows: its rows, `[row, ...]`; an empty tree if it has none.
        split: numbers of rows.
    """

    optimizer: Optimizer
    loss: AbstractLoss
    target: Any
    rows: Any
    split: Split = eqx.field(static=True)


class EarlyStopping(eqx.Module):
    """When training stops.

    Attributes:
        patience: number of epochs without a lower loss on the held-out rows after which it stops, at least 1.
        most_epochs: maximum number of epochs, at least 1.
    """

    patience: Any
    most_epochs: Any

    def is_over(self, member: "Member") -> Bool[Array, "..."]:
        """Whether a member has stopped, or each of several."""
        return (member.epoch >= self.most_epochs) | (member.epoch - member.best_epoch >= self.patience)


class Member(eqx.Module):
    """A position during training.

    Attributes:
        key: of the member.
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
    position: Array
    memory: Any
    loss: Array
    best: Array
    best_loss: Array
    best_epoch: Int[Array, "..."]
    epoch: Int[Array, "..."]
    batch: Int[Array, "..."]


def begin(training: Training, key: PRNGKey, position: Array) -> Member:
    """A member at its initial values."""
    zero, split = jnp.zeros((), jnp.int32), training.split
    found = training.loss.on_held_out(training.target, position, _order(key, split)[: split.num_validation])
    memory = training.optimizer.transformation.init(position)
    return Member(key, position, memory, found, position, found, zero, zero, zero)


def train(training: Training, member: Member, stopping: EarlyStopping, count: Count) -> Member:
    """Take `count` more steps, or fewer if training stops early."""
    optimizer, loss, split = training.optimizer, training.loss, training.split
    target, rows, num_batches = training.target, training.rows, split.num_batches
    order = _order(member.key, split)
    held_out, learned = order[: split.num_validation], order[split.num_validation :]

    def judged(member: Member) -> Member:
        found = loss.on_held_out(target, member.position, held_out)
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
        key = jax.random.fold_in(jax.random.fold_in(member.key, ORDER_KEY), member.epoch)
        batches = jax.random.permutation(key, learned)[: num_batches * split.batch_size]
        batches = batches.reshape(num_batches, split.batch_size)

        def step(number: Count, carry: tuple[Array, Any]) -> tuple[Array, Any]:
            position, memory = carry
            chosen = jax.tree.map(lambda leaf: leaf[batches[number]], rows)
            gradient = jax.grad(lambda position: loss.of_rows(target, position, chosen))(position)
            update: Any
            update, memory = optimizer.transformation.update(gradient, memory, position)
            return position - like(optimizer.learning_rate, position) * update, memory

        end = jnp.minimum(member.batch + left, num_batches)
        position, memory = lax.fori_loop(member.batch, end, step, (member.position, member.memory))
        moved = replace(member, position=position, memory=memory, batch=end)
        return lax.cond(end == num_batches, judged, lambda same: same, moved), left - (end - member.batch)

    def goes_on(carry: tuple[Member, Count]) -> Flag:
        return (carry[1] > 0) & ~stopping.is_over(carry[0])

    return lax.while_loop(goes_on, to_end_of_epoch, (member, count))[0]


def _order(key: PRNGKey, split: Split) -> Int[Array, "row"]:
    """All rows in the order of a member, its held-out rows first."""
    return jax.random.permutation(jax.random.fold_in(key, SPLIT_KEY), split.num_rows)
