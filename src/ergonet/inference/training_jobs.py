"""Jobs of an optimizer: chains that are trained with early stopping, one by one or vmapped, in chunks of steps."""

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._checks import LARGEST_COUNT
from ergonet._keys import key_of_words, seed_words
from ergonet._types import Array, Count, Int, Scalar, UInt
from ergonet.draws.recorder import Chunk
from ergonet.draws.statistics import LP
from ergonet.execution.threads import options
from ergonet.inference import training
from ergonet.inference.devices import Placement
from ergonet.inference.jobs import CHUNK_SECONDS, AbstractJob, Say, on_device
from ergonet.inference.training import AbstractLoss, EarlyStopping, Member, Split, Training
from ergonet.samplers.stochastic.optimizers import Optimizer
from ergonet.target.capabilities import PointwiseLogLikelihood, Rows
from ergonet.target.contract import AbstractTarget, Missing
from ergonet.target.padding import mean_of_rows
from ergonet.target.shards import RowShards

STEPS_PER_EPOCH = 10  # of a target without rows, whose density is one


class PosteriorLoss(AbstractLoss):
    """The potential by row, judged by held-out rows if there are any, or else by itself.

    Attributes:
        has_rows: whether the target has rows, so that the loss is estimated from minibatches.
    """

    has_rows: bool = eqx.field(static=True)

    def of_rows(self, target: Any, position: Array, rows: Int[Array, "row"]) -> Scalar:
        if not self.has_rows:
            return target.potential(position)
        data = target.capability(Rows)
        return data.minibatch_potential(position, data.take(rows)) / data.num_rows

    def on_held_out(self, target: Any, position: Array, rows: Int[Array, "row"], count: Count) -> Scalar:
        if not rows.size:
            return target.potential(position) / (target.capability(Rows).num_rows if self.has_rows else 1)
        found = target.capability(PointwiseLogLikelihood).log_likelihood(position, rows)
        return -mean_of_rows(found, count)


def begin_chain(made: Training, numbers: UInt[Array, "3"], order: Any, position: Array) -> Member:
    """A chain at its initial values; `numbers` are the low and the high word of the seed, and its index."""
    low, high, chain = numbers
    return training.begin(made, jax.random.fold_in(key_of_words(low, high), chain), order, position)


@dataclass(frozen=True)
class Programs:
    """Programs that begin and continue the training of a job."""

    begin: Any
    train: Any


@cache
def programs(platform: str, *, is_batched: bool) -> Programs:
    """The programs for one chain, or for vmapped chains."""
    begin, train = begin_chain, training.train
    if is_batched:
        begin = eqx.filter_vmap(begin, in_axes=(None, 0, 0, 0))
        train = eqx.filter_vmap(train, in_axes=(None, 0, None, None))
    return Programs(
        begin=eqx.filter_jit(begin, **options(platform, effort=0)),
        train=eqx.filter_jit(train, **options(platform, effort=1)),  # no slower: most of it is matrix products
    )


@dataclass(frozen=True)
class TrainingPlan:
    """What the training jobs of a run have in common.

    Attributes:
        optimizer: the optimizer, with its learning rate and batch size.
        stopping: when training stops.
        validation: fraction of the rows that each chain holds out, in [0, 1).
        init: initial values `[chain, dim]`.
        seed: seed of the held-out rows and of the orders of minibatches.
    """

    optimizer: Optimizer
    stopping: EarlyStopping
    validation: float
    init: np.ndarray
    seed: int

    def split(self, target: AbstractTarget) -> Split:
        """How the rows are divided: some are held out if each has a log likelihood of its own."""
        data = target.capability(Rows)
        if isinstance(data, Missing):
            return Split(STEPS_PER_EPOCH, 0.0, 1)
        pointwise = not isinstance(target.capability(PointwiseLogLikelihood), Missing)
        split = Split(data.num_rows, self.validation if pointwise else 0.0, self.optimizer.batch_size)
        return replace(split, batch_size=min(split.batch_size, split.num_learned))

    def training(self, target: AbstractTarget) -> Training:
        """What is trained."""
        has_rows = not isinstance(target.capability(Rows), Missing)
        return Training(self.optimizer, PosteriorLoss(has_rows), target, self.split(target))


def training_jobs(plan: TrainingPlan, target: AbstractTarget, placement: Placement) -> list[AbstractJob]:
    """Make a job for each group of chains."""
    return [
        TrainingJob(plan, target, chains=group, device=device, is_batched=placement.is_batched)
        for group, device in zip(placement.groups, placement.devices, strict=True)
    ]


