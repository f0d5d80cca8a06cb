"""Prior predictive checks: functions and predictions drawn from the prior."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax import lax

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet._keys import key_of
from ergonet._types import Array
from ergonet.execution.threads import options
from ergonet.models.network_posterior import BayesianNetwork

SMALL = 10**6  # values: below, a program that is not optimized is done sooner


@dataclass(frozen=True)
class PriorPrediction:
    """Draws from the prior at given inputs, in the units of the network.

    Attributes:
        mean: the drawn functions, `[draw, rows, targets]`, or class probabilities `[draw, rows, classes]`.
        noise_sd: standard deviation of the observation noise, `[draw, rows, targets]`; None for classes.
        targets: one simulated target per draw and row, `[draw, rows, targets]`; class indices `[draw, rows, 1]`.
    """

    mean: np.ndarray
    noise_sd: np.ndarray | None
    targets: np.ndarray


def prior_predictive(model: BayesianNetwork, x: Any, *, num_draws: int = 100, seed: int) -> PriorPrediction:
    """Draw weights and hyperparameters from the prior and predict at `x`.

    Args:
        model: network, prior and likelihood.
        x: inputs `[rows, features]`, as `condition` takes them.
        num_draws: number of functions, at least 1.
        seed: 0 to 2^63 - 1.

    Raises:
        SettingError: `num_draws` is below 1, or the inputs do not match the network.
    """
    if not is_integer(num_draws) or num_draws < 1:
        raise SettingError(f"`prior_predictive(num_draws=...)` must be an integer of at least 1, got {num_draws!r}.")
    inputs = jax.device_put(model.network.prepare(np.asarray(x, np.float32)))
    keys = jax.vmap(jax.random.split)(jax.random.split(key_of(seed), num_draws))
    positions = drawn_positions(model, keys[:, 0])
    _, predict = _programs(jax.default_backend(), _effort(num_draws * len(x)))
    parts = predict(model, positions, keys[:, 1], inputs)
    mean, variance, targets = (np.asarray(part).swapaxes(1, 2) for part in parts)
    is_classes = model.likelihood.is_classification
    return PriorPrediction(mean=mean, noise_sd=None if is_classes else np.sqrt(variance), targets=targets)


def drawn_positions(model: BayesianNetwork, keys: Array) -> Array:
    """A position drawn from the prior for each key, `[draw, dim]`."""
    draw, _ = _programs(jax.default_backend(), _effort(len(keys) * model.dim))
    return draw(model, keys)


def _effort(work: int) -> int | None:
    """How much to optimize a program: not at all where compiling takes longer than running."""
    return 0 if work <= SMALL else None


@cache
def _programs(platform: str, effort: int | None) -> tuple[Any, Any]:
    """The programs that draw positions and that predict."""

    def draw(model: BayesianNetwork, keys: Array) -> Array:
        return lax.map(model.sample_prior, keys)

    def predict(model: BayesianNetwork, positions: Array, keys: Array, inputs: Array) -> tuple[Array, Array, Array]:
        def one(pair: tuple[Array, Array]) -> tuple[Array, Array, Array]:
            position, key = pair
            own, outputs = model.split(position)[1], model.outputs(position, inputs)
            likelihood = model.likelihood
            targets = likelihood.sample(key, own, outputs)
            return likelihood.mean(own, outputs), likelihood.variance(own, outputs), targets

        return lax.map(one, (positions, keys))

    settings = options(platform, effort=effort)
    return eqx.filter_jit(draw, **settings), eqx.filter_jit(predict, **settings)
