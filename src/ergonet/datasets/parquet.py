"""Tables from Parquet files, whose sizes are checked before anything is decompressed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ergonet._errors import DataError, shown
from ergonet.datasets import limits
from ergonet.datasets.limits import check_decompressed, check_name_lengths, check_table
from ergonet.datasets.validation import row_name

_NESTED = (list, tuple, dict, set, np.ndarray)
# What pandas raises for the metadata of its own that a damaged file holds.
DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError, MemoryError)
# Texts of these encodings can share all their bytes with the text before.
_SHARED = "DELTA_BYTE_ARRAY"


def read_parquet(file: Path) -> pd.DataFrame:
    """Read a table as written by pandas, Polars or Arrow.

    Raises:
        DataError: The file is damaged, would not fit in memory, or has columns of lists or records.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            check_name_lengths(opened.schema_arrow.names, file=file)
            _check_sizes(opened.metadata, file)
        table = pd.read_parquet(file, pre_buffer=False)  # of what is read, too, there would be a copy
    except (pa.ArrowException, *DAMAGED) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a readable Parquet file: {error}") from error
    check_flat(table, file)
    return table


def parquet_blocks(file: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Read a table in blocks of at most `rows` rows; errors as of `read_parquet`, for each group of rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            about = opened.metadata
            check_name_lengths(opened.schema_arrow.names, file=file)
            check_table(1, about.num_columns, file=file)
            for group in range(about.num_row_groups):
                check_decompressed(about.row_group(group).total_byte_size, file=file)
            for batch in opened.iter_batches(batch_size=rows):
                table = batch.to_pandas()
                check_flat(table, file)
                yield table
    except (pa.ArrowException, *DAMAGED) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a readable Parquet file: {error}") from error


def check_flat(table: pd.DataFrame, file: Path) -> None:
    """Reject columns of lists or records.

    Raises:
        DataError: There is one; names the first such entry.
    """
    for name in table.columns:
        nested = [isinstance(one, _NESTED) for one in table[name]] if table[name].dtype == object else []
        if any(nested):
            row = nested.index(True)
            raise DataError(
                f"{file}: column {str(name)!r} holds lists or records; the first, {shown(table[name].iloc[row])}, "
                f"is in {row_name(row)}. Give every entry a column of its own."
            )


def _check_sizes(about: Any, file: Path) -> None:
    check_table(about.num_rows, about.num_columns, file=file)
    groups = [about.row_group(group) for group in range(about.num_row_groups)]
    stored = sum(group.total_byte_size for group in groups)
    check_decompressed(stored, file=file)
    if about.num_rows * stored > limits.largest_bytes():  # repeated texts could be that long
        _check_texts([group.column(index) for group in groups for index in range(group.num_columns)], file)


def _check_texts(chunks: list[Any], file: Path) -> None:
    """Count what texts take that the file holds once and repeats."""
    import pyarrow.parquet as pq
    from pyarrow import compute

    pc: Any = compute

    texts = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"]
    shared = next((chunk.path_in_schema for chunk in texts if _SHARED in chunk.encodings), None)
    if shared is not None:
        raise DataError(
            f"{file}: column {shared!r} has the encoding {_SHARED}, whose size when decompressed is unknown. Write the "
            "file with another encoding, or as CSV."
        )
    names = sorted({chunk.path_in_schema for chunk in texts})
    size = 0
    for name in names:
        column = pq.read_table(file, columns=[name], read_dictionary=[name]).column(0)
        for part in column.chunks:
            if hasattr(part, "dictionary"):
                size += pc.sum(pc.take(pc.binary_length(part.dictionary), part.indices)).as_py() or 0
                check_decompressed(size, file=file)
