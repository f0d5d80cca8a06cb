"""The column of a table that has the weights of its rows."""

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from ergonet._errors import DataError
from ergonet.datasets.columns import column_values
from ergonet.datasets.validation import as_numbers, check_finite, nearest, row_name


def without_weights(frame: Any, name: str) -> tuple[pd.DataFrame, Float[np.ndarray, "rows"]]:
    """The table without the column of weights, and the weights.

    Raises:
        DataError: There is no such column, or a weight is not a finite number of at least 0, or all are 0.
    """
    names = [str(one) for one in frame.columns]
    if name not in names:
        raise DataError(f"`weights`: the table has no column {name!r}. {nearest(name, names)}")
    column = frame.iloc[:, names.index(name)]
    found = as_numbers(column_values(column), column=name, argument="the table")
    check_finite(found[:, None], argument="the table", names=[name])
    if (found < 0).any() or not found.any():
        row = int(np.argmax(found < 0))
        raise DataError(
            f"Column {name!r} of weights has {found[row]:g} at {row_name(row)}. Weights are at least 0, and not all 0."
        )
    return frame.drop(columns=frame.columns[names.index(name)]), found
