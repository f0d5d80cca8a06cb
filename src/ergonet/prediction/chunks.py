"""Draws and rows in chunks of one shape: memory is bounded, and one compiled program serves every chunk."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import CapabilityError, DataError
from ergonet._fork import require_jax
from ergonet._types import Array
from ergonet.models.checked import require_finite
from ergonet.models.network_posterior import BayesianNetwork

DRAW_CHUNK = 64  # draws whose outputs are held at once
MOST_DRAWS = 512  # of a chunk of draws in memory: fewer calls
ROW_CHUNKS = {1: 1, 8: 8, 256: 64, 512: 512}  # up to so many rows, and above: rows per chunk
SIMULATED_ROWS = {32: 32, 256: 256}  # the same for simulated targets, whose noise depends on it
IN_MEMORY_BYTES = 256 * 2**20  # stored positions up to this size are read once, larger ones once per chunk of rows


def readable(positions: Any) -> Any:
    """Load small stored positions into memory; leave larger ones on disk, to be read in chunks."""
    is_small = math.prod(positions.shape) * np.dtype(positions.dtype).itemsize <= IN_MEMORY_BYTES
    return np.asarray(positions[...]) if is_small else positions


class Rows:
    """Inputs and targets in chunks of one shape; the last chunk is padded by repeating rows."""

    def __init__(self, model: BayesianNetwork, x: Any, y: Any = None, *, num_outputs: int | None = None):
        require_jax()
        if model.network.rows_interact:
            raise CapabilityError(
                "Predictions need a network whose outputs for a row depend on that row and the weights only, but this "
                "one normalizes by the statistics of all rows in a call. Fix the rows that supply the statistics and "
                "pass the result: "
                "`predict(..., model=BayesianNetwork(network.with_reference(x[:500]), prior, likelihood))`."
            )
        self._model = model
        self._x = _checked_inputs(x)
        self.count = self._x.shape[0]
        self._num_outputs = num_outputs
        self._targets: np.ndarray | None = None
        if y is not None:
            if np.shape(y)[:1] != (self.count,):
                raise DataError(f"`x` has {self.count} rows, but `y` has shape {list(np.shape(y))}. They must match.")
            self._targets = np.asarray(model.likelihood.prepare(y, self.num_outputs))

    @property
    def num_outputs(self) -> int:
        """Outputs of the network for a row, found by tracing it unless they were given."""
        if self._num_outputs is None:
            self._num_outputs = self._model.num_outputs(self._model.network.prepare(self._x[:1]))
        return self._num_outputs

    def chunk_size(self, most_outputs: int | None = None, sizes: Mapping[int, int] = ROW_CHUNKS) -> int:
        """Number of rows per chunk; with `most_outputs`, small enough that a draw has at most so many outputs."""
        size = next((size for most, size in sizes.items() if self.count <= most), max(sizes.values()))
        return size if most_outputs is None else max(1, min(size, most_outputs // self.num_outputs))

    def chunks(self, size: int) -> Iterator[tuple[Array, Array | None]]:
        """Yield the prepared inputs and targets (None without `y`) of each chunk."""
        for start in range(0, self.count, size):
            yield self.chunk(start, size)

    def chunk(self, start: int, size: int) -> tuple[Array, Array | None]:
        """The prepared inputs and targets of `size` rows from row `start` on."""
        index = np.minimum(np.arange(start, start + size), self.count - 1)
        inputs = jax.device_put(self._model.network.prepare(self._x[index]))
        if self._targets is None:
            return inputs, None
        return inputs, jax.device_put(self._targets[:, index].astype(inputs.dtype))


def _checked_inputs(x: Any) -> np.ndarray:
    inputs = np.asarray(x)
    if inputs.ndim < 1 or inputs.shape[0] == 0:
        raise DataError(f"`x` must have at least 1 row, got shape {list(inputs.shape)}.")
    inputs = inputs if np.issubdtype(inputs.dtype, np.floating) else inputs.astype(np.float32)
    require_finite("x", inputs)
    return inputs


def draw_chunks(positions: Any, weights: np.ndarray) -> Iterator[tuple[Array, np.ndarray]]:
    """Yield the positions of all chains in chunks `[DRAW_CHUNK, dim]` with a weight per row; padding has weight 0."""
    num_chains, num_draws, _ = positions.shape
    for chain in range(num_chains):
        for start in range(0, num_draws, DRAW_CHUNK):
            yield _padded(positions[chain, start : start + DRAW_CHUNK], weights[chain, start:], DRAW_CHUNK)


def held_chunks(positions: np.ndarray, weights: np.ndarray) -> list[tuple[Array, Array]]:
    """Positions in memory and weights of the draws of all chains, on the device, in chunks of two sizes."""
    flat, of_draw, found, start = positions.reshape(-1, positions.shape[2]), weights.reshape(-1), [], 0
    while start < len(flat):
        size = MOST_DRAWS if len(flat) - start > 3 * MOST_DRAWS // 4 else DRAW_CHUNK
        chunk, used = _padded(flat[start : start + size], of_draw[start:], size)
        found.append((chunk, jnp.asarray(used, chunk.dtype)))
        start += size
    return found


def _padded(positions: Any, weights: np.ndarray, size: int) -> tuple[Array, np.ndarray]:
    """At most `size` draws, padded by repeating the last one with weight 0."""
    chunk = np.asarray(positions)
    missing = size - len(chunk)
    if missing:
        chunk = np.concatenate([chunk, np.repeat(chunk[-1:], missing, axis=0)])
    return jnp.asarray(chunk), np.pad(weights[: size - missing], (0, missing))
