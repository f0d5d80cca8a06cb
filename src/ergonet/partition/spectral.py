"""The choice of cuts from a pilot run: spectral clusters of its draws, and the cuts that tell them apart.

The draws are clustered by the leading eigenvectors of their affinities exp(-d_ij^2 / (s_i s_j)), with the distance s_i
to the seventh neighbor as the local scale (ZelnikManor2004). A partition of boxes then approximates the clusters: cuts
are chosen one after the other: the coordinate in which a cut leaves the least entropy of the clusters within parts, and
of its cuts that gain 95 % as much, since a few draws may be in a wrong cluster, the one in the widest gap between
draws. Source: Basse2016.
"""

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from ergonet._checks import is_integer
from ergonet._errors import SettingError, shown
from ergonet._keys import derived_seed
from ergonet.partition.regions import Partition, Points, pilot_points, require_room, split
from ergonet.target.contract import AbstractTarget

MOST_DRAWS = 500  # that are clustered, evenly spaced; the cost is their cube
NEIGHBOR = 7
LEAST_GAIN = 0.95  # of the best cut's
FEWEST_PER_PART = 10
CLUSTERS = 0x436C7573  # purpose of the seed


def split_by_clusters(
    target: AbstractTarget, pilot: Any, num_coordinates: int = 1, *, num_clusters: int | None = None, seed: int
) -> Partition:
    """Choose coordinates and cuts that tell the clusters of a pilot run apart.

    Args:
        target: what is sampled.
        pilot: draws `[..., dim]` of chains that have seen all modes, such as `samples.positions`.
        num_coordinates: number of coordinates s to cut, at least 1; there are 2^s parts.
        num_clusters: number of clusters, at least 2; None: 2^s.
        seed: the seed of the clustering, 0 to 2^63 - 1.

    Raises:
        SettingError: an argument is out of range, or there are too few draws for so many parts.
    """
    points = pilot_points(pilot, target.dim)
    if not is_integer(num_coordinates) or not 1 <= num_coordinates <= target.dim:
        raise SettingError(
            f"`num_coordinates` must be an integer from 1 to {target.dim}, the number of coordinates, got "
            f"{shown(num_coordinates)}."
        )
    require_room(2 ** int(num_coordinates))
    number = 2 ** int(num_coordinates) if num_clusters is None else num_clusters
    if not is_integer(number) or number < 2:
        raise SettingError(f"`num_clusters` must be an integer of at least 2, got {shown(num_clusters)}.")
    draws = np.unique(points[:: -(-len(points) // MOST_DRAWS)].astype(np.float64), axis=0)
    if len(draws) < FEWEST_PER_PART * number:
        raise SettingError(
            f"`pilot` has {len(draws)} different draws, too few for {number} clusters: at least "
            f"{FEWEST_PER_PART} of each are needed (of at most {MOST_DRAWS} that are read). Split fewer coordinates, "
            "or draw more."
        )
    sd = draws.std(axis=0)
    labels = clusters(draws[:, sd > 0] / sd[sd > 0], number, derived_seed(seed, CLUSTERS) % 2**32)
    return split(target, _cuts(draws, labels, int(num_coordinates)))


def clusters(draws: Points, number: int, seed: int) -> Int[np.ndarray, "point"]:
    """Spectral clusters of standardized draws."""
    from sklearn.cluster import SpectralClustering

    distances = cdist(draws, draws)
    scale = np.partition(distances, NEIGHBOR, axis=1)[:, NEIGHBOR]
    affinity = np.exp(-(distances**2) / np.outer(scale, scale))
    method = SpectralClustering(number, affinity="precomputed", random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Graph is not fully connected"
        )  # separate modes are what is looked for
        return np.unique(method.fit_predict(affinity), return_inverse=True)[1]


def _cuts(draws: Points, labels: Int[np.ndarray, "point"], number: int) -> dict[int, float]:
    """Cuts of different coordinates, chosen one after the other."""
    found: dict[int, float] = {}
    parts = np.zeros(len(draws), int)
    for _ in range(number):
        free = [one for one in range(draws.shape[1]) if one not in found and np.ptp(draws[:, one]) > 0]
        if not free:
            raise SettingError("Too few coordinates of `pilot` vary for so many cuts. Split fewer coordinates.")
        entropies = [_entropies(draws[:, one], labels, parts).min() for one in free]
        best = free[int(np.argmin(entropies))]
        found[best] = _widest(draws[:, best], _entropies(draws[:, best], labels, parts))
        parts = 2 * parts + (draws[:, best] >= found[best])
    return found


def _entropies(
    values: Float[np.ndarray, "point"], labels: Int[np.ndarray, "point"], parts: Int[np.ndarray, "point"]
) -> Float[np.ndarray, "cut"]:
    """Entropy of the labels within parts after each cut between two neighbors, and last after none."""
    order = np.argsort(values)
    ordered, kinds = values[order], labels.max() + 1
    member = (labels + kinds * parts)[order][:, None] == np.arange(kinds * (parts.max() + 1))
    below = np.cumsum(member, axis=0).reshape(len(values), -1, kinds)
    above = member.sum(axis=0).reshape(1, -1, kinds) - below
    is_gap = np.append(np.diff(ordered) > 0, True)
    return np.where(is_gap, sum(_entropy(counts) for counts in (below, above)), np.inf)


def _widest(values: Float[np.ndarray, "point"], entropies: Float[np.ndarray, "cut"]) -> float:
    """The middle of the widest gap among cuts that are about as good as the best."""
    ordered, after, none = np.sort(values), entropies[:-1], entropies[-1]
    good = none - after >= LEAST_GAIN * (none - after.min()) - 1e-9
    best = int(np.argmax(np.where(good, np.diff(ordered), -1.0)))
    return float((ordered[best] + ordered[best + 1]) / 2)


def _entropy(counts: Int[np.ndarray, "cut part kind"]) -> Float[np.ndarray, "cut"]:
    """Sum over points of minus the log share of their label in their part."""
    totals = counts.sum(axis=2)
    return xlogy(totals, totals).sum(axis=1) - xlogy(counts, counts).sum(axis=(1, 2))
