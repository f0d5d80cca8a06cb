"""Running moments of a predictive distribution over draws, for a chunk of rows."""

from collections.abc import Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import AnyArray, Array, Float
from ergonet.execution.threads import options
from ergonet.models.network_posterior import BayesianNetwork

_BY_OUTPUT = ("mean", "remainder", "squares", "variance")  # moments that every output has
ROOM = 1e4  # root of the number of squares that can be summed


class Sums(eqx.Module):
    """Running moments over weighted draws for a chunk of rows; `count` is the sum of the weights."""

    count: Float[Array, ""]
    mean: Float[Array, "out rows"]
    remainder: Float[Array, "out rows"]  # what rounding took from `mean`
    squares: Float[Array, "out rows"]  # sum of squared deviations of the draws' means
    variance: Float[Array, "out rows"]  # mean of the draws' noise variances
    entropy: Float[Array, "rows"]  # mean of the draws' entropies
    log_density: Float[Array, "rows"]  # log of the sum over draws


def stacked(sums: Sequence[Sums]) -> dict[str, np.ndarray]:
    """Moments of several sets of draws by name, with a first axis for the sets."""
    return {one.name: np.stack([np.asarray(getattr(part, one.name)) for part in sums]) for one in fields(Sums)}


def packed(sums: Sums) -> Array:
    """Moments in one array `[line, rows]`, since every array that leaves the device takes time."""
    lines = [getattr(sums, name) for name in _BY_OUTPUT] + [sums.entropy[None], sums.log_density[None]]
    return jnp.concatenate([*lines, jnp.broadcast_to(sums.count, lines[-1].shape)])


def unpacked(lines: Sequence[Array]) -> dict[str, np.ndarray]:
    """What `stacked` returns, from what `packed` returned for each set of draws."""
    table = np.stack([np.asarray(one) for one in lines])
    parts = np.split(table[:, :-3], len(_BY_OUTPUT), axis=1)
    rest = {"entropy": table[:, -3], "log_density": table[:, -2], "count": table[:, -1, 0]}
    return dict(zip(_BY_OUTPUT, parts, strict=True)) | rest


def part_of(every: dict[str, np.ndarray]) -> dict[str, Any]:
    """The moments of a chunk of rows over all draws, from `stacked` ones of sets of draws (Chan1983).

    The mean is in float64, so that a row's does not depend on the rows beside it, which change the order of a sum.
    """
    counts = every["count"].astype(np.float64)
    shares = counts / max(counts.sum(), np.finfo(np.float32).tiny)

    def average(values: np.ndarray) -> np.ndarray:
        return np.tensordot(shares, values, axes=1).astype(values.dtype)

    means = every["mean"].astype(np.float64) + every["remainder"]
    mean = average(means)
    between = np.tensordot(counts, (means - mean) ** 2, axes=1)
    return {
        "count": counts.sum(),
        "mean": mean,
        "squares": every["squares"].sum(axis=0) + between,
        "variance": average(every["variance"]),
        "entropy": average(every["entropy"]),
        "log_density": np.logaddexp.reduce(every["log_density"], axis=0),
    }


class Moments:
    """The compiled moments of the predictions of a model; on a CPU, a program runs on the thread that calls it.

    The model is flattened once, so that a call costs little more than its program; models that differ only in arrays
    share one program.
    """

    def __init__(self, model: BayesianNetwork):
        """Flatten the model; nothing is compiled before the first call."""
        leaves, structure = jax.tree.flatten(model)
        is_array = tuple(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves)
        fixed = tuple(None if traced else leaf for leaf, traced in zip(leaves, is_array, strict=True))
        self._arrays = [jnp.asarray(leaf) for leaf, traced in zip(leaves, is_array, strict=True) if traced]
        self._program = _program(jax.default_backend(), structure, is_array, fixed)

    def __call__(
        self, positions: Array, weights: AnyArray, inputs: Array, targets: Array | None
    ) -> tuple[Array, Array, Any]:
        """`packed` moments over a chunk of draws, and what `network_outputs` returns."""
        return self._program(self._arrays, positions, weights, inputs, targets)


@lru_cache(maxsize=64)
def _program(platform: str, structure: Any, is_array: tuple[bool, ...], fixed: tuple[Any, ...]) -> Any:
    """The compiled `_moments` of all models of this structure whose leaves are `fixed`, or arrays that are passed."""

    def moments(arrays: list[Array], *arguments: Any) -> tuple[Array, Array, Any]:
        passed = iter(arrays)
        leaves = [next(passed) if traced else leaf for leaf, traced in zip(fixed, is_array, strict=True)]
        return _moments(structure.unflatten(leaves), *arguments)

    return jax.jit(moments, **options(platform))


def _moments(
    model: BayesianNetwork, positions: Array, weights: Array, inputs: Array, targets: Array | None
) -> tuple[Array, Array, Any]:
    outputs, own = network_outputs(model, positions, inputs)
    nothing = blank_sums(model, outputs, own)
    return packed(accumulate(model, nothing, outputs, own, weights=weights, targets=targets)), outputs, own


@eqx.filter_jit
def network_outputs(model: BayesianNetwork, positions: Array, inputs: Array) -> tuple[Array, Any]:
    """Outputs `[draw, out, rows]` and likelihood parameters of each draw, one draw at a time to fit a core's cache."""

    def one(position: Array) -> tuple[Array, Any]:
        weights, own = model.split(position)
        return model.network.apply(weights, inputs), own

    return lax.map(one, positions)


@eqx.filter_jit
def accumulate(
    model: BayesianNetwork, sums: Sums, outputs: Array, own: Any, *, weights: Array, targets: Array | None
) -> Sums:
    """Merge a chunk of weighted draws into the running moments; draws of weight 0 have no effect.

    A draw whose mean is beyond all numbers, as the exponential of a far extrapolation may be, counts with the largest
    mean of which the sum of squares is a number.
    """
    likelihood, count = model.likelihood, jnp.sum(weights)
    largest = jnp.sqrt(jnp.finfo(outputs.dtype).max) / ROOM

    def average(values: Array) -> Array:
        return jnp.tensordot(weights, values, axes=1) / jnp.maximum(count, jnp.finfo(outputs.dtype).tiny)

    means = jnp.clip(jax.vmap(likelihood.mean)(own, outputs), -largest, largest)
    variances = jnp.minimum(jax.vmap(likelihood.variance)(own, outputs), largest**2)
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
        remainder=average(means - mean),
        squares=jnp.tensordot(weights, (means - mean) ** 2, axes=1),
        variance=average(variances),
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
        remainder=one.remainder + share * (other.remainder - one.remainder),
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
        remainder=zeros,
        squares=zeros,
        variance=zeros,
        entropy=row,
        log_density=jnp.full_like(row, -jnp.inf),
    )
