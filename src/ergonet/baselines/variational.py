"""Mean-field variational inference: an independent normal for each coordinate of a target's position.

Whatever a target is, positions are unconstrained and bijectors are the target's own, so one family serves all.
"""

import importlib.metadata
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from ergonet._checks import is_integer, is_number
from ergonet._errors import CapabilityError, SettingError
from ergonet._types import Array, PRNGKey
from ergonet.inference.samples import Samples
from ergonet.inference.versions import versions
from ergonet.models.streamed_posterior import StreamedPosterior
from ergonet.models.target import Target

ADAM = optax.scale_by_adam()


@dataclass(frozen=True)
class MeanFieldVariational:
    """Settings of a mean-field fit: q(position) = product of normals.

    Attributes:
        alpha: order of the Renyi divergence, at least 0; 1 is the Kullback-Leibler divergence, whose bound is the
            ELBO. The bound is tighter and q wider below 1 (Li and Turner 2016).
        num_particles: draws of q for each gradient, at least 1; at least 2 where alpha is not 1.
        optimiser: a learning rate above 0, for Adam, which falls to 0 by half a cosine over the run; or an Optax
            transformation with its own.
        initial_sd: standard deviations of q at the start, above 0.
    """

    alpha: float = 1.0
    num_particles: int = 2
    optimiser: float | optax.GradientTransformation = 0.01
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
        optimiser: Any = self.optimiser
        is_rate = is_number(optimiser) and 0 < optimiser < math.inf
        if not is_rate and not isinstance(optimiser, optax.GradientTransformation):
            raise SettingError(
                f"`optimiser` must be a learning rate above 0 or an Optax transformation such as `optax.adam(0.01)`, "
                f"got {self.optimiser!r}."
            )
        if not (is_number(self.initial_sd) and 0 < self.initial_sd < math.inf):
            raise SettingError(f"`initial_sd` must be a number above 0, got {self.initial_sd!r}.")

    def fit(
        self,
        target: Target,
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
            target: whose density q approximates.
            num_epochs: passes over the rows, at least 1; steps where every step takes all rows.
            batch_size: rows of a step, 1 to the target's number of rows; they are shuffled in each epoch, and what
                is left over at its end waits for the next. None: all rows, by the target's full potential.
            seed: 0 to 2^63 - 1.
            num_draws: draws from q afterwards, at least 1.
            keep_every: keep q after every so many epochs, for `at`; None: the last only.
            init: mean of q at the start `[dim]`; None: drawn by the target.

        Raises:
            CapabilityError: minibatches are asked for, and the target offers none.
            DivergedError: the loss is not finite after some epochs.
            SettingError: a setting is out of its range.
        """
        from ergonet.baselines import mean_field  # and NumPyro with it

        began = time.perf_counter()
        counts = {"num_epochs": (num_epochs, 1), "seed": (seed, 0), "num_draws": (num_draws, 1)}
        _check(target, batch_size, counts | ({} if keep_every is None else {"keep_every": (keep_every, 1)}))
        rows = None if batch_size is None else target.rows()
        key = _key(seed)
        rule = mean_field.Rule(self.alpha, int(self.num_particles), *_transformation(self.optimiser), batch_size or 0)
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

    def _about(self, target: Target, **settings: Any) -> dict[str, Any]:
        optimiser = self.optimiser if is_number(self.optimiser) else "an Optax transformation"
        return {
            "kernel": type(self).__name__,
            "kernel_settings": f"{type(self).__name__}(alpha={self.alpha}, num_particles={self.num_particles}, "
            f"optimiser={optimiser}, initial_sd={self.initial_sd})",
            "num_chains": 1,
            "num_warmup": 0,
            "thin": 1,
            "dim": target.dim,
            "versions": versions() | {name: importlib.metadata.version(name) for name in ("numpyro", "optax")},
        } | settings


@dataclass(frozen=True, kw_only=True)
class VariationalSamples(Samples):
    """Independent draws from q, as one chain; and q itself.

    Statistics of draws that only a sampler has are NaN; `gradients["warmup"]` counts those of the fit (of a minibatch
    each, where there are minibatches) and `seconds["warmup"]` is its time.

    Attributes:
        loss: minus the bound by epoch `[epoch]`: the mean of its steps' estimates, each before its step.
        epochs: after which q was kept `[kept]`; the last is the last of the fit.
        means: of q at these `[kept, dim]`.
        sds: of q at these `[kept, dim]`.
    """

    loss: np.ndarray
    epochs: np.ndarray
    means: np.ndarray
    sds: np.ndarray

    def at(self, epoch: int) -> "VariationalSamples":
        """The draws that the fit would have given had it ended after this epoch; one of `epochs`."""
        from ergonet.baselines import mean_field

        found = np.flatnonzero(self.epochs == epoch)
        if not len(found):
            raise SettingError(f"q was not kept after epoch {epoch}, only after {self.epochs.tolist()}.")
        end = int(found[0]) + 1
        key = _key(int(self.about["seed"]))
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


def _key(seed: int) -> PRNGKey:
    return jax.random.fold_in(jax.random.key(int(seed) & 0xFFFF_FFFF), int(seed) >> 32)


def _stats(positions: np.ndarray) -> dict[str, np.ndarray]:
    shape = 1, positions.shape[0]
    unknown = np.full(shape, np.nan, positions.dtype)
    names = ("lp", "energy", "energy_error", "max_energy_error", "acceptance_rate", "step_size")
    none = np.zeros(shape, np.int32)
    return dict.fromkeys(names, unknown) | {
        "n_steps": none,
        "gradients": none,
        "tree_depth": none - 1,
        "diverging": np.zeros(shape, bool),
        "nonfinite": ~np.all(np.isfinite(positions), axis=1)[None],
        "moved": np.ones(shape, bool),
    }


def _transformation(optimiser: Any) -> tuple[optax.GradientTransformation, Array | None]:
    return (ADAM, jnp.asarray(optimiser, float)) if is_number(optimiser) else (optimiser, None)


def _start(target: Target, init: Any) -> Array | None:
    if init is None:
        return None
    loc = jnp.asarray(init, jnp.result_type(float))
    if loc.shape != (target.dim,):
        raise SettingError(f"`init` must have shape [{target.dim}], got {list(loc.shape)}.")
    return loc


def _check(target: Any, batch_size: Any, counts: Mapping[str, tuple[Any, int]]) -> None:
    if not isinstance(target, Target):
        raise CapabilityError(f"`target` must be an `ergonet.Target`, got {type(target).__name__}.")
    for name, (value, least) in counts.items():
        if not is_integer(value) or value < least:
            raise SettingError(f"`{name}` must be an integer of at least {least}, got {value!r}.")
    if counts["seed"][0] >= 2**63:
        raise SettingError(f"`seed` must be an integer of 0 to 2^63 - 1, got {counts['seed'][0]}.")
    if batch_size is None:
        return
    if not target.offers("minibatch_potential"):
        target.rows()  # says what is missing
    if isinstance(target, StreamedPosterior):
        raise CapabilityError("A variational fit keeps all rows on the device: `target` must not be streamed.")
    if not is_integer(batch_size) or not 1 <= batch_size <= target.num_rows:
        raise SettingError(
            f"`batch_size` must be an integer of 1 to {target.num_rows}, the rows of the target, got {batch_size!r}; "
            f"None takes all rows in every step."
        )
