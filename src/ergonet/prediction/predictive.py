"""The posterior predictive distribution in bounded memory, whatever the number of draws and rows.

Rows are processed in chunks of one shape, so that one compiled program serves them all; within a chunk, running moments
are updated draw by draw. Quantiles are those of the predictive mixture (`quantiles.py`). They need the outputs of every
draw for the rows of a chunk, so chunks are made small enough for these to fit in memory.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._checks import is_integer
from ergonet._errors import CapabilityError, SettingError
from ergonet._keys import key_of
from ergonet._types import Array
from ergonet.draws.quantities import draw_weights
from ergonet.draws.samples import Samples
from ergonet.execution.threads import num_cores, worker_pool
from ergonet.models.network_posterior import AbstractNetworkPosterior, BayesianNetwork
from ergonet.models.weighting import unweighted
from ergonet.prediction.chunks import SIMULATED_ROWS, Rows, draw_chunks, held_chunks, readable
from ergonet.prediction.members import MemberDensities
from ergonet.prediction.moments import Moments, part_of, unpacked
from ergonet.prediction.prior_check import drawn_positions
from ergonet.prediction.probabilities import calibrated, entropy_of
from ergonet.prediction.quantiles import mixture_quantiles

QUANTILE_BYTES = 128 * 2**20  # limit on the outputs of all draws for one chunk of rows, which quantiles need
THREAD_BYTES = 8 * 2**20  # of draws: with more, sharing them between threads saves more than starting these takes
FINEST = 1e-6  # level of quantiles, and its distance from 1
SAMPLE_CHUNK = 16  # draws that are simulated at once
NOISE_KEY = 0xFFFF_FFFF  # fold_in number of the noise key, distinct from those of prior draws


@dataclass(frozen=True)
class Prediction:
    """The predictive distribution of each row, in the units of the network.

    Attributes:
        mean: `[rows, targets]`, or class probabilities `[rows, classes]`.
        sd: total predictive standard deviation (function and noise), `[rows, targets]`; None for classes.
        noise_sd: square root of the mean noise variance, `[rows, targets]`; None for classes.
        function_sd: standard deviation across draws of the conditional mean, same shape as `mean`.
        levels: probabilities of the quantiles.
        quantiles: `[level, rows, targets]`; None for classes.
        log_density: log mean_s p(y | draw s), `[rows]`; None unless `y` was given.
        entropy: entropy of the mean class probabilities, `[rows]`, nats; None for regression.
        expected_entropy: mean entropy of the draws' class probabilities (aleatoric part), `[rows]`, nats; None for
            regression.
        members: `log_density` of the draws in the first and the second half of each chain, `[chain, 2, rows]`, minus
            infinity for halves of weight 0; None unless `y` was given.

    Where the likelihood has a temperature or label noise, `mean`, `log_density` and `entropy` are those after it,
    `expected_entropy` is the same share of the entropy as before, and `function_sd` and `members` are those before.
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
    members: np.ndarray | None = None

    @property
    def mutual_information(self) -> np.ndarray | None:
        """Epistemic part of the entropy, `[rows]`, nats, at least 0: what more data could reduce.

        None for regression.
        """
        if self.entropy is None or self.expected_entropy is None:
            return None
        return np.maximum(self.entropy - self.expected_entropy, 0.0)


def predict(
    samples: Samples,
    x: Any,
    *,
    model: BayesianNetwork | None = None,
    levels: Sequence[float] = (0.05, 0.95),
    y: Any = None,
) -> Prediction:
    """Compute the posterior predictive distribution of each row, a weighted average over draws (`draw_weights`).

    Args:
        samples: draws from the posterior of a network; the positions may be stored on disk.
        x: inputs `[rows, ...]`, in the units the network was conditioned on.
        model: the network; None: the model that the samples carry.
        levels: probabilities of the quantiles, from 1e-6 to 1 - 1e-6.
        y: targets, needed only for the log predictive density of each row.

    Returns:
        Means, standard deviations, quantiles and log densities of every row.

    Raises:
        CapabilityError: `model` is None and the samples carry no model.
        DataError: `x` has no rows or is not finite, or `y` does not match it.
        SettingError: a level is outside (0, 1), or `x` or the draws do not match the network.
    """
    return Predictor(samples, model).predict(x, levels=levels, y=y)


