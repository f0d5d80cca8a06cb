"""The posterior predictive distribution in bounded memory, whatever the number of draws and rows.

Rows are taken in blocks of one shape, so one program serves them all; inside a block the draws stream past running
sums. Quantiles are those of the predictive mixture itself, mean_s P(y <= q | draw s) = p, solved by bisection without a
random number: they keep the outputs of every draw for the rows of one block.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._errors import CapabilityError, DataError, SettingError
from ergonet._types import Array, Float
from ergonet.inference.samples import Samples
from ergonet.models.network_posterior import BayesianNetwork, NetworkPosterior

DRAW_BLOCK = 64  # draws whose outputs are held at once
ROW_BLOCKS = (32, 256)  # rows of a block: the smaller where it is enough
KEPT_BYTES = 128 * 2**20  # outputs of all draws for one block of rows, while quantiles are solved
BISECTIONS = 40


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution of each row, in the units of the network.

    Attributes:
        mean: `[rows, targets]`, or class probabilities `[rows, classes]`.
        sd: total standard deviation `[rows, targets]`: noise and function together; None for classes.
        noise_sd: root of the mean noise variance `[rows, targets]`; None for classes.
        function_sd: standard deviation of the mean between draws, in the shape of `mean`.
        levels: probabilities of the quantiles.
        quantiles: `[level, rows, targets]`; None for classes.
        log_density: log mean_s p(y | draw s) `[rows]`, where y was given.
        entropy: of the mean class probabilities `[rows]`, nats; None for reals.
        expected_entropy: mean entropy of the draws' probabilities (the aleatoric part) `[rows]`, nats; None for reals.
    """

    mean: np.ndarray
    sd: np.ndarray | None
    noise_sd: np.ndarray | None
    function_sd: np.ndarray
    levels: tuple[float, ...]
    quantiles: np.ndarray | None
    log_density: np.ndarray | None
    entropy: np.ndarray | None
    expected_entropy: np.ndarray | None

    @property
    def mutual_information(self) -> np.ndarray | None:
        """The epistemic part of the entropy `[rows]`, nats: what more data could take away; None for reals."""
        if self.entropy is None or self.expected_entropy is None:
            return None
        return self.entropy - self.expected_entropy


class _Sums(eqx.Module):
    """Running moments over draws for a block of rows; `[out, rows]` and `[rows]`."""

    count: Float[Array, ""]
    mean: Float[Array, "out rows"]
    squares: Float[Array, "out rows"]  # of deviations of the draws' means
    variance: Float[Array, "out rows"]  # mean of the draws' noise variances
    entropy: Float[Array, "rows"]
    log_density: Float[Array, "rows"]  # log of the sum


def predict(
    samples: Samples,
    x: Any,
    *,
    model: BayesianNetwork | None = None,
    levels: Sequence[float] = (0.05, 0.95),
    y: Any = None,
) -> Prediction:
    """The predictive distribution of each row, averaged over all draws.

    Args:
        samples: draws of a network's posterior; their positions may lie on disk.
        x: inputs `[rows, ...]` in the units the network was conditioned on.
        model: the network; None: the one that the samples know.
        levels: probabilities of the quantiles, in (0, 1).
        y: targets, for the log predictive density of each row.

    Returns:
        Means, standard deviations, quantiles and densities by row.

    Raises:
        CapabilityError: no model is known.
        DataError: x has no rows, or y does not fit.
        SettingError: a level is outside (0, 1).
    """
    model = _model(samples, model)
    levels = tuple(float(level) for level in levels)
    for level in levels:
        if not 0 < level < 1:
            raise SettingError(f"`levels` must lie strictly between 0 and 1, got {level}.")
    rows = _Rows(model, x, y)
    needs_quantiles = not model.likelihood.is_classification and bool(levels)
    parts = [_predict_block(model, samples, block, levels if needs_quantiles else ()) for block in rows.blocks(samples)]
    return _join(model, parts, levels=levels, count=rows.count, has_targets=y is not None)


def _model(samples: Samples, model: BayesianNetwork | None) -> BayesianNetwork:
    if model is not None:
        return model
    if isinstance(samples.target, NetworkPosterior):
        return samples.target.model
    raise CapabilityError("These samples know no network. Give `model=BayesianNetwork(...)` to predict with them.")


