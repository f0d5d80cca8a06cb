"""Quantities of draws: weights, named parameters, monitored quantities, learned scales, pointwise log likelihoods."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError
from ergonet._fork import require_jax
from ergonet._types import Array, Float, Int
from ergonet.draws.record import Record
from ergonet.target.capabilities import Monitor, PointwiseLogLikelihood, Scales, quantities
from ergonet.target.contract import AbstractTarget, Missing, offers, require
from ergonet.target.layout import flatten_names
from ergonet.target.padding import padded_size

ROW_CHUNK, DRAW_CHUNK = 256, 4096  # for log likelihoods: rows per evaluation, draws per call
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


def parameters(record: Record) -> dict[str, np.ndarray]:
    """Named arrays `[chain, draw, ...]`.

    Raises:
        CapabilityError: the target is unknown.
    """
    target = record.require_target()
    return _by_name(record, lambda positions: _parameters(target, positions))


def monitored(record: Record) -> np.ndarray:
    """Quantities on which convergence is judged, `[chain, draw, quantity]`: predictions, or else the positions."""
    target = record.target
    if target is None or not offers(target, Monitor):
        return np.asarray(record.positions)
    return _by_name(record, lambda positions: {"": _monitor(target, positions)})[""]


def learned_scales(record: Record) -> dict[str, np.ndarray]:
    """Learned standard deviations by name, `[chain, draw]` or `[chain, draw, input]`; empty if there are none."""
    found = Missing("") if record.target is None else record.target.capability(Scales)
    return {} if isinstance(found, Missing) else _by_name(record, lambda positions: _scales(found, positions))


def log_likelihood(record: Record) -> np.ndarray:
    """Log likelihood of each row of the data, `[chain, draw, row]`, computed in chunks of rows and draws.

    Raises:
        CapabilityError: the target is unknown, or has no pointwise log likelihood.
    """
    require_jax()
    rows = require(record.require_target(), PointwiseLogLikelihood, "log_likelihood")
    size = min(padded_size(rows.num_rows), ROW_CHUNK)
    chunks = []
    for start in range(0, rows.num_rows, size):
        index = np.minimum(
            np.arange(start, start + size), rows.num_rows - 1
        )  # of one shape, so that one compilation suffices
        numbers, count = jnp.asarray(index), min(size, rows.num_rows - start)
        chains = [
            [np.asarray(_log_likelihood(rows, jnp.asarray(part), numbers)) for part in record.chunks(chain, DRAW_CHUNK)]
            for chain in range(record.num_chains)
        ]
        chunks.append(np.stack([np.concatenate(parts) for parts in chains])[:, :, :count])
    return np.concatenate(chunks, axis=2)


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
