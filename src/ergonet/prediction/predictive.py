"""The posterior predictive distribution in bounded memory, whatever the number of draws and rows.

Rows are processed in chunks of one shape, so that one compiled program serves them all; within a chunk, running moments
are updated draw by draw. Quantiles are those of the predictive mixture (`quantiles.py`). They need the outputs of every
draw for the rows of a chunk, so chunks are made small enough for these to fit in memory.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._checks import is_integer
from ergonet._errors import CapabilityError, SettingError
from ergonet._keys import key_of
from ergonet._types import Array, Float
from ergonet.draws.quantities import draw_weights
from ergonet.draws.samples import Samples
from ergonet.models.network_posterior import AbstractNetworkPosterior, BayesianNetwork
from ergonet.prediction.chunks import Rows, draw_chunks, readable
from ergonet.prediction.members import MemberDensities
from ergonet.prediction.quantiles import mixture_quantiles

QUANTILE_BYTES = 128 * 2**20  # limit on the outputs of all draws for one chunk of rows, which quantiles need
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


class Sums(eqx.Module):
    """Running moments over weighted draws for a chunk of rows; `count` is the sum of the weights."""

    count: Float[Array, ""]
    mean: Float[Array, "out rows"]
    squares: Float[Array, "out rows"]  # sum of squared deviations of the draws' means
    variance: Float[Array, "out rows"]  # mean of the draws' noise variances
    entropy: Float[Array, "rows"]  # mean of the draws' entropies
    log_density: Float[Array, "rows"]  # log of the sum over draws


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
        levels: probabilities of the quantiles, in (0, 1).
        y: targets, needed only for the log predictive density of each row.

    Returns:
        Means, standard deviations, quantiles and log densities of every row.

    Raises:
        CapabilityError: `model` is None and the samples carry no model.
        DataError: `x` has no rows or is not finite, or `y` does not match it.
        SettingError: a level is outside (0, 1), or `x` or the draws do not match the network.
    """
    model = _model(samples, model)
    levels = tuple(float(level) for level in levels)
    for level in levels:
        if not 0 < level < 1:
            raise SettingError(f"`levels` must lie strictly between 0 and 1, got {level}.")
    if model.likelihood.is_classification:
        levels = ()
    rows = Rows(model, x, y)
    positions = readable(samples.positions)
    size = rows.chunk_size(QUANTILE_BYTES // (4 * samples.num_chains * samples.num_draws) if levels else None)
    weights = draw_weights(samples)
    parts = [_predict_chunk(model, (positions, weights), chunk, levels) for chunk in rows.chunks(size)]
    return join(model, parts, levels=levels, count=rows.count, has_targets=y is not None)


def _model(samples: Samples, model: BayesianNetwork | None) -> BayesianNetwork:
    if model is None:
        if not isinstance(samples.target, AbstractNetworkPosterior):
            raise CapabilityError(
                "These samples carry no network. Pass `model=BayesianNetwork(...)` to predict with them."
            )
        model = samples.target.model
    dim = samples.positions.shape[2]
    if model.dim != dim:
        raise SettingError(
            f"`model` has {model.dim} coordinates, but the draws have {dim}: they belong to another network."
        )
    return model


def _predict_chunk(model: BayesianNetwork, draws_of: Any, chunk: Any, levels: tuple[float, ...]) -> dict[str, Any]:
    (positions, every_weight), (inputs, targets) = draws_of, chunk
    sums, kept, members = None, [], MemberDensities(every_weight)
    for draws, weights in draw_chunks(positions, every_weight):
        outputs, own = _outputs(model, draws, inputs)
        sums = blank_sums(model, outputs, own) if sums is None else sums
        sums = accumulate(model, sums, outputs, own, weights=jnp.asarray(weights, outputs.dtype), targets=targets)
        if targets is not None:
            members.add(model, outputs, own, weights=weights, targets=targets)
        if levels:
            counts = weights > 0
            kept.append(jax.tree.map(lambda leaf, on=counts: np.asarray(leaf)[on], (outputs, own, weights)))
    assert sums is not None
    part = part_of(sums) | ({} if targets is None else {"members": members.mean_densities()})
    if levels:
        outputs, own, weights = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *kept)
        kept.clear()
        chosen = jnp.asarray(levels, inputs.dtype)
        part["quantiles"] = np.asarray(_quantiles(model, outputs, own, chosen, weights=weights.astype(inputs.dtype)))
    return part


def part_of(sums: Sums) -> dict[str, Any]:
    """The moments of a chunk as NumPy arrays, in the form `join` takes."""
    names = ("mean", "squares", "variance", "entropy", "log_density")
    return {name: np.asarray(getattr(sums, name)) for name in names} | {"count": float(sums.count)}


@eqx.filter_jit
def _outputs(model: BayesianNetwork, positions: Array, inputs: Array) -> tuple[Array, Any]:
    """Outputs `[draw, out, rows]` and likelihood parameters of each draw, one draw at a time to fit a core's cache."""

    def one(position: Array) -> tuple[Array, Any]:
        weights, own = model.split(position)
        return model.network.apply(weights, inputs), own

    return lax.map(one, positions)


