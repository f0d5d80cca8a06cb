"""Tables of other libraries as pandas: Polars, PyArrow and whatever else Narwhals knows."""

from collections import Counter
from typing import Any

import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets.validation import capital, shorten


def as_pandas(table: Any, *, argument: str) -> pd.DataFrame:
    """A table as a pandas DataFrame; one of pandas is returned unchanged.

    Args:
        table: A table in memory of any library that Narwhals supports, such as Polars or PyArrow.
        argument: Name of the table in messages.

    Raises:
        DataError: It is no such table, or a column name appears twice.
    """
    check_names(table, argument=argument)
    if isinstance(table, pd.DataFrame):
        return table
    frame = _eager(table)
    if frame is None:
        raise DataError(
            f"{capital(argument)} must be a table of pandas, Polars or PyArrow, got {type(table).__name__}. Collect a "
            "lazy table first."
        )
    return frame.to_pandas()


def check_names(table: Any, *, argument: str) -> None:
    """Raise `DataError` if a column name of a pandas or PyArrow table appears more than once; others cannot have it."""
    names = table.columns if isinstance(table, pd.DataFrame) else getattr(table, "column_names", ())
    repeated = sorted(name for name, count in Counter(map(str, names)).items() if count > 1)
    if repeated:
        raise DataError(
            f"Column names appear more than once in {argument}: {shorten([repr(one) for one in repeated])}. Give every "
            "column its own name."
        )


def as_frame_or_array(table: Any) -> Any:
    """Tables of other libraries as pandas, and everything else unchanged."""
    frame = None if isinstance(table, pd.DataFrame) else _eager(table)
    return table if frame is None else frame.to_pandas()


def _eager(table: Any) -> Any:
    """The table as a Narwhals frame; None if it is none, or is not in memory."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    return frame if isinstance(frame, nw.DataFrame) else None
