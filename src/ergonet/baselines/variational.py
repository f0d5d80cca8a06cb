"""Mean-field variational inference: an independent normal for each coordinate of the position.

Positions of every target are unconstrained, since a target applies its own bijectors, so one family fits all targets.
"""

import importlib.metadata
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from ergonet._checks import is_integer, is_number
from ergonet._errors import CapabilityError, SettingError
from ergonet._keys import key_of
from ergonet._types import Array
from ergonet.draws.samples import Samples
from ergonet.draws.versions import versions
from ergonet.models.streamed_posterior import StreamedPosterior
from ergonet.target.capabilities import Rows
from ergonet.target.contract import AbstractTarget, require

ADAM = optax.scale_by_adam()


@dataclass(frozen=True)
class MeanFieldVariational:
    """Mean-field variational inference with q(position) a product of normals.

    Attributes:
        alpha: order of the Renyi divergence, at least 0. 1 is the Kullback-Leibler divergence, whose bound is the
            ELBO; below 1 the bound is tighter and q is wider (LiTurner2016).
        num_particles: draws from q per gradient, at least 1, and at least 2 unless `alpha` is 1.
        optimizer: a learning rate above 0 for Adam, which follows a cosine schedule down to 0; or an Optax
            transformation that includes its learning rate.
        initial_sd: initial standard deviation of q in every coordinate, above 0.
    """

    alpha: float = 1.0
    num_particles: int = 2
    optimizer: float | optax.GradientTransformation = 0.01
    initial_sd: float = 0.1

    def __post_init__(self):
        if not (is_number(self.alpha) and 0 <= self.alpha < math.inf):
            raise SettingError(f"`alpha` must be a finite number of at least 0, got {self.alpha!r}. 1 is the ELBO.")
        least = 1 if self.alpha == 1 else 2
        if not is_integer(self.num_particles) or self.num_particles < least:
            raise SettingError(
                f"`num_particles` must be an integer of at least {least} for alpha {self.alpha}, got "
                f"{self.num_particles!r}. With a single particle every Renyi bound is the ELBO."
            )
        optimizer: Any = self.optimizer
        is_rate = is_number(optimizer) and 0 < optimizer < math.inf
        if not is_rate and not isinstance(optimizer, optax.GradientTransformation):
            raise SettingError(
                f"`optimizer` must be a learning rate above 0 or an Optax transformation such as `optax.adam(0.01)`, "
                f"got {self.optimizer!r}."
            )
        if not (is_number(self.initial_sd) and 0 < self.initial_sd < math.inf):
            raise SettingError(f"`initial_sd` must be a number above 0, got {self.initial_sd!r}.")

    def fit(
        self,
        target: AbstractTarget,
        *,
        num_epochs: int,
        batch_size: int | None = None,
        seed: int,
        num_draws: int = 200,
        keep_every: int | None = None,
        init: Any = None,
    ) -> "VariationalSamples":
        """Fit q to a target and draw from it.

        Args:
            target: the target whose density q approximates.
            num_epochs: number of passes over the rows, at least 1; number of steps if `batch_size` is None.
            batch_size: rows of a minibatch, 1 to the number of rows. Rows are shuffled in each epoch, and those
                that do not fill a minibatch are left out of it. None: every step uses the full potential.
            seed: seed of all random numbers, 0 to 2^63 - 1.
            num_draws: draws from the fitted q, at least 1.
            keep_every: number of epochs, at least 1, between the fits that are kept for `at`; None: keep only the
                last fit.
            init: initial mean of q `[dim]`; None: an initial position of the target.

        Raises:
            CapabilityError: `batch_size` is given, but the target offers no minibatches or its rows are streamed.
            DivergedError: the loss is not finite.
            SettingError: a setting is out of its range.
        """
        from ergonet.baselines import mean_field  # imports NumPyro

        began = time.perf_counter()
        counts = {"num_epochs": (num_epochs, 1), "seed": (seed, 0), "num_draws": (num_draws, 1)}
        _check(target, batch_size, counts | ({} if keep_every is None else {"keep_every": (keep_every, 1)}))
        rows = None if batch_size is None else require(target, Rows, "MeanFieldVariational").rows()
        key = key_of(seed)
        rule = mean_field.Rule(self.alpha, int(self.num_particles), *_transformation(self.optimizer), batch_size or 0)
        state = mean_field.begin(rule, target, key, _start(target, init), jnp.asarray(self.initial_sd))
        ready = time.perf_counter()
        fitted = mean_field.drive(
            rule, target, rows, (key, state), num_epochs=num_epochs, keep_every=keep_every or num_epochs
        )
        done = time.perf_counter()
        means, sds = fitted.kept["loc"], fitted.kept["scale"]
        positions = np.asarray(mean_field.draws(key, means[-1], sds[-1], num_draws))
        seconds = {"setup": ready - began, "compile": fitted.compile_seconds, "sampling": time.perf_counter() - done}
        seconds |= {"warmup": done - ready - fitted.compile_seconds, "total": time.perf_counter() - began}
        return VariationalSamples(
            positions=positions[None],
            stats=_stats(positions),
            warmup_stats={},
            seconds=seconds,
            gradients={"warmup": fitted.num_steps * int(self.num_particles), "sampling": 0},
            tuning={},
            about=self._about(target, seed=seed, num_epochs=num_epochs, batch_size=batch_size, num_draws=num_draws),
            target=target,
            loss=fitted.losses,
            epochs=fitted.epochs,
            means=means,
            sds=sds,
        )

    def _about(self, target: AbstractTarget, **settings: Any) -> dict[str, Any]:
        optimizer = self.optimizer if is_number(self.optimizer) else "an Optax transformation"
        return {
            "kernel": type(self).__name__,
            "kernel_settings": f"{type(self).__name__}(alpha={self.alpha}, num_particles={self.num_particles}, "
            f"optimizer={optimizer}, initial_sd={self.initial_sd})",
            "num_chains": 1,
            "num_warmup": 0,
            "thin": 1,
            "dim": target.dim,
            "versions": versions() | {name: importlib.metadata.version(name) for name in ("numpyro", "optax")},
        } | settings


