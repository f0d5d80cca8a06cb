"""A committee of networks, each trained until it does no better on rows that it has not seen.

Every member draws its own start and its own validation rows, descends minus the mean log likelihood of a row (no prior:
stopping early is the regularisation), and keeps the weights of its best epoch. Predictions are averaged over members.
Source: Lau 2018, section 4.2, which names no optimiser, validation share or patience; the defaults are ours.
"""

import time
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._checks import is_integer
from ergonet._errors import CapabilityError, DivergedError, SamplingWarning, SettingError
from ergonet._types import Array, Count, PRNGKey, Scalar
from ergonet.baselines.optimisers import Adam, Optimiser
from ergonet.inference.devices import num_cores
from ergonet.inference.programs import CPU_OPTIONS
from ergonet.inference.samples import Samples
from ergonet.inference.versions import versions
from ergonet.inference.workers import worker_pool
from ergonet.models.network_posterior import NetworkPosterior
from ergonet.models.streamed_posterior import StreamedPosterior

ADAM = Adam()
START_KEY, SPLIT_KEY, ORDER_KEY = range(3)


@dataclass(frozen=True, kw_only=True)
class CommitteeSamples(Samples):
    """A committee as one chain whose draws are its members.

    Attributes:
        best_epoch: of each member, `[member]`, from 1; 0: it never did better than at its start, which it keeps.
        validation_nll: at that epoch, nats per row, `[member]`.
    """

    best_epoch: np.ndarray
    validation_nll: np.ndarray


