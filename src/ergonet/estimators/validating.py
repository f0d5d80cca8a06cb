"""Validation that scikit-learn leaves to Python: whole numbers beyond double precision."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ergonet._errors import DataError, shown
from ergonet.datasets.validation import as_float


@contextmanager
def within_double_precision(*tables: tuple[str, Any]) -> Generator[None]:
    """Around `validate_data`: name the first whole number of the tables, given with their names, that no double holds.

    Raises:
        DataError: there is one; names the table, row and value.
    """
    try:
        yield
    except OverflowError as error:
        for name, table in tables:
            for row, entries in enumerate(np.asarray(table, dtype=object)):
                for entry in np.ravel(entries):
                    if type(entry) is int and np.isinf(as_float(entry)):
                        raise DataError(
                            f"`{name}` has {shown(entry)} in row {row} (counted from 0), beyond the largest number of "
                            f"double precision, 1.8e308. Correct the value, or remove the row."
                        ) from error
        raise
