"""Whether new rows resemble the training rows, judged by all inputs together.

The score of a row is its distance to the k-th nearest training row in standardized inputs (RamaswamyRastogiShim2000),
compared with the same distances of the training rows among themselves. A range of each input by itself does not see a
combination of values that never occurred together, and an ellipsoid of the covariance misses gaps and corners.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float
from scipy.spatial import KDTree

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError

NEIGHBORS: Final = 5
UNUSUAL: Final = 0.01  # share of the training rows below which a row counts as outside
FEW_INPUTS: Final = 15  # up to which neighbors are found without a look at most rows
_MOST_ROWS, _MOST_OF_MANY_INPUTS = 20_000, 3_000  # rows that neighbors are sought among


@dataclass(frozen=True, eq=False)
class Domain:
    """The training rows of a model, as a measure of how far others are.

    Attributes:
        tree: the training rows, at most 20000 evenly spaced ones, or 3000 if there are more than 15 inputs.
        own: distance of each of them to its k-th nearest other one, ascending, `[rows]`.
        neighbors: k.
    """

    tree: Any
    own: Float[np.ndarray, "rows"]
    neighbors: int

    @classmethod
    def of(cls, x: Any, *, neighbors: int = NEIGHBORS) -> "Domain":
        """Learn from training rows.

        Args:
            x: standardized inputs `[rows, inputs]`, as `Preprocessing.transform` gives them. Distances depend on their
                scales.
            neighbors: k, at least 1: larger values see single training rows less.

        Raises:
            DataError: `x` is no table of finite numbers, or has too few rows.
            SettingError: `neighbors` is below 1.
        """
        if not is_integer(neighbors) or neighbors < 1:
            raise SettingError(f"`neighbors` must be an integer of at least 1, got {neighbors!r}.")
        rows = _table(x)
        most = _MOST_ROWS if rows.shape[1] <= FEW_INPUTS else _MOST_OF_MANY_INPUTS
        rows = rows[np.linspace(0, len(rows) - 1, min(most, len(rows))).round().astype(np.int64)]
        if len(rows) <= neighbors:
            raise DataError(f"`x` has {len(rows)} rows; {neighbors} neighbors of each need at least {neighbors + 1}.")
        tree = KDTree(rows)
        return cls(tree, np.sort(_distances(tree, rows, neighbors + 1)), int(neighbors))

    def distance(self, x: Any) -> Float[np.ndarray, "new"]:
        """Distance of each row of standardized inputs to its k-th nearest training row."""
        rows = _table(x)
        if rows.shape[1] != self.tree.m:
            raise DataError(f"`x` has {rows.shape[1]} inputs, but the training rows had {self.tree.m}.")
        return _distances(self.tree, rows, self.neighbors)

    def score(self, x: Any) -> Float[np.ndarray, "new"]:
        """How usual each row is: the share of training rows that are at least as far from the others, in (0, 1].

        It is about uniform for rows that come from where the training rows do, and 1 / (rows + 1) for rows that are
        farther from them than any of these. Below 0.01, predictions are extrapolations.
        """
        at_least = len(self.own) - np.searchsorted(self.own, self.distance(x), side="left")
        return (1 + at_least) / (1 + len(self.own))


def _table(x: Any) -> np.ndarray:
    rows = np.asarray(x, np.float64)
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise DataError(f"`x` must be a table of finite numbers [rows, inputs], got the shape {list(rows.shape)}.")
    return rows


def _distances(tree: Any, rows: np.ndarray, neighbor: int) -> np.ndarray:
    found = np.asarray(tree.query(rows, k=[neighbor])[0]).reshape(len(rows))
    return found / math.sqrt(rows.shape[1])