class _Rows:
    """Inputs and targets cut into blocks of one shape, the last padded with its own last row."""

    def __init__(self, model: BayesianNetwork, x: Any, y: Any):
        self._model = model
        self._x = np.asarray(x)
        if self._x.ndim < 1 or self._x.shape[0] == 0:
            raise DataError(f"`x` must have at least 1 row, got shape {list(self._x.shape)}.")
        if not np.issubdtype(self._x.dtype, np.floating):
            self._x = self._x.astype(np.float32)
        self.count = self._x.shape[0]
        self._y = None if y is None else np.asarray(y)
        if self._y is not None and self._y.shape[0] != self.count:
            raise DataError(f"`x` has {self.count} rows, but `y` has shape {list(self._y.shape)}. They must match.")

    def blocks(self, samples: Samples) -> Iterator[tuple[Array, Array | None]]:
        """Prepared inputs and targets (or None) of each block."""
        first = self._model.network.prepare(jnp.asarray(self._x[:1]))
        outputs = self._model.num_outputs(first)
        fitting = KEPT_BYTES // (4 * outputs * samples.num_chains * samples.num_draws)
        size = next((s for s in ROW_BLOCKS if self.count <= s), ROW_BLOCKS[-1])
        size = size if self._model.likelihood.is_classification else max(1, min(size, fitting))
        for start in range(0, self.count, size):
            index = np.minimum(np.arange(start, start + size), self.count - 1)
            inputs = self._model.network.prepare(jnp.asarray(self._x[index]))
            targets = None
            if self._y is not None:
                targets = self._model.likelihood.prepare(jnp.asarray(self._y[index]), outputs).astype(inputs.dtype)
            yield inputs, targets


def draw_blocks(samples: Samples) -> Iterator[tuple[Array, int]]:
    """Positions of all chains in blocks `[DRAW_BLOCK, dim]` with the number of valid rows in each."""
    for chain in range(samples.num_chains):
        for start in range(0, samples.num_draws, DRAW_BLOCK):
            block = np.asarray(samples.positions[chain, start : start + DRAW_BLOCK])
            valid = len(block)
            if valid < DRAW_BLOCK:
                block = np.concatenate([block, np.repeat(block[-1:], DRAW_BLOCK - valid, axis=0)])
            yield jnp.asarray(block), valid


@eqx.filter_jit
def _block_outputs(model: BayesianNetwork, positions: Array, inputs: Array) -> tuple[Array, Any]:
    """Outputs `[draw, out, rows]` and likelihood parameters of each draw."""

    def one(position: Array) -> tuple[Array, Any]:
        weights, own = model.split(position)
        return model.network.apply(weights, inputs), own

    return lax.map(one, positions)


@eqx.filter_jit
def _accumulate(
    model: BayesianNetwork, sums: _Sums, outputs: Array, own: Any, *, valid: Array, targets: Array | None
) -> _Sums:
    likelihood = model.likelihood

    def add(index: Array, sums: _Sums) -> _Sums:
        parameters = jax.tree.map(lambda leaf: leaf[index], own)
        mean = likelihood.mean(parameters, outputs[index])
        count = sums.count + 1
        deviation = mean - sums.mean
        running = sums.mean + deviation / count
        variance = likelihood.variance(parameters, outputs[index])
        entropy = -jnp.sum(jax.scipy.special.xlogy(mean, mean), axis=0) if likelihood.is_classification else 0.0
        log_density = sums.log_density
        if targets is not None:
            log_density = jnp.logaddexp(log_density, likelihood.log_prob(parameters, outputs[index], targets))
        return _Sums(
            count=count,
            mean=running,
            squares=sums.squares + deviation * (mean - running),
            variance=sums.variance + (variance - sums.variance) / count,
            entropy=sums.entropy + (entropy - sums.entropy) / count,
            log_density=log_density,
        )

    return lax.fori_loop(0, valid, add, sums)


def _predict_block(model: BayesianNetwork, samples: Samples, block: Any, levels: tuple[float, ...]) -> dict[str, Any]:
    inputs, targets = block
    sums, kept = None, []
    for positions, valid in draw_blocks(samples):
        outputs, own = _block_outputs(model, positions, inputs)
        if sums is None:
            sums = _blank(model, outputs, own)
        sums = _accumulate(model, sums, outputs, own, valid=jnp.asarray(valid), targets=targets)
        if levels:
            kept.append(jax.tree.map(lambda leaf, n=valid: np.asarray(leaf[:n]), (outputs, own)))
    assert sums is not None
    part = {name: np.asarray(getattr(sums, name)) for name in ("mean", "squares", "variance", "entropy", "log_density")}
    part["count"] = float(sums.count)
    if levels:
        everything = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *kept)
        part["quantiles"] = np.asarray(_mixture_quantiles(model, *everything, jnp.asarray(levels)))
    return part


def _blank(model: BayesianNetwork, outputs: Array, own: Any) -> _Sums:
    mean = jax.eval_shape(model.likelihood.mean, jax.tree.map(lambda leaf: leaf[0], own), outputs[0])
    zeros = jnp.zeros(mean.shape, mean.dtype)
    row = zeros[0]
    return _Sums(
        count=jnp.zeros((), mean.dtype),
        mean=zeros,
        squares=zeros,
        variance=zeros,
        entropy=row,
        log_density=jnp.full_like(row, -jnp.inf),
    )