class Predictor:
    """Draws and their network, ready for many calls of `predict`: small draws are read once and stay in memory.

    Attributes:
        samples: the draws.
        model: the network.
    """

    def __init__(self, samples: Samples, model: BayesianNetwork | None = None):
        """Keep the draws and the network; nothing is read before the first prediction.

        Raises:
            CapabilityError: `model` is None and the samples carry no model.
            SettingError: the draws do not match the network.
        """
        self.samples, self.model = samples, _model(samples, model)
        self._moments = Moments(self.model)
        self._num_outputs: int | None = None

    @cached_property
    def _positions(self) -> Any:
        return readable(self.samples.positions)

    @cached_property
    def _weights(self) -> np.ndarray:
        return draw_weights(self.samples)

    @cached_property
    def _held(self) -> list[tuple[Array, Array]] | None:
        """All draws in a few chunks; None if they are too large to be held."""
        return held_chunks(self._positions, self._weights) if isinstance(self._positions, np.ndarray) else None

    def predict(self, x: Any, *, levels: Sequence[float] = (0.05, 0.95), y: Any = None) -> Prediction:
        """The predictive distribution of each row; arguments, result and errors as of `ergonet.predict`."""
        levels = tuple(float(level) for level in levels)
        for level in levels:
            if not 0 < level < 1:
                raise SettingError(f"`levels` must lie strictly between 0 and 1, got {level}.")
            if not FINEST <= level <= 1 - FINEST:
                raise SettingError(
                    f"`levels` has {level!r}, but quantiles are computed in single precision, which resolves levels "
                    f"from {FINEST:g} to 1 - {FINEST:g}."
                )
        if self.model.likelihood.is_classification:
            levels = ()
        rows = Rows(self.model, x, y, num_outputs=self._num_outputs)
        draws = self.samples.num_chains * self.samples.num_draws
        size = rows.chunk_size(QUANTILE_BYTES // (4 * draws) if levels else None)
        if levels:
            self._num_outputs = rows.num_outputs
        starts = range(0, rows.count, size)
        held = self._held if y is None else None  # members of targets are told apart by chain
        workers = self._workers(len(starts), held)
        with worker_pool(workers) if workers > 1 else nullcontext() as pool:
            every = map if pool is None else pool.map
            by_row, by_draw = (every, map) if len(starts) > 1 else (map, every)
            parts = list(by_row(lambda start: self._part(rows.chunk(start, size), levels, held, by_draw), starts))
        return join(self.model, parts, levels=levels, count=rows.count, has_targets=y is not None)

    def _workers(self, num_starts: int, held: list[tuple[Array, Array]] | None) -> int:
        """Threads that share the chunks of rows or, if there is only one, those of many or large draws."""
        if jax.default_backend() != "cpu" or self._held is None:
            return 1
        if num_starts > 1 or held is None:
            return min(num_cores(), num_starts)
        return min(num_cores(), len(held)) if sum(draws.nbytes for draws, _ in held) > THREAD_BYTES else 1

    def _part(
        self,
        chunk: tuple[Array, Array | None],
        levels: tuple[float, ...],
        held: list[tuple[Array, Array]] | None,
        every: Callable[..., Iterable[Any]],
    ) -> dict[str, Any]:
        """The moments of a chunk of rows, and its quantiles; `every` maps over the chunks of draws."""
        model, (inputs, targets) = self.model, chunk
        sums, kept = list[Array](), list[Any]()
        members = None if targets is None else MemberDensities(self._weights)

        def of_draws(pair: tuple[Array, Any]) -> tuple[Any, ...]:
            draws, weights = pair
            return *self._moments(draws, weights, inputs, targets), weights

        stored = draw_chunks(self._positions, self._weights)  # read as they are asked for
        pairs = held if held is not None else ((draws, used.astype(draws.dtype)) for draws, used in stored)
        for found, outputs, own, weights in every(of_draws, pairs):
            sums.append(found)
            if members is not None and targets is not None:
                members.add(model, outputs, own, weights=np.asarray(weights), targets=targets)
            if levels:
                kept.append(jax.tree.map(np.asarray, (outputs, own, weights)))
        part = part_of(unpacked(sums)) | ({} if members is None else {"members": members.mean_densities()})
        if levels:
            outputs, own, weights = jax.tree.map(lambda *leaves: np.concatenate(leaves), *kept)
            counts = weights > 0
            outputs, own, weights = jax.tree.map(lambda leaf: jnp.asarray(leaf[counts]), (outputs, own, weights))
            kept.clear()
            chosen = jnp.asarray(levels, inputs.dtype)
            part["quantiles"] = np.asarray(
                _quantiles(model, outputs, own, chosen, weights=weights.astype(inputs.dtype))
            )
        return part


def _model(samples: Samples, model: BayesianNetwork | None) -> BayesianNetwork:
    if model is None:
        if not isinstance(samples.target, AbstractNetworkPosterior):
            raise CapabilityError(
                "These samples carry no network. Pass `model=BayesianNetwork(...)` to predict with them."
            )
        known: BayesianNetwork = samples.target.model
        known = eqx.tree_at(lambda one: one.likelihood, known, unweighted(known.likelihood))
        model = known
    dim = samples.positions.shape[2]
    if model.dim != dim:
        raise SettingError(
            f"`model` has {model.dim} coordinates, but the draws have {dim}: they belong to another network."
        )
    return model


@eqx.filter_jit
def _quantiles(model: BayesianNetwork, outputs: Array, own: Any, levels: Array, *, weights: Array) -> Array:
    return mixture_quantiles(model.likelihood, own, outputs, levels, weights)


def join(
    model: BayesianNetwork, parts: list[dict[str, Any]], *, levels: tuple[float, ...], count: int, has_targets: bool
) -> Prediction:
    """Assemble the predictive distribution of `count` rows from the moments of all chunks."""

    def rows(name: str) -> np.ndarray:
        return np.concatenate([part[name] for part in parts], axis=-1)[..., :count]

    draws = parts[0]["count"]
    mean, variance, spread = rows("mean").T, rows("variance").T, (rows("squares") / draws).T
    log_density = rows("log_density") - math.log(draws) if has_targets else None
    members = rows("members") if "members" in parts[0] else None
    if model.likelihood.is_classification:
        expected = rows("entropy")
        if (calibration := model.likelihood.calibration) is not None:
            stated, log_density = calibrated(mean, log_density, calibration)
            expected = expected * entropy_of(stated) / np.maximum(entropy_of(mean), np.finfo(mean.dtype).tiny)
            mean = stated
        return Prediction(
            mean=mean,
            sd=None,
            noise_sd=None,
            function_sd=np.sqrt(spread),
            levels=(),
            quantiles=None,
            log_density=log_density,
            entropy=entropy_of(mean),
            expected_entropy=expected,
            members=members,
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
        members=members,
    )


def sample_predictive(
    samples: Samples,
    x: Any,
    *,
    num_samples: int,
    seed: int,
    model: BayesianNetwork | None = None,
    first_row: int = 0,
) -> np.ndarray:
    """Simulate targets from the posterior predictive distribution.

    Args:
        samples: draws from the posterior of a network; the positions may be stored on disk.
        x: inputs `[rows, ...]`, in the units the network was conditioned on.
        num_samples: at least 1. Each sample uses one randomly chosen posterior draw for all rows, so that it is a
            coherent function plus noise. Draws of equal weight are used without replacement until all have been
            used; draws of unequal weight are chosen in proportion to it.
        seed: seeds the choice of draws and the noise, 0 to 2^63 - 1.
        model: the network; None: the model that the samples carry.
        first_row: the index of the first row of `x`, if `x` is a block of a larger table, a multiple of 256. All blocks
            of a table have the same functions and their own noise.

    Returns:
        Simulated targets `[sample, rows, targets]`; class indices for a classification.

    Raises:
        CapabilityError: `model` is None and the samples carry no model.
        DataError: `x` has no rows or is not finite.
        SettingError: `num_samples`, `seed` or `first_row` is out of its range.
    """
    model = _model(samples, model)
    _check_simulation(num_samples, seed)
    if not is_integer(first_row) or first_row < 0 or first_row % max(SIMULATED_ROWS):
        raise SettingError(f"`first_row` must be a multiple of {max(SIMULATED_ROWS)}, at least 0, got {first_row!r}.")
    positions = readable(samples.positions)
    rng = np.random.default_rng(seed)
    weights = draw_weights(samples).reshape(-1).astype(float)
    total = weights.size
    if np.ptp(weights) > 0:
        chosen = rng.choice(total, num_samples, p=weights / weights.sum())
    else:
        rounds = -(-num_samples // total)
        chosen = np.concatenate([rng.permutation(total) for _ in range(rounds)])[:num_samples]
    chains, draws = np.divmod(chosen, samples.num_draws)

    def chunk(start: int, stop: int) -> Array:
        pairs = zip(chains[start:stop].tolist(), draws[start:stop].tolist(), strict=True)
        return jnp.asarray(np.stack([np.asarray(positions[chain, draw]) for chain, draw in pairs]))

    first_chunk = first_row // max(SIMULATED_ROWS)
    return _simulate(model, x, chunk, num_samples=num_samples, seed=seed, first_chunk=first_chunk)


def prior_predictive(model: BayesianNetwork, x: Any, *, num_samples: int, seed: int) -> np.ndarray:
    """Simulate targets from the prior predictive distribution; arguments and result as in `sample_predictive`."""
    _check_simulation(num_samples, seed)
    keys = jax.random.split(key_of(seed), num_samples)
    return _simulate(
        model, x, lambda start, stop: drawn_positions(model, keys[start:stop]), num_samples=num_samples, seed=seed
    )


def _check_simulation(num_samples: Any, seed: Any) -> None:
    for name, value, least in (("num_samples", num_samples, 1), ("seed", seed, 0)):
        if not is_integer(value) or value < least:
            raise SettingError(f"`{name}` must be an integer of at least {least}, got {value!r}.")


def _simulate(
    model: BayesianNetwork,
    x: Any,
    chunk: Callable[[int, int], Array],
    *,
    num_samples: int,
    seed: int,
    first_chunk: int = 0,
) -> np.ndarray:
    """Simulate targets in chunks of samples and rows; `chunk(start, stop)` gives positions `[stop - start, dim]`."""
    rows = Rows(model, x)
    inputs = list(rows.chunks(rows.chunk_size(sizes=SIMULATED_ROWS)))
    key = jax.random.fold_in(key_of(seed), NOISE_KEY)
    samples = []
    for start in range(0, num_samples, SAMPLE_CHUNK):
        positions = chunk(start, min(start + SAMPLE_CHUNK, num_samples))
        count = len(positions)
        padding = jnp.broadcast_to(positions[-1:], (SAMPLE_CHUNK - count, positions.shape[1]))
        positions = jnp.concatenate([positions, padding])
        of_chunk = jax.random.fold_in(key, start // SAMPLE_CHUNK)
        parts = [
            np.asarray(_noisy(model, positions, chunk_inputs, jax.random.fold_in(of_chunk, number)))
            for number, (chunk_inputs, _) in enumerate(inputs, first_chunk)
        ]
        samples.append(np.concatenate(parts, axis=1)[:count, : rows.count])
    return np.concatenate(samples)


@eqx.filter_jit
def _noisy(model: BayesianNetwork, positions: Array, inputs: Array, key: Array) -> Array:
    """Simulated targets `[sample, rows, targets]`."""

    def one(pair: tuple[Array, Array]) -> Array:
        position, key = pair
        weights, own = model.split(position)
        return model.likelihood.sample(key, own, model.network.apply(weights, inputs)).T

    return lax.map(one, (positions, jax.random.split(key, positions.shape[0])))