@dataclass(frozen=True)
class EarlyStoppingCommittee:
    """Settings of a committee.

    Attributes:
        size: members, at least 1.
        optimiser: of each member, with a learning rate and a batch size; see `Adam`, `SGD`.
        validation: share of the rows that a member does not learn from, in (0, 1).
        patience: epochs without a better validation after which it stops, at least 1.
        most_epochs: after which it stops in any case, at least 1.
    """

    size: int = 10
    optimiser: Optimiser = ADAM
    validation: float = 0.2
    patience: int = 20
    most_epochs: int = 1000

    def __post_init__(self):
        for name in ("size", "patience", "most_epochs"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise SettingError(f"`EarlyStoppingCommittee({name}=...)` must be an integer above 0, got {value!r}.")
        if not 0 < self.validation < 1:
            raise SettingError(f"`EarlyStoppingCommittee(validation=...)` must be in (0, 1), got {self.validation!r}.")

    def fit(self, target: NetworkPosterior, *, seed: int) -> CommitteeSamples:
        """Train every member.

        Args:
            target: a network's posterior; its prior gives the starts and nothing else.
            seed: 0 to 2^63 - 1.

        Raises:
            CapabilityError: the target is not a network's, or its rows are streamed.
            DivergedError: no member ever did better on its validation rows than at its start.
            SettingError: too few rows to learn from, or to validate.
        """
        if not isinstance(target, NetworkPosterior):
            raise CapabilityError(f"A committee is of networks: `target` must be theirs, got {type(target).__name__}.")
        if isinstance(target, StreamedPosterior):
            raise CapabilityError("A committee keeps all rows on the device: `target` must not be streamed.")
        num_validation = round(self.validation * target.num_rows)
        num_train = target.num_rows - num_validation
        if num_validation < 1 or num_train < self.optimiser.batch_size:
            raise SettingError(
                f"`EarlyStoppingCommittee(validation={self.validation})` leaves {num_train} rows to learn from and "
                f"{num_validation} to validate: a batch takes {self.optimiser.batch_size}."
            )
        began = time.perf_counter()
        plan = Plan(num_validation, self.patience, self.most_epochs)
        root = jax.random.fold_in(jax.random.key(seed & 0xFFFF_FFFF), seed >> 32)
        rows, program = target.rows(), _program(jax.local_devices()[0].platform)
        with worker_pool(min(num_cores(), self.size)) as pool:
            members = list(
                pool.map(
                    lambda member: jax.tree.map(
                        np.asarray, program(self.optimiser, target, rows, jax.random.fold_in(root, member), plan)
                    ),
                    range(self.size),
                )
            )
        elapsed = time.perf_counter() - began
        self._tell_untrained(sum(int(one.best_epoch) == 0 for one in members))
        positions = np.stack([one.best for one in members])
        epochs = np.asarray([one.epoch for one in members])
        steps = num_train // self.optimiser.batch_size
        shape = 1, self.size
        return CommitteeSamples(
            positions=positions[None],
            stats={
                "lp": np.full(shape, np.nan, positions.dtype),
                "gradients": (epochs * steps).astype(np.int32)[None],
                "kinetic_temperature": np.full(shape, np.nan, positions.dtype),
                "clipped": np.zeros(shape, positions.dtype),
                "nonfinite": ~np.all(np.isfinite(positions), axis=1)[None],
            },
            warmup_stats={},
            seconds={"sampling": elapsed, "total": elapsed},
            gradients={"sampling": int(epochs.sum() * steps)},
            tuning={},
            about={
                "kernel": type(self).__name__,
                "kernel_settings": repr(self),
                "seed": int(seed),
                "num_chains": 1,
                "num_warmup": 0,
                "num_draws": self.size,
                "thin": 1,
                "dim": target.dim,
                "stopped_by": None,
                "versions": versions(),
            },
            target=target,
            best_epoch=np.asarray([one.best_epoch for one in members]),
            validation_nll=np.asarray([one.best_loss for one in members]),
        )

    def _tell_untrained(self, num_untrained: int) -> None:
        """Say how many members are no better than their start, which is a draw of the prior."""
        if not num_untrained:
            return
        rate = f"Lower the learning rate of `optimiser`, {self.optimiser.learning_rate:g}."
        if num_untrained == self.size:
            raise DivergedError(f"No member ever did better on validation rows than at its start. {rate}")
        warnings.warn(
            f"{num_untrained} of {self.size} members never did better on validation rows than at their start, and stay "
            f"there. {rate}",
            SamplingWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class Plan:
    """What the compiled training is specialised to."""

    num_validation: int
    patience: int
    most_epochs: int


class Member(eqx.Module):
    """A network under training."""

    position: Array
    memory: Any
    best: Array
    best_loss: Scalar
    best_epoch: Count
    epoch: Count


@cache
def _program(platform: str) -> Any:
    options: dict[str, Any] = {"compiler_options": CPU_OPTIONS} if platform == "cpu" else {}
    return eqx.filter_jit(train, **options)


def train(optimiser: Optimiser, target: NetworkPosterior, rows: Any, key: PRNGKey, plan: Plan) -> Member:
    """One member, from its start to the end of its patience."""
    order = jax.random.permutation(jax.random.fold_in(key, SPLIT_KEY), target.num_rows)
    held, learned = order[: plan.num_validation], order[plan.num_validation :]
    validation = jax.tree.map(lambda leaf: leaf[held], rows)
    num_batches = learned.size // optimiser.batch_size
    position = target.initial_position(jax.random.fold_in(key, START_KEY))
    zero = jnp.zeros((), jnp.int32)

    def loss(position: Array, rows: Any) -> Scalar:
        """Minus the mean log likelihood."""
        return (target.minibatch_potential(position, rows) + target.model.log_prior(position)) / target.num_rows

    def improving(member: Member) -> Array:
        return (member.epoch < plan.most_epochs) & (member.epoch - member.best_epoch < plan.patience)

    def epoch(member: Member) -> Member:
        mixed = jax.random.permutation(jax.random.fold_in(jax.random.fold_in(key, ORDER_KEY), member.epoch), learned)
        batches = mixed[: num_batches * optimiser.batch_size].reshape(num_batches, optimiser.batch_size)

        def step(number: Count, carry: tuple[Array, Any]) -> tuple[Array, Any]:
            position, memory = carry
            gradient = jax.grad(loss)(position, jax.tree.map(lambda leaf: leaf[batches[number]], rows))
            update: Any
            update, memory = optimiser.transformation.update(gradient, memory, position)
            return position - optimiser.learning_rate * update, memory

        position, memory = lax.fori_loop(0, num_batches, step, (member.position, member.memory))
        found = loss(position, validation)
        better = found < member.best_loss
        return Member(
            position=position,
            memory=memory,
            best=jnp.where(better, position, member.best),
            best_loss=jnp.where(better, found, member.best_loss),
            best_epoch=jnp.where(better, member.epoch + 1, member.best_epoch),
            epoch=member.epoch + 1,
        )

    start = Member(
        position=position,
        memory=optimiser.transformation.init(position),
        best=position,
        best_loss=loss(position, validation),
        best_epoch=zero,
        epoch=zero,
    )
    return lax.while_loop(improving, epoch, start)
