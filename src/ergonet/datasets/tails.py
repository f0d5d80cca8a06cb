"""Scaled values far from the others: errors, warnings, and how they are brought closer."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Float32

from ergonet._errors import DataError
from ergonet.datasets.validation import capital, column_name, row_name

FAR = 1e4  # standard deviations, more than the square root of the number of training rows


def damped(values: Any, beyond: float) -> np.ndarray:
    """Values as they are up to `beyond` in size, and from there on the logarithm of what is above it: monotone."""
    size = np.abs(values)
    return np.where(size > beyond, np.sign(values) * (beyond + np.log1p(np.maximum(size - beyond, 0))), values)


def undamped(values: Any, beyond: float) -> np.ndarray:
    """The inverse of `damped`."""
    size = np.abs(values)
    return np.where(size > beyond, np.sign(values) * (beyond + np.expm1(np.maximum(size - beyond, 0))), values)


def check_range(
    scaled: Float32[np.ndarray, "rows encoded"],
    encoded: Float[np.ndarray, "rows encoded"],
    *,
    names: Sequence[str],
    argument: str,
) -> None:
    """Raise `DataError` if a scaled value is too large for single precision."""
    bad = ~np.isfinite(scaled)
    if bad.any():
        row, column = (int(one) for one in np.argwhere(bad)[0])
        raise DataError(
            f"{capital(column_name(names[column], argument))} has {encoded[row, column]:g} at {row_name(row)}: "
            "too far from the training rows for float32. Check the value and its unit."
        )


def far_values(
    scaled: Float32[np.ndarray, "rows encoded"],
    encoded: Float[np.ndarray, "rows encoded"],
    *,
    names: Sequence[str],
    argument: str,
) -> list[tuple[int, str]]:
    """The row of the first value that is more than 10 000 standard deviations from the training rows, and a warning."""
    far = np.abs(scaled) > FAR
    if not far.any():
        return []
    row, column = (int(one) for one in np.argwhere(far)[0])
    said = (
        f"Column {names[column]!r} of {argument} has {encoded[row, column]:g} at {row_name(row)}, "
        f"{abs(scaled[row, column]):.0g} standard deviations from the training rows: a prediction there means nothing. "
        "Check the value and its unit."
    )
    return [(row, said)]
