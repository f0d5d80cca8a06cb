"""Quantities of draws: weights, named parameters, monitored quantities, learned scales, pointwise log likelihoods."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError
from ergonet._fork import require_jax
from ergonet._keys import key_of
from ergonet._types import Array, Float, Int
from ergonet.draws.record import Record
from ergonet.target.capabilities import Monitor, PointwiseLogLikelihood, Scales, Simulation, quantities
from ergonet.target.contract import AbstractTarget, Missing, offers, require
from ergonet.target.layout import flatten_names
from ergonet.target.padding import padded_size

ROW_CHUNK, DRAW_CHUNK = 256, 4096  # for log likelihoods: rows per evaluation, draws per call
BLOCK = 128  # draws whose monitored quantities are computed by one call, while a run goes on
DRAWS_AT_ONCE = 4  # evaluated together, so that at most so many times ROW_CHUNK rows pass through a network at a time


def draw_weights(record: Record) -> np.ndarray:
    """Weight of each draw, `[chain, draw]`: 1, or the weight given by the schedule of a minibatch kernel.

    Raises:
        SettingError: every stored draw has weight 0.
    """
    shape = record.num_chains, record.num_draws
    weights = np.asarray(record.stats.get("weight", np.ones(shape)), np.float32)
    if not np.any(weights > 0):
        raise SettingError(
            "Every stored draw has weight 0: the schedule was still exploring when each was taken. Store other draws "
            "(`retention`), or shorten the exploration stage of the cycles."
        )
    return weights


def or_equal(weights: np.ndarray) -> np.ndarray:
    """Weights `[chain, draw]`, but 1 for all draws of a chain in which every draw has weight 0."""
    return np.where(weights.any(axis=1, keepdims=True), weights, 1.0)


def spread_draws(weights: np.ndarray, most: int) -> np.ndarray:
    """Indices `[chain, at most most]` of draws at equal distances of summed weight; all of them if all are equal."""
    count = min(weights.shape[1], most)
    levels = (np.arange(count) + 0.5) / count
    sums = np.cumsum(or_equal(weights), axis=1, dtype=np.float64)
    return np.stack([np.searchsorted(one / one[-1], levels) for one in sums])


def parameters(record: Record) -> dict[str, np.ndarray]:
    """Named arrays `[chain, draw, ...]`.

    Raises:
        CapabilityError: the target is unknown.
    """
    target = record.require_target().device_part()
    return _by_name(record, lambda positions: _parameters(target, positions))


def monitored(record: Record) -> Any:
    """Quantities on which convergence is judged, `[chain, draw, quantity]`: predictions, or else the positions.

    Positions are as the record has them, which may be on disk.
    """
    target = record.target
    if target is None or not offers(target, Monitor):
        return record.positions
    part = target.device_part()
    return _by_name(record, lambda positions: {"": _monitor(part, positions)})[""]


def monitor(target: AbstractTarget, positions: np.ndarray) -> np.ndarray:
    """Monitored quantities `[draw, quantity]` of positions `[draw, dim]`, at least one, of a target that has any.

    They are computed in blocks of 128 draws, so that one program does for any number.
    """
    part = target.device_part()
    return _in_blocks(positions, lambda block: _monitor(part, block))


def row_densities(rows: PointwiseLogLikelihood, positions: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Log likelihoods `[draw, row]` of the rows with these numbers at positions `[draw, dim]`, in such blocks, too."""
    return _in_blocks(positions, lambda block: _log_likelihood(rows, block, jnp.asarray(numbers)))


def _in_blocks(positions: np.ndarray, evaluate: Callable[[Array], Array]) -> np.ndarray:
    require_jax()
    starts, last = range(0, len(positions), BLOCK), len(positions) - 1
    blocks = [positions[np.minimum(np.arange(start, start + BLOCK), last)] for start in starts]
    return np.concatenate([np.asarray(evaluate(jnp.asarray(one))) for one in blocks])[: len(positions)]


def learned_scales(record: Record) -> dict[str, np.ndarray]:
    """Learned standard deviations by name, `[chain, draw]` or `[chain, draw, input]`; empty if there are none."""
    found = Missing("") if record.target is None else record.target.device_part().capability(Scales)
    return {} if isinstance(found, Missing) else _by_name(record, lambda positions: _scales(found, positions))


def log_likelihood(record: Record) -> np.ndarray:
    """Log likelihood of each row of the data, `[chain, draw, row]`, computed in chunks of rows and draws.

    Raises:
        CapabilityError: the target is unknown, or has no pointwise log likelihood.
    """
    return np.concatenate(list(log_likelihoods(record)), axis=-1)


