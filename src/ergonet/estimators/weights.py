"""Weights of training rows, as scikit-learn has them."""

from typing import Any

import numpy as np

from ergonet._errors import DataError
from ergonet.estimators.validating import naming_entries


def weighted_rows(
    x: Any, target: np.ndarray, weights: Any, *, fewest: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The rows whose weight is above 0, with their weights; without weights, all rows and None.

    Raises:
        DataError: there is not one finite weight of at least 0 for each row, or fewer than `fewest` are above 0.
    """
    x = np.asarray(x)
    if weights is None:
        return x, target, None
    with naming_entries(("sample_weight", weights)):
        found = np.asarray(weights, np.float64)
    if found.ndim == 0:
        found = np.full(len(x), found)
    if found.shape != (len(x),):
        raise DataError(f"`sample_weight` must have one number for each of {len(x)} rows, got {list(found.shape)}.")
    bad = ~(np.isfinite(found) & (found >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise DataError(f"`sample_weight` must be finite and at least 0; row {row} (counted from 0) has {found[row]}.")
    is_used = found > 0
    if is_used.sum() < fewest:
        raise DataError(
            f"`sample_weight` is above zero for {int(is_used.sum())} of {len(x)} rows; a fit needs at least 2, an "
            f"update 1."
        )
    return x[is_used], target[is_used], found[is_used]
