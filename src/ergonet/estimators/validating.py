"""Validation that scikit-learn leaves to Python: which entry of a table is the one that cannot be used."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd

from ergonet._errors import DataError, shown
from ergonet.datasets.frames import as_frame_or_array, check_names
from ergonet.datasets.validation import as_float, as_numbers, check_finite


@contextmanager
def naming_entries(*tables: tuple[str, Any]) -> Generator[None]:
    """Around `validate_data`: name the first entry of the tables, given with their names, that it cannot take.

    Raises:
        DataError: two columns have one name; a whole number that no double holds; or, in a table with columns, text, a
            date, or a missing or infinite value. Names the table, row and value, and the column of a table with
            columns.
    """
    for name, table in tables:
        check_names(table, argument=f"`{name}`")
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
    except (TypeError, ValueError) as error:
        for name, table in tables:
            frame = as_frame_or_array(table)
            if isinstance(frame, pd.DataFrame):
                _check_columns(frame, argument=f"`{name}`", because=error)
        raise


def _check_columns(frame: pd.DataFrame, *, argument: str, because: Exception) -> None:
    for column, entries in frame.items():
        try:
            numbers = as_numbers(entries.to_numpy(), column=str(column), argument=argument)
        except DataError as error:
            raise DataError(
                f"{error} Estimators take numbers: encode the column in a pipeline, for example with scikit-learn's "
                f"`OneHotEncoder`. `ergonet fit` and `datasets.from_table` take text and dates as they are."
            ) from because
        check_finite(numbers, argument=f"column {column!r} of {argument}")
