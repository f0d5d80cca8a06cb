"""The posterior predictive distribution in bounded memory, whatever the number of draws and rows.

Rows are taken in blocks of one shape, so one program serves them all; for each block the draws stream past running
moments. Quantiles are those of the predictive mixture itself (`quantiles.py`): they keep the outputs of every draw for
the rows of one block, and blocks are made as small as that needs.
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
from ergonet._types import Array, Float
from ergonet.inference.samples import Samples
from ergonet.models.network_posterior import BayesianNetwork, NetworkPosterior
from ergonet.prediction.blocks import Rows, draw_blocks, readable
from ergonet.prediction.quantiles import mixture_quantiles

KEPT_BYTES = 128 * 2**20  # outputs of all draws for one block of rows, while quantiles are solved
SAMPLE_BLOCK = 16  # draws that are simulated at once
NOISE_KEY = 0xFFFF_FFFF  # a fold_in number for the noise, apart from the keys of prior draws


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
        """The epistemic part of the entropy `[rows]`, nats, at least 0: what more data could take away.

        None for reals.
        """
        if self.entropy is None or self.expected_entropy is None:
            return None
        return np.maximum(self.entropy - self.expected_entropy, 0.0)


class Sums(eqx.Module):
    """Running moments over weighted draws for a block of rows; `count` is the sum of their weights."""

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
    """The predictive distribution of each row, averaged over all draws by their weight (`draw_weights`).

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
        DataError: x has no rows or is not finite, or y does not fit.
        SettingError: a level is outside (0, 1), or x or the draws do not fit the network.
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
    size = rows.block_size(KEPT_BYTES // (4 * samples.num_chains * samples.num_draws) if levels else None)
    weights = draw_weights(samples)
    parts = [_predict_block(model, (positions, weights), block, levels) for block in rows.blocks(size)]
    return join(model, parts, levels=levels, count=rows.count, has_targets=y is not None)


def _model(samples: Samples, model: BayesianNetwork | None) -> BayesianNetwork:
    if model is None:
        if not isinstance(samples.target, NetworkPosterior):
            raise CapabilityError(
                "These samples know no network. Give `model=BayesianNetwork(...)` to predict with them."
            )
        model = samples.target.model
    dim = samples.positions.shape[2]
    if model.dim != dim:
        raise SettingError(
            f"`model` has {model.dim} coordinates, but the draws have {dim}: they are of another network."
        )
    return model


def draw_weights(samples: Samples) -> np.ndarray:
    """How much each draw counts, `[chain, draw]`: 1, or what the schedule of a minibatch kernel says.

    Raises:
        SettingError: no stored draw counts.
    """
    shape = samples.num_chains, samples.num_draws
    weights = np.asarray(samples.stats.get("weight", np.ones(shape)), np.float32)
    if not np.any(weights > 0):
        raise SettingError(
            "Every stored draw has weight 0: the schedule was still exploring at each of them. Store other draws "
            "(`keep`), or let a cycle explore for a smaller share of it."
        )
    return weights


def _predict_block(model: BayesianNetwork, draws_of: Any, block: Any, levels: tuple[float, ...]) -> dict[str, Any]:
    (positions, every_weight), (inputs, targets) = draws_of, block
    sums, kept = None, []
    for draws, weights in draw_blocks(positions, every_weight):
        outputs, own = _outputs(model, draws, inputs)
        sums = blank_sums(model, outputs, own) if sums is None else sums
        sums = accumulate(model, sums, outputs, own, weights=jnp.asarray(weights, outputs.dtype), targets=targets)
        if levels:
            counts = weights > 0
            kept.append(jax.tree.map(lambda leaf, on=counts: np.asarray(leaf)[on], (outputs, own, weights)))
    assert sums is not None
    part = part_of(sums)
    if levels:
        outputs, own, weights = jax.tree.map(lambda *leaves: jnp.asarray(np.concatenate(leaves)), *kept)
        kept.clear()
        chosen = jnp.asarray(levels, inputs.dtype)
        part["quantiles"] = np.asarray(_quantiles(model, outputs, own, chosen, weights=weights.astype(inputs.dtype)))
    return part


def part_of(sums: Sums) -> dict[str, Any]:
    """The moments of a block as NumPy arrays, as `join` takes them."""
    names = ("mean", "squares", "variance", "entropy", "log_density")
    return {name: np.asarray(getattr(sums, name)) for name in names} | {"count": float(sums.count)}


@eqx.filter_jit
def _outputs(model: BayesianNetwork, positions: Array, inputs: Array) -> tuple[Array, Any]:
    """Outputs `[draw, out, rows]` and likelihood parameters of each draw; one draw at a time suits a core's cache."""

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
    """Join the moments of a block of weighted draws to those of all before; a draw of weight 0 counts for nothing."""
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
    block = Sums(
        count=count,
        mean=mean,
        squares=jnp.tensordot(weights, (means - mean) ** 2, axes=1),
        variance=average(jax.vmap(likelihood.variance)(own, outputs)),
        entropy=entropy,
        log_density=log_density,
    )
    return joined(sums, block)


def joined(one: Sums, other: Sums) -> Sums:
    """The moments of both together (Chan, Golub and LeVeque 1983)."""
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
    """The moments of no draws, for rows whose outputs `[draw, outputs, rows]` are like these."""
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
    """The predictive distribution from the moments of all blocks of rows, `count` of them in all."""

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
        samples: draws of a network's posterior; their positions may lie on disk.
        x: inputs `[rows, ...]` in the units the network was conditioned on.
        num_samples: at least 1. Each takes one posterior draw at random for all rows, so that a sample is a whole
            function with its noise; no draw is taken a second time before all have been taken, unless they count
            differently, and then as often as they count.
        seed: of the choice of draws and of the noise, 0 to 2^63 - 1.
        model: the network; None: the one that the samples know.

    Raises:
        CapabilityError: no model is known.
        DataError: x has no rows or is not finite.
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

    def block(start: int, stop: int) -> Array:
        pairs = zip(chains[start:stop].tolist(), draws[start:stop].tolist(), strict=True)
        return jnp.asarray(np.stack([np.asarray(positions[chain, draw]) for chain, draw in pairs]))

    return _simulate(model, x, block, num_samples=num_samples, seed=seed)


def prior_predictive(model: BayesianNetwork, x: Any, *, num_samples: int, seed: int) -> np.ndarray:
    """Draws of the targets before any data, `[sample, rows, targets]`; arguments as in `sample_predictive`."""
    _check_simulation(num_samples, seed)
    keys = jax.random.split(_key(seed), num_samples)
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


def _key(seed: int) -> Array:
    return jax.random.fold_in(jax.random.key(seed & 0xFFFF_FFFF), seed >> 32)


def _simulate(
    model: BayesianNetwork, x: Any, block: Callable[[int, int], Array], *, num_samples: int, seed: int
) -> np.ndarray:
    """Targets of `block(start, stop)`, which gives positions `[stop - start, dim]`, in blocks of samples and rows."""
    rows = Rows(model, x)
    inputs = list(rows.blocks(rows.block_size()))
    key = jax.random.fold_in(_key(seed), NOISE_KEY)
    samples = []
    for start in range(0, num_samples, SAMPLE_BLOCK):
        positions = block(start, min(start + SAMPLE_BLOCK, num_samples))
        count = len(positions)
        padding = jnp.broadcast_to(positions[-1:], (SAMPLE_BLOCK - count, positions.shape[1]))
        positions = jnp.concatenate([positions, padding])
        of_block = jax.random.fold_in(key, start // SAMPLE_BLOCK)
        parts = [
            np.asarray(_noisy(model, positions, block_inputs, jax.random.fold_in(of_block, number)))
            for number, (block_inputs, _) in enumerate(inputs)
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
