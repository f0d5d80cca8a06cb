"""Draws and rows in blocks of one shape, so that memory is bounded and one compiled program serves all blocks."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import CapabilityError, DataError
from ergonet._types import Array
from ergonet.models.network_posterior import BayesianNetwork

DRAW_BLOCK = 64  # draws whose outputs are held at once
ROW_BLOCKS = (32, 256)  # rows of a block: the smaller where it is enough
HELD_BYTES = 256 * 2**20  # stored positions up to this size are read once, larger ones once for each block of rows


def readable(positions: Any) -> Any:
    """Positions in memory where they are small; larger stored ones stay where they are, to be read in blocks."""
    is_small = math.prod(positions.shape) * np.dtype(positions.dtype).itemsize <= HELD_BYTES
    return np.asarray(positions[...]) if is_small else positions


class Rows:
    """Inputs and targets cut into blocks of one shape, the last padded with its own last row."""

    def __init__(self, model: BayesianNetwork, x: Any, y: Any = None):
        if model.network.rows_interact:
            raise CapabilityError(
                "Predictions need a network whose outputs depend on the weights and one row alone, but this one "
                "normalises by the statistics of all rows of a call. Give it rows for these statistics, and pass "
                "the result: `predict(..., model=BayesianNetwork(network.with_reference(x[:500]), prior, likelihood))`."
            )
        self._model = model
        self._x = _checked_inputs(x)
        self.count = self._x.shape[0]
        self.num_outputs = model.num_outputs(model.network.prepare(self._x[:1]))
        self._targets: np.ndarray | None = None
        if y is not None:
            if np.shape(y)[:1] != (self.count,):
                raise DataError(f"`x` has {self.count} rows, but `y` has shape {list(np.shape(y))}. They must match.")
            self._targets = np.asarray(model.likelihood.prepare(y, self.num_outputs))

    def block_size(self, most_outputs: int | None = None) -> int:
        """Rows of a block, with at most so many outputs of one draw where that is asked for."""
        size = next((size for size in ROW_BLOCKS if self.count <= size), ROW_BLOCKS[-1])
        return size if most_outputs is None else max(1, min(size, most_outputs // self.num_outputs))

    def blocks(self, size: int) -> Iterator[tuple[Array, Array | None]]:
        """Prepared inputs and targets (or None) of each block."""
        for start in range(0, self.count, size):
            index = np.minimum(np.arange(start, start + size), self.count - 1)
            inputs = jax.device_put(self._model.network.prepare(self._x[index]))
            targets = None if self._targets is None else self._targets[:, index].astype(inputs.dtype)
            yield inputs, jax.device_put(targets)


def _checked_inputs(x: Any) -> np.ndarray:
    inputs = np.asarray(x)
    if inputs.ndim < 1 or inputs.shape[0] == 0:
        raise DataError(f"`x` must have at least 1 row, got shape {list(inputs.shape)}.")
    inputs = inputs if np.issubdtype(inputs.dtype, np.floating) else inputs.astype(np.float32)
    bad = ~np.isfinite(inputs.reshape(len(inputs), -1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise DataError(
            f"`x` holds {int(bad.sum())} values that are NaN or infinite, the first at row {row}, column {column} "
            f"(counted from 0). Drop those rows or fill them in."
        )
    return inputs


def draw_blocks(positions: Any, weights: np.ndarray) -> Iterator[tuple[Array, np.ndarray]]:
    """Positions of all chains in blocks `[DRAW_BLOCK, dim]`, and the weight of each row; 0 where it is padding."""
    num_chains, num_draws, _ = positions.shape
    for chain in range(num_chains):
        for start in range(0, num_draws, DRAW_BLOCK):
            block = np.asarray(positions[chain, start : start + DRAW_BLOCK])
            missing = DRAW_BLOCK - len(block)
            if missing:
                block = np.concatenate([block, np.repeat(block[-1:], missing, axis=0)])
            yield jnp.asarray(block), np.pad(weights[chain, start : start + DRAW_BLOCK], (0, missing))
