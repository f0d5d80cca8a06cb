"""Rows padded to a few sizes, so that tables of about the same size share compiled programs.

Padding repeats rows of the data: whatever is finite for every row is finite for the padding, and so are gradients.
"""

import math

import jax.numpy as jnp
import numpy as np

from ergonet._types import Array, Bool, Float, Scalar

SMALLEST = 16  # rows; tables that are not larger are not padded
STEP, OFFSET = 48, 24  # between sizes; the offset keeps them off round numbers, about which folds and tables differ
STEPS_PER_OCTAVE = 16  # of large tables, which are padded by 1/16 at most


def padded_size(count: int) -> int:
    """The number of rows, at least 1, after padding.

    That number itself up to 16; then 24, 72, 120 and so on, in steps of 48 up to 1024 rows, of 64 up to 2048, of 128 up
    to 4096, and so on.
    """
    if count <= SMALLEST:
        return count
    step = max(STEP, 2 ** (count - 1).bit_length() // (2 * STEPS_PER_OCTAVE))
    return OFFSET + step * math.ceil(max(count - OFFSET, 0) / step)


def padded_index(count: int) -> np.ndarray:
    """The index of a row for each row after padding: all rows, and then some of them again."""
    return np.arange(padded_size(count)) % count


def is_row(size: int, count: Array | int | None) -> Bool[Array, "rows"]:
    """Which of `size` rows are rows of the data: the first `count`; None: all of them."""
    return jnp.arange(size) < (size if count is None else count)


def without_padding(values: Array, count: Array | int | None) -> Array:
    """Zeros for padding; the rows are the last axis."""
    return values if count is None else jnp.where(is_row(values.shape[-1], count), values, jnp.zeros_like(values))


def mean_of_rows(values: Float[Array, "row"], count: Array | int) -> Scalar:
    """The mean over the first `count` values, at least one, without padding."""
    return jnp.sum(without_padding(values, count)) / count
