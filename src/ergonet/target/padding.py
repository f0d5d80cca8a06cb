"""Rows padded to a few sizes, so that tables of about the same size share compiled programs.

Padding repeats rows of the data: whatever is finite for every row is finite for the padding, and so are gradients.
"""

import math

import jax.numpy as jnp
import numpy as np

from ergonet._types import Array, Bool

SMALLEST = 16  # rows; tables that are not larger are not padded, since it would add up to as much work again
SIZES_PER_OCTAVE = 16  # at most 1/16 more rows than needed, on average 1/45, above 256 rows


def padded_size(count: int) -> int:
    """The number of rows, at least 1, after padding.

    That number itself up to 16, multiples of 16 up to 512, then of 32 up to 1024, of 64 up to 2048, and so on.
    """
    if count <= SMALLEST:
        return count
    step = max(SMALLEST, 2 ** (count - 1).bit_length() // (2 * SIZES_PER_OCTAVE))
    return math.ceil(count / step) * step


def padded_index(count: int) -> np.ndarray:
    """The index of a row for each row after padding: all rows, and then some of them again."""
    return np.arange(padded_size(count)) % count


def is_row(size: int, count: Array | int | None) -> Bool[Array, "rows"]:
    """Which of `size` rows are rows of the data: the first `count`; None: all of them."""
    return jnp.arange(size) < (size if count is None else count)


def without_padding(values: Array, count: Array | int | None) -> Array:
    """Zeros for padding; the rows are the last axis."""
    return values if count is None else jnp.where(is_row(values.shape[-1], count), values, jnp.zeros_like(values))