class TrainingJob(AbstractJob):
    """One or more chains of a device, trained until each has stopped."""

    def __init__(
        self, plan: TrainingPlan, target: AbstractTarget, *, chains: tuple[int, ...], device: Any, is_batched: bool
    ):
        super().__init__(chains, target)
        self._plan, self._is_batched = plan, is_batched
        self._device = device.own[0] if isinstance(device, RowShards) else device
        self._split = plan.split(target)
        self._seconds_per_step = 0.0
        self._num_chunks = 0

    def arrive(self) -> None:
        self.record = on_device(self._device, self.record)

    @property
    def _made(self) -> Training:
        """What is trained, on the device of the job."""
        return self.once(lambda: on_device(self._device, self._plan.training(self.target)), self._device)

    @property
    def _programs(self) -> Programs:
        return programs(self._device.platform, is_batched=self._is_batched)

    @property
    def program(self) -> Hashable:
        return type(self), self._device

    @property
    def total(self) -> int:
        return self.done if self._is_over else int(self._plan.stopping.most_epochs) * self._split.num_batches

    @property
    def _is_over(self) -> bool:
        reached = np.asarray(self.record.epoch), np.asarray(self.record.best_epoch)
        return bool(np.all(self._plan.stopping.is_over(*reached)))

    @property
    def is_warmup(self) -> bool:
        return True

    @property
    def is_warm_started(self) -> bool:
        """Whether an epoch of each chain was better than its initial values."""
        return self.record is not None and bool(np.all(np.asarray(self.record.best_epoch) > 0))

    @property
    def step_size(self) -> float:
        return float(self._plan.optimizer.learning_rate or 0.0)

    @property
    def detail(self) -> str:
        epoch, loss = np.asarray(self.record.epoch), np.asarray(self.record.loss)
        return f"epoch {epoch.max()}, loss {loss.mean():.4g}"

    def start(self) -> None:
        numbers = np.asarray([[*seed_words(self._plan.seed), chain] for chain in self.chains], np.uint32)
        orders = [self._split.order(self._plan.seed, chain) for chain in self.chains]
        order = tuple(np.stack(parts) for parts in zip(*orders, strict=True))
        each = numbers, order, np.stack([self._plan.init[chain] for chain in self.chains])
        there = jax.device_put(each if self._is_batched else jax.tree.map(lambda leaf: leaf[0], each), self._device)
        self.record = self._programs.begin(self._made, *there)

    def fields(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        return {LP.name: ((), self.record.position.dtype), "gradients": ((), np.dtype(np.int32))}

    def compile(self) -> None:
        """Compile the program by taking no steps."""
        self._train(0)

    def search(self, say: Say) -> None:
        return None

    def _train(self, count: int) -> Any:
        return jax.block_until_ready(
            self._programs.train(self._made, self.record, self._plan.stopping, np.asarray(count, np.int32))
        )

    def advance(self) -> Chunk:
        began, before = time.perf_counter(), self._steps()
        speed = self._seconds_per_step
        self.record = self._train(max(1, min(LARGEST_COUNT, int(CHUNK_SECONDS / speed))) if speed else 1)
        taken = self._steps() - before
        self._seconds_per_step = (time.perf_counter() - began) / max(1, int(taken.max()))
        self.counters["transitions"] += int(taken.max())
        fields = {
            LP.name: -np.atleast_1d(np.asarray(self.record.loss))[:, None],
            "gradients": taken.astype(np.int32)[:, None],
        }
        self._num_chunks += 1
        return Chunk(self.chains, is_warmup=True, start=self._num_chunks - 1, fields=fields, fault=self._fault())

    def _steps(self) -> np.ndarray:
        """Steps so far `[chain]`."""
        epoch, batch = (np.asarray(one, np.int64) for one in (self.record.epoch, self.record.batch))
        return np.atleast_1d(epoch * self._split.num_batches + batch)

    def _fault(self) -> str:
        loss, epoch, position = map(np.asarray, (self.record.loss, self.record.epoch, self.record.position))
        is_bad = ~np.isfinite(loss) & (epoch > 0)
        if not is_bad.any() and np.isfinite(position).all():
            return ""
        return (
            f"the loss or a weight is not finite. Lower the learning rate of the optimizer of `warm_start`, "
            f"{self.step_size:g}"
        )

    @property
    def positions(self) -> np.ndarray:
        """Those with the lowest loss on the held-out rows."""
        return np.atleast_2d(np.asarray(self.record.best))

    def tuning(self) -> dict[str, np.ndarray]:
        found = {"loss": self.record.best_loss, "epoch": self.record.best_epoch}
        return {name: np.atleast_1d(np.asarray(values)) for name, values in found.items()}

    def summaries(self) -> list[Any]:
        return []

    def about(self) -> dict[str, Any]:
        return {"optimizer": repr(self._plan.optimizer)}