@dataclass(frozen=True, kw_only=True)
class VariationalSamples(Samples):
    """Independent draws from q, as one chain, and q itself.

    Statistics that only samplers have are absent. `gradients["warmup"]` is the number of gradients of the fit, on
    minibatches if there are any, and `seconds["warmup"]` is its time.

    Attributes:
        loss: negative bound `[epoch]`, the mean over the steps of the epoch of the estimate before each step.
        epochs: epochs after which q was kept `[kept]`; the last one ends the fit.
        means: means of q after these epochs `[kept, dim]`.
        sds: standard deviations of q after these epochs `[kept, dim]`.
    """

    loss: np.ndarray
    epochs: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    def at(self, epoch: int) -> "VariationalSamples":
        """The result as if the fit had ended after an epoch.

        Args:
            epoch: one of `epochs`.

        Raises:
            SettingError: q was not kept after this epoch.
        """
        from ergonet.baselines import mean_field

        found = np.flatnonzero(self.epochs == epoch)
        if not len(found):
            raise SettingError(f"q was not kept after epoch {epoch}, only after {self.epochs.tolist()}.")
        end = int(found[0]) + 1
        key = key_of(int(self.about["seed"]))
        positions = np.asarray(mean_field.draws(key, self.means[end - 1], self.sds[end - 1], self.num_draws))
        return replace(
            self,
            positions=positions[None],
            stats=_stats(positions),
            loss=self.loss[:epoch],
            epochs=self.epochs[:end],
            means=self.means[:end],
            sds=self.sds[:end],
        )


def _stats(positions: np.ndarray) -> dict[str, np.ndarray]:
    return {
        "gradients": np.zeros((1, positions.shape[0]), np.int32),
        "nonfinite": ~np.all(np.isfinite(positions), axis=1)[None],
    }


def _transformation(optimizer: Any) -> tuple[optax.GradientTransformation, Array | None]:
    return (ADAM, jnp.asarray(optimizer, float)) if is_number(optimizer) else (optimizer, None)


def _start(target: AbstractTarget, init: Any) -> Array | None:
    if init is None:
        return None
    loc = jnp.asarray(init, jnp.result_type(float))
    if loc.shape != (target.dim,):
        raise SettingError(f"`init` must have shape [{target.dim}], got {list(loc.shape)}.")
    return loc


def _check(target: Any, batch_size: Any, counts: Mapping[str, tuple[Any, int]]) -> None:
    if not isinstance(target, AbstractTarget):
        raise CapabilityError(f"`target` must be a target, got {type(target).__name__}.")
    for name, (value, least) in counts.items():
        if not is_integer(value) or value < least:
            raise SettingError(f"`{name}` must be an integer of at least {least}, got {value!r}.")
    if counts["seed"][0] >= 2**63:
        raise SettingError(f"`seed` must be an integer of 0 to 2^63 - 1, got {counts['seed'][0]}.")
    if batch_size is None:
        return
    num_rows = require(target, Rows, "MeanFieldVariational").num_rows
    if isinstance(target, StreamedPosterior):
        raise CapabilityError("A variational fit keeps all rows on the device: `target` must not be streamed.")
    if not is_integer(batch_size) or not 1 <= batch_size <= num_rows:
        raise SettingError(
            f"`batch_size` must be an integer of 1 to {num_rows}, the rows of the target, got {batch_size!r}; "
            f"None takes all rows in every step."
        )