@eqx.filter_jit
def _mixture_quantiles(model: BayesianNetwork, outputs: Array, own: Any, levels: Array) -> Array:
    """`[level, targets, rows]`: bisection between the least and the largest quantile of the draws."""
    likelihood = model.likelihood
    num_draws = outputs.shape[0]

    def of_draw(index: Array) -> tuple[Any, Array]:
        return jax.tree.map(lambda leaf: leaf[index], own), outputs[index]

    def one_level(level: Array) -> Array:
        def extremes(index: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
            quantile = likelihood.quantile(*of_draw(index), level)
            return jnp.minimum(bounds[0], quantile), jnp.maximum(bounds[1], quantile)

        def cdf(value: Array) -> Array:
            def add(index: Array, total: Array) -> Array:
                return total + likelihood.cdf(*of_draw(index), value)

            return lax.fori_loop(0, num_draws, add, jnp.zeros_like(value)) / num_draws

        def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = bounds
            middle = 0.5 * (low + high)
            below = cdf(middle) < level
            return jnp.where(below, middle, low), jnp.where(below, high, middle)

        first = likelihood.quantile(*of_draw(jnp.asarray(0)), level)
        low, high = lax.fori_loop(1, num_draws, extremes, (first, first))
        low, high = lax.fori_loop(0, BISECTIONS, halve, (low, high))
        return 0.5 * (low + high)

    return lax.map(one_level, levels)


def _join(
    model: BayesianNetwork, parts: list[dict[str, Any]], *, levels: tuple[float, ...], count: int, has_targets: bool
) -> Prediction:
    def rows(name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in parts], axis=-1)[..., :count]

    draws = parts[0]["count"]
    mean, variance, spread = rows("mean").T, rows("variance").T, (rows("squares") / draws).T
    log_density = rows("log_density") - math.log(draws) if has_targets else None
    if model.likelihood.is_classification:
        clipped = np.maximum(mean, np.finfo(mean.dtype).tiny)
        return Prediction(
            mean=mean,
            sd=None,
            noise_sd=None,
            function_sd=np.sqrt(spread),
            levels=(),
            quantiles=None,
            log_density=log_density,
            entropy=-np.sum(mean * np.log(clipped), axis=1),
            expected_entropy=rows("entropy"),
        )
    return Prediction(
        mean=mean,
        sd=np.sqrt(variance + spread),
        noise_sd=np.sqrt(variance),
        function_sd=np.sqrt(spread),
        levels=levels,
        quantiles=np.swapaxes(rows("quantiles"), 1, 2) if levels else None,
        log_density=log_density,
        entropy=None,
        expected_entropy=None,
    )


def sample_predictive(
    samples: Samples, x: Any, *, num_samples: int, seed: int, model: BayesianNetwork | None = None
) -> np.ndarray:
    """Draws of the targets, `[sample, rows, targets]` (class numbers for a classification).

    Args:
        samples: draws of a network's posterior.
        x: inputs `[rows, ...]`.
        num_samples: at least 1; each takes a posterior draw at random.
        seed: of the choice of draws and of the noise.
        model: the network; None: the one that the samples know.
    """
    model = _model(samples, model)
    rng = np.random.default_rng(seed)
    chosen = zip(
        rng.integers(samples.num_chains, size=num_samples),
        rng.integers(samples.num_draws, size=num_samples),
        strict=True,
    )
    positions = jnp.stack([jnp.asarray(samples.positions[int(chain), int(draw)]) for chain, draw in chosen])
    return _simulate(model, x, positions, seed)


def prior_predictive(model: BayesianNetwork, x: Any, *, num_samples: int, seed: int) -> np.ndarray:
    """Draws of the targets before any data, `[sample, rows, targets]`; arguments as in `sample_predictive`."""
    keys = jax.random.split(jax.random.key(seed), num_samples)
    return _simulate(model, x, jnp.stack([model.sample_prior(key) for key in keys]), seed)


def _simulate(model: BayesianNetwork, x: Any, positions: Array, seed: int) -> np.ndarray:
    inputs = model.network.prepare(jnp.asarray(x, positions.dtype))
    key = jax.random.fold_in(jax.random.key(seed), 1)

    @jax.jit
    def one(index: Array, position: Array) -> Array:
        weights, own = model.split(position)
        outputs = model.network.apply(weights, inputs)
        return model.likelihood.sample(jax.random.fold_in(key, index), own, outputs).T

    return np.stack([np.asarray(one(jnp.asarray(i), position)) for i, position in enumerate(positions)])
