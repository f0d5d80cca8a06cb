"""Predictive densities of the chains as members of an ensemble, each in halves, summed while draws are read."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._types import Array
from ergonet.diagnostics.ensemble import ensemble_figures
from ergonet.draws.samples import Samples
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.chunks import DRAW_CHUNK


class MemberDensities:
    """Log of the weighted mean of predictive densities over the draws in each half of each chain, for a chunk of rows.

    Takes the draws in the order of `draw_chunks`, so only one row of sums per half of a chain is held.
    """

    def __init__(self, weights: np.ndarray):
        """Start with no draws; `weights` are those of all draws, `[chain, draw]`."""
        self._weights = weights
        self._num_draws = weights.shape[1]
        self._sums: list[list[np.ndarray]] = [[] for _ in weights]
        self._chunk = 0

    def add(self, model: BayesianNetwork, outputs: Array, own: Any, *, weights: np.ndarray, targets: Array) -> None:
        """Add the next chunk of draws; those of weight 0 have no effect."""
        chain, part = divmod(self._chunk, -(-self._num_draws // DRAW_CHUNK))
        self._chunk += 1
        is_late = np.arange(part * DRAW_CHUNK, (part + 1) * DRAW_CHUNK) >= self._num_draws // 2
        halves = np.stack([np.where(is_late, 0, weights), np.where(is_late, weights, 0)])
        self._sums[chain].append(
            np.asarray(_densities(model, outputs, own, jnp.asarray(halves, outputs.dtype), targets))
        )

    def mean_densities(self) -> np.ndarray:
        """Log of the mean density over the draws so far, `[chain, 2, rows]`; minus infinity where all weights are 0."""
        sums = np.stack([np.logaddexp.reduce(np.asarray(parts, np.float64), axis=0) for parts in self._sums])
        return sums - np.log(np.maximum(half_weights(self._weights), np.finfo(float).tiny))[:, :, None]


def half_weights(weights: np.ndarray) -> np.ndarray:
    """Summed weights of the draws in the two halves of each chain, `[chain, 2]`."""
    half = weights.shape[1] // 2
    return np.stack([weights[:, :half].sum(axis=1), weights[:, half:].sum(axis=1)], axis=1).astype(np.float64)


def compare_chains(samples: Samples, members: np.ndarray, functions: np.ndarray) -> dict[str, Any]:
    """Compare the chains of a run on held-out rows, as in the table `ensemble` of `metrics.json`.

    Args:
        samples: the run.
        members: the log densities of the rows, `Prediction.members`.
        functions: draws of the monitored predictions, ``[chain, draw, prediction]``.

    Returns:
        Figures by name; empty with fewer than two rows or two chains.
    """
    weights = samples.weights()
    traces = None if np.ptp(weights) > 0 else samples.stats.get("lp")
    return ensemble_figures(members, half_weights(weights), log_posterior=traces, draws=(functions, weights))


@eqx.filter_jit
def _densities(model: BayesianNetwork, outputs: Array, own: Any, halves: Array, targets: Array) -> Array:
    """Log of the weighted sum of the densities of each row, for each half, `[2, rows]`."""
    rows = jax.vmap(model.likelihood.log_prob, in_axes=(0, 0, None))(own, outputs, targets)
    return jax.nn.logsumexp(rows + jnp.log(halves)[:, :, None], axis=1)