@eqx.filter_jit
def _quantiles(model: BayesianNetwork, outputs: Array, own: Any, levels: Array, *, weights: Array) -> Array:
    return mixture_quantiles(model.likelihood, own, outputs, levels, weights)


@eqx.filter_jit
def accumulate(
    model: BayesianNetwork, sums: Sums, outputs: Array, own: Any, *, weights: Array, targets: Array | None
) -> Sums:
    """Merge a chunk of weighted draws into the running moments; draws of weight 0 have no effect."""
    likelihood = model.likelihood
    count = jnp.sum(weights)

    def average(values: Array) -> Array:
        return jnp.tensordot(weights, values, axes=1) / jnp.maximum(count, jnp.finfo(outputs.dtype).tiny)

    means = jax.vmap(likelihood.mean)(own, outputs)
    mean = average(means)
    entropy, log_density = jnp.zeros_like(sums.entropy), jnp.full_like(sums.log_density, -jnp.inf)
    if likelihood.is_classification:
        entropy = average(-jnp.sum(jax.scipy.special.xlogy(means, means), axis=1))
    if targets is not None:
        rows = jax.vmap(likelihood.log_prob, in_axes=(0, 0, None))(own, outputs, targets)
        log_density = jax.nn.logsumexp(rows + jnp.log(weights)[:, None], axis=0)
    chunk = Sums(
        count=count,
        mean=mean,
        squares=jnp.tensordot(weights, (means - mean) ** 2, axes=1),
        variance=average(jax.vmap(likelihood.variance)(own, outputs)),
        entropy=entropy,
        log_density=log_density,
    )
    return joined(sums, chunk)


def joined(one: Sums, other: Sums) -> Sums:
    """Merge two sets of moments (Chan1983)."""
    total = one.count + other.count
    share = other.count / jnp.maximum(total, jnp.finfo(total.dtype).tiny)
    shift = other.mean - one.mean
    return Sums(
        count=total,
        mean=one.mean + share * shift,
        squares=one.squares + other.squares + shift**2 * one.count * share,
        variance=one.variance + share * (other.variance - one.variance),
        entropy=one.entropy + share * (other.entropy - one.entropy),
        log_density=jnp.logaddexp(one.log_density, other.log_density),
    )


def blank_sums(model: BayesianNetwork, outputs: Array, own: Any) -> Sums:
    """Moments of zero draws, shaped for outputs like these, `[draw, outputs, rows]`."""
    mean = jax.eval_shape(jax.vmap(model.likelihood.mean), own, outputs)
    zeros = jnp.zeros(mean.shape[1:], mean.dtype)
    row = zeros[0]
    return Sums(
        count=jnp.zeros((), mean.dtype),
        mean=zeros,
        squares=zeros,
        variance=zeros,
        entropy=row,
        log_density=jnp.full_like(row, -jnp.inf),
    )


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
    samples: Samples, x: Any, *, num_samples: int, seed: int, model: BayesianNetwork | None = None
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

    Returns:
        Simulated targets `[sample, rows, targets]`; class indices for a classification.

    Raises:
        CapabilityError: `model` is None and the samples carry no model.
        DataError: `x` has no rows or is not finite.
        SettingError: `num_samples` or `seed` is out of its range.
    """
    model = _model(samples, model)
    _check_simulation(num_samples, seed)
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

    return _simulate(model, x, chunk, num_samples=num_samples, seed=seed)


def prior_predictive(model: BayesianNetwork, x: Any, *, num_samples: int, seed: int) -> np.ndarray:
    """Simulate targets from the prior predictive distribution; arguments and result as in `sample_predictive`."""
    _check_simulation(num_samples, seed)
    keys = jax.random.split(key_of(seed), num_samples)
    return _simulate(
        model, x, lambda start, stop: _prior_draws(model, keys[start:stop]), num_samples=num_samples, seed=seed
    )


@eqx.filter_jit
def _prior_draws(model: BayesianNetwork, keys: Array) -> Array:
    return lax.map(model.sample_prior, keys)


def _check_simulation(num_samples: Any, seed: Any) -> None:
    for name, value, least in (("num_samples", num_samples, 1), ("seed", seed, 0)):
        if not is_integer(value) or value < least:
            raise SettingError(f"`{name}` must be an integer of at least {least}, got {value!r}.")


def _simulate(
    model: BayesianNetwork, x: Any, chunk: Callable[[int, int], Array], *, num_samples: int, seed: int
) -> np.ndarray:
    """Simulate targets in chunks of samples and rows; `chunk(start, stop)` gives positions `[stop - start, dim]`."""
    rows = Rows(model, x)
    inputs = list(rows.chunks(rows.chunk_size()))
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
            for number, (chunk_inputs, _) in enumerate(inputs)
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
