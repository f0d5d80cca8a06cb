"""An ensemble of networks, each trained with early stopping.

Each member draws its own initial values and its own validation rows, minimizes the mean negative log likelihood without
a prior (early stopping is the regularization), and keeps the weights of the epoch with the lowest validation loss.
Predictions are averaged over members. Source: Lau2018, section 4.2. It does not state the optimizer, the validation
fraction or the patience; the defaults are ours.
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

from ergonet._checks import LARGEST_COUNT, is_integer
from ergonet._errors import CapabilityError, DivergedError, SamplingWarning, SettingError
from ergonet._keys import key_of
from ergonet._types import Array, Count, Int, PRNGKey, Scalar
from ergonet.draws.samples import Samples
from ergonet.draws.versions import versions
from ergonet.execution.threads import num_cores, options, worker_pool
from ergonet.inference.training import AbstractLoss, EarlyStopping, Member, Split, Training, begin, train
from ergonet.models.network_posterior import AbstractNetworkPosterior, NetworkPosterior
from ergonet.models.streamed_posterior import StreamedPosterior
from ergonet.samplers.stochastic.optimizers import Adam, Optimizer
from ergonet.target.padding import mean_of_rows

ADAM = Adam()
START_KEY = 0xFFFF_FFFF  # beyond those of epochs, in `training.py`


@dataclass(frozen=True, kw_only=True)
class EnsembleSamples(Samples):
    """The members of an ensemble, as the draws of one chain.

    Attributes:
        best_epoch: epoch with the lowest validation loss `[member]`, counted from 1; 0 if no epoch improved on the
            initial values, which the member then keeps.
        validation_nll: validation loss at that epoch `[member]`, in nats per row.
    """

    best_epoch: np.ndarray
    validation_nll: np.ndarray


@dataclass(frozen=True)
class EarlyStoppingEnsemble:
    """An ensemble of networks trained with early stopping, which Lau2018 calls a committee.

    Attributes:
        size: number of members, at least 1.
        optimizer: optimizer of each member, with its learning rate and batch size; see `Adam` and `SGD`.
        validation: fraction of the rows that each member holds out for validation, in (0, 1).
        patience: number of epochs without a lower validation loss after which training stops, at least 1.
        most_epochs: maximum number of epochs, at least 1.
    """

    size: int = 10
    optimizer: Optimizer = ADAM
    validation: float = 0.2
    patience: int = 20
    most_epochs: int = 1000

    def __post_init__(self):
        for name in ("size", "patience", "most_epochs"):
            value = getattr(self, name)
            if not is_integer(value) or value < 1:
                raise SettingError(f"`EarlyStoppingEnsemble({name}=...)` must be an integer above 0, got {value!r}.")
        if not 0 < self.validation < 1:
            raise SettingError(f"`EarlyStoppingEnsemble(validation=...)` must be in (0, 1), got {self.validation!r}.")

    def fit(self, target: AbstractNetworkPosterior, *, seed: int) -> EnsembleSamples:
        """Train all members.

        Args:
            target: posterior of a network; its prior is used for the initial values only.
            seed: seed of all random numbers, 0 to 2^63 - 1.

        Raises:
            CapabilityError: the target is not the posterior of a network, or its rows are streamed.
            DivergedError: no member improved its validation loss.
            SettingError: there are too few rows for training or for validation.
        """
        if isinstance(target, StreamedPosterior):
            raise CapabilityError("An ensemble keeps all rows on the device: `target` must not be streamed.")
        if not isinstance(target, NetworkPosterior):
            raise CapabilityError(f"`target` must be the posterior of a network, got {type(target).__name__}.")
        split = Split(target.num_rows, self.validation, self.optimizer.batch_size)
        if not split.num_held_out or not split.num_batches:
            raise SettingError(
                f"`EarlyStoppingEnsemble(validation={self.validation})` leaves {split.num_learned} rows for training "
                f"and {split.num_held_out} for validation; a batch takes {self.optimizer.batch_size}."
            )
        began = time.perf_counter()
        training = Training(self.optimizer, MeanNegativeLogLikelihood(), target, split)
        stopping = EarlyStopping(np.asarray(self.patience, np.int32), np.asarray(self.most_epochs, np.int32))
        root, program = key_of(seed), _program(jax.local_devices()[0].platform)

        def trained(member: int) -> Member:
            key, order = jax.random.fold_in(root, member), jax.device_put(split.order(seed, member))
            return jax.block_until_ready(program(training, key, order, stopping))

        with worker_pool(min(num_cores(), self.size)) as pool:
            members = list(pool.map(trained, range(self.size)))
        elapsed = time.perf_counter() - began
        self._report_untrained(sum(int(one.best_epoch) == 0 for one in members))
        positions = np.stack([one.best for one in members])
        epochs = np.asarray([one.epoch for one in members])
        steps = split.num_batches
        return EnsembleSamples(
            positions=positions[None],
            stats={
                "gradients": (epochs * steps).astype(np.int32)[None],
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

    def _report_untrained(self, num_untrained: int) -> None:
        """Warn of members that never improved on their initial values, which are draws from the prior."""
        if not num_untrained:
            return
        rate = f"Lower the learning rate of `optimizer`, {self.optimizer.learning_rate:g}."
        if num_untrained == self.size:
            raise DivergedError(f"No member improved its validation loss. {rate}")
        warnings.warn(
            f"{num_untrained} of {self.size} members never improved their validation loss and keep their initial "
            f"values. {rate}",
            SamplingWarning,
            stacklevel=3,
        )


class MeanNegativeLogLikelihood(AbstractLoss):
    """The mean negative log likelihood of a row, without the prior."""

    def of_rows(self, target: Any, position: Array, rows: Int[Array, "row"]) -> Scalar:
        potential = target.minibatch_potential(position, target.take(rows))
        return (potential + target.model.log_prior(position)) / target.num_rows

    def on_held_out(self, target: Any, position: Array, rows: Int[Array, "row"], count: Count) -> Scalar:
        return -mean_of_rows(target.log_likelihood(position, rows), count)


@cache
def _program(platform: str) -> Any:
    return eqx.filter_jit(train_member, **options(platform))


def train_member(training: Training, key: PRNGKey, order: tuple[Array, Array], stopping: EarlyStopping) -> Member:
    """Train one member, with its rows in the order of `Split.order`, until early stopping."""
    position = training.target.initial_position(jax.random.fold_in(key, START_KEY))
    return train(training, begin(training, key, order, position), stopping, jnp.asarray(LARGEST_COUNT, jnp.int32))