def log_likelihoods(record: Record) -> Iterator[np.ndarray]:
    """Yield the log likelihoods `[chain, draw, row]` of at most `ROW_CHUNK` rows at a time, in the order of the rows.

    Raises:
        CapabilityError: the target is unknown, or has no pointwise log likelihood.
    """
    require_jax()
    rows = require(record.require_target(), PointwiseLogLikelihood, "log_likelihood")

    def evaluate(positions: Array, numbers: Array, _: tuple[int, int, int]) -> Array:
        return _log_likelihood(rows, positions, numbers)

    return _by_row(record, rows.num_rows, evaluate)


def simulations(record: Record, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Targets of the rows of the data simulated from every draw, computed in chunks, and the observed ones.

    Args:
        record: the run, with its target.
        seed: seeds the simulation.

    Returns:
        Simulated `[chain, draw, row]` and observed targets `[row]`; with several targets, these are the last axis. In
        the units of the network; class indices for a classification.

    Raises:
        CapabilityError: the target is unknown, or simulates nothing.
    """
    require_jax()
    rows, key = require(record.require_target(), Simulation, "posterior_predictive"), key_of(seed)
    observed = np.moveaxis(np.asarray(rows.observed()), 0, -1)

    def evaluate(positions: Array, numbers: Array, chunk: tuple[int, int, int]) -> Array:
        own = functools.reduce(jax.random.fold_in, chunk, key)
        return _simulations(rows, jax.random.split(own, len(positions)), positions, numbers)

    simulated = np.moveaxis(np.concatenate(list(_by_row(record, rows.num_rows, evaluate)), axis=-1), 2, -1)
    return (simulated[..., 0], observed[..., 0]) if observed.shape[-1] == 1 else (simulated, observed)


def _by_row(
    record: Record, num_rows: int, evaluate: Callable[[Array, Array, tuple[int, int, int]], Array]
) -> Iterator[np.ndarray]:
    """Evaluate a function of positions `[draw, dim]` and rows, and yield `[chain, draw, ..., row]` by chunks of rows.

    The function also gets the first row of the chunk, the chain, and the number of the chunk of draws.
    """
    size = min(padded_size(num_rows), ROW_CHUNK)
    for start in range(0, num_rows, size):
        index = np.minimum(np.arange(start, start + size), num_rows - 1)  # of one shape, so that one program suffices
        numbers, count = jnp.asarray(index), min(size, num_rows - start)
        chains = [
            [
                np.asarray(evaluate(jnp.asarray(part), numbers, (start, chain, number)))
                for number, part in enumerate(record.chunks(chain, DRAW_CHUNK))
            ]
            for chain in range(record.num_chains)
        ]
        yield np.stack([np.concatenate(parts) for parts in chains])[..., :count]


def _by_name(record: Record, evaluate: Callable[[Any], dict[str, Any]]) -> dict[str, np.ndarray]:
    """Evaluate a function of positions `[draw, dim]` chunk by chunk; arrays `[chain, draw, ...]` by name."""
    require_jax()
    chains = [
        [jax.tree.map(np.asarray, evaluate(jnp.asarray(positions))) for positions in record.chunks(chain)]
        for chain in range(record.num_chains)
    ]
    return {
        name: np.stack([np.concatenate([chunk[name] for chunk in parts]) for parts in chains]) for name in chains[0][0]
    }


@eqx.filter_jit
def _parameters(target: AbstractTarget, positions: Float[Array, "draw dim"]) -> dict[str, Array]:
    return jax.vmap(lambda position: dict(flatten_names(target.unravel(position))))(positions)


@eqx.filter_jit
def _monitor(target: AbstractTarget, positions: Float[Array, "draw dim"]) -> Float[Array, "draw quantity"]:
    return jax.lax.map(lambda position: quantities(target, position), positions, batch_size=64)


@eqx.filter_jit
def _scales(learned: Scales, positions: Float[Array, "draw dim"]) -> dict[str, Array]:
    return jax.vmap(learned.scales)(positions)


@eqx.filter_jit
def _log_likelihood(
    rows: PointwiseLogLikelihood, positions: Float[Array, "draw dim"], numbers: Int[Array, "row"]
) -> Float[Array, "draw row"]:
    return jax.lax.map(lambda one: rows.log_likelihood(one, numbers), positions, batch_size=DRAWS_AT_ONCE)


@eqx.filter_jit
def _simulations(
    rows: Simulation, keys: Array, positions: Float[Array, "draw dim"], numbers: Int[Array, "row"]
) -> Float[Array, "draw target row"]:
    return jax.lax.map(lambda one: rows.simulate(one[0], one[1], numbers), (keys, positions), batch_size=DRAWS_AT_ONCE)
