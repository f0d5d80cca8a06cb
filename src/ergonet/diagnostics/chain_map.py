"""A map of chains by the distance between what they predict: classical scaling of their predictive distributions.

The distance between two chains is the root mean square, over monitored predictions, of the Wasserstein distances of
order 2 between the distributions of each prediction, in units of its standard deviation over all chains. In one
dimension this is the distance between quantile functions, so the distances are those of points in a Euclidean space,
and classical scaling (Torgerson1952) is their projection on principal axes: no part of a squared distance is negative,
and the share of each axis is exact.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ergonet._errors import SettingError
from ergonet.diagnostics.averages import estimates
from ergonet.diagnostics.chains import check_draws

LEVELS = (np.arange(25) + 0.5) / 25  # of the quantiles that stand for a distribution
FEWEST_DRAWS = 8  # of a chain


@dataclass(frozen=True)
class ChainMap:
    """Chains as points of a plane.

    Attributes:
        chains: indices of the chains, from 0; without chains of weight 0.
        points: where each chain is, ``[chain, 2]``, in standard deviations of a prediction.
        halves: where the first and the second half of its draws are, ``[chain, 2, 2]``; NaN for halves of weight 0.
        shares: share of all squared distances between chains that each axis shows, ``[2]``; together at most 1.
        distances: distance between the chains, in all dimensions, ``[chain, chain]``.
        moves: distance between the halves of each chain, in all dimensions, ``[chain]``; NaN if one has no weight.
    """

    chains: tuple[int, ...]
    points: Float[np.ndarray, "chain 2"]
    halves: Float[np.ndarray, "chain 2 2"]
    shares: Float[np.ndarray, "2"]
    distances: Float[np.ndarray, "chain chain"]
    moves: Float[np.ndarray, "chain"]

    @property
    def typical_distance(self) -> float:
        """Median distance between two chains."""
        return float(np.median(self.distances[np.triu_indices(len(self.chains), 1)]))

    @property
    def typical_move(self) -> float:
        """Median distance between the halves of a chain; NaN if no chain has two halves.

        For chains that have merged and mix well, it is sqrt(2) times as large as the distance between chains, which
        have twice as many draws.
        """
        known = self.moves[~np.isnan(self.moves)]
        return float(np.median(known)) if known.size else float("nan")


def chain_map(values: Any, weights: Any = None) -> ChainMap | None:
    """Place chains on a map by the distances between their distributions of predictions.

    Args:
        values: draws of monitored predictions, ``[chain, draw, quantity]``, such as ``samples.monitor()``. Quantities
            that are constant or not finite are left out.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        The map; None with fewer than two chains that count or eight draws, or if no quantity is left.

    Raises:
        SettingError: the shapes do not match.
    """
    num_chains, num_draws, _ = check_draws(values)
    known = np.ones((num_chains, num_draws)) if weights is None else np.asarray(weights, np.float64)
    if known.shape != (num_chains, num_draws):
        raise SettingError(
            f"`weights` must have shape [{num_chains}, {num_draws}] (chain, draw), got {list(known.shape)}."
        )
    used = np.flatnonzero(known.any(axis=1))
    draws, known = np.asarray(values, np.float64)[used], known[used]
    if len(used) < 2 or num_draws < FEWEST_DRAWS:
        return None
    finite = draws[:, :, np.isfinite(draws).all(axis=(0, 1))]
    spread = estimates(known).sd(finite)
    scaled = finite[:, :, spread > 0] / spread[spread > 0]
    if not scaled.shape[2]:
        return None
    wholes = np.stack([_quantiles(*chain) for chain in zip(scaled, known, strict=True)])
    half = num_draws // 2
    parts = (scaled[:, :half], known[:, :half]), (scaled[:, half:], known[:, half:])
    halves = np.stack([[_quantiles(*chain) for chain in zip(*part, strict=True)] for part in parts], axis=1)
    center = wholes.mean(axis=0)
    points, singular, axes = np.linalg.svd(wholes - center, full_matrices=False)
    squares, size = singular**2, np.sqrt(wholes.shape[1])
    return ChainMap(
        chains=tuple(used.tolist()),
        points=_two(points * singular) / size,
        halves=_two((halves - center) @ axes.T) / size,
        shares=_two(squares / squares.sum() if squares.sum() > 0 else np.zeros_like(squares)),
        distances=np.stack([np.linalg.norm(wholes - one, axis=1) for one in wholes]) / size,
        moves=np.linalg.norm(halves[:, 1] - halves[:, 0], axis=1) / size,
    )


def _quantiles(values: Float[np.ndarray, "draw quantity"], weights: Float[np.ndarray, "draw"]) -> np.ndarray:
    """Quantile functions of all quantities, `[level * quantity]`; NaN where all weights are 0."""
    if not weights.any():
        return np.full(len(LEVELS) * values.shape[1], np.nan)
    of = estimates(weights[None])
    return np.concatenate([of.quantile(values[None], float(level)) for level in LEVELS])


def _two(values: np.ndarray) -> np.ndarray:
    """The first two entries of the last axis, of which there may be fewer."""
    return np.pad(values[..., :2], [(0, 0)] * (values.ndim - 1) + [(0, max(0, 2 - values.shape[-1]))])
