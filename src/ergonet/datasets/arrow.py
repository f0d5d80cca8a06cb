"""Tables from Arrow's own files (Feather), whose sizes are checked before anything is decompressed."""

import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets.limits import check_decompressed, check_name_lengths, check_table
from ergonet.datasets.parquet import DAMAGED, check_flat

_RECORD_BATCH, _DICTIONARY = 3, 2  # header types of a message
_MOST_MESSAGES = 100_000


def read_arrow(file: Path) -> pd.DataFrame:
    """Read a whole table.

    Raises:
        DataError: The file is damaged, would not fit in memory, or has columns of lists or records.
    """
    import pyarrow as pa

    with _as_errors(file), pa.memory_map(str(file)) as source:
        check_decompressed(sum(_claims(memoryview(source.read_buffer()), file)), file=file)
    parts = list(arrow_blocks(file, 2**31))
    return pd.concat(parts, ignore_index=True) if len(parts) > 1 else parts[0]


def arrow_blocks(file: Path, rows: int) -> Iterator[pd.DataFrame]:
    """Read a table in blocks of at most `rows` rows; errors as of `read_arrow`, for each stored batch."""
    import pyarrow as pa

    with _as_errors(file), pa.memory_map(str(file)) as source:
        for claimed in _claims(memoryview(source.read_buffer()), file):
            check_decompressed(claimed, file=file)
        source.seek(0)
        opened: Any = pa.ipc.open_file(source)
        check_name_lengths(opened.schema.names, file=file)
        if not opened.num_record_batches:
            yield opened.schema.empty_table().to_pandas()
        for index in range(opened.num_record_batches):
            batch = opened.get_batch(index)
            batch.validate(full=True)
            check_table(batch.num_rows, batch.num_columns, file=file)
            check_decompressed(sum(map(_repeated, batch.columns)), file=file)
            for start in range(0, max(batch.num_rows, 1), rows):
                table = batch.slice(start, rows).to_pandas()
                check_flat(table, file)
                yield table


@contextmanager
def _as_errors(file: Path) -> Generator[None]:
    """Turn what Arrow raises for a damaged file into one `DataError`."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, struct.error, *DAMAGED) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a readable Arrow file: {error}") from error


def _repeated(column: Any) -> int:
    """Bytes of the texts of a column whose rows may all show the same bytes of the file."""
    import pyarrow as pa

    if column.type not in (pa.string_view(), pa.binary_view()):
        return 0
    views = np.frombuffer(column.buffers()[1], np.int32).reshape(-1, 4)  # length first
    return int(views[column.offset :][: len(column), 0].clip(0).sum(dtype=np.int64))


def _claims(view: memoryview, file: Path) -> Iterator[int]:
    """Bytes that the compressed buffers of each batch say that they take when decompressed."""
    place = 8  # after the magic bytes and their padding
    for _ in range(_MOST_MESSAGES):
        mark, size = struct.unpack_from("<Ii", view, place)
        if mark != 0xFFFFFFFF or size <= 0:
            return
        kind, header, body_length = _message(view, place + 8)
        body = place + 8 + size
        if kind in (_RECORD_BATCH, _DICTIONARY):
            yield _claimed(view, header, body, is_dictionary=kind == _DICTIONARY)
        place = body + max(body_length, 0)
    raise DataError(f"{file} has more than {_MOST_MESSAGES} parts. Write it in larger batches.")


def _claimed(view: memoryview, header: int, body: int, *, is_dictionary: bool) -> int:
    batch = header
    if is_dictionary:
        at = _field(view, header, 1)
        batch = at + struct.unpack_from("<I", view, at)[0] if at else header
    buffers, compressed = _field(view, batch, 2), _field(view, batch, 3)
    if not buffers or not compressed:
        return 0
    start = buffers + struct.unpack_from("<I", view, buffers)[0]
    total = 0
    for index in range(struct.unpack_from("<I", view, start)[0]):
        offset, length = struct.unpack_from("<qq", view, start + 4 + 16 * index)
        total += max(struct.unpack_from("<q", view, body + offset)[0], 0) if length > 8 else 0
    return total


def _message(view: memoryview, start: int) -> tuple[int, int, int]:
    """Type, header and body length of a message, which is a FlatBuffers table."""
    table = start + struct.unpack_from("<I", view, start)[0]
    kind, header, length = (_field(view, table, index) for index in (1, 2, 3))
    return (
        struct.unpack_from("<B", view, kind)[0] if kind else 0,
        header + struct.unpack_from("<I", view, header)[0] if header else table,
        struct.unpack_from("<q", view, length)[0] if length else 0,
    )


def _field(view: memoryview, table: int, index: int) -> int:
    """The place of a field of a FlatBuffers table; 0 if it is absent."""
    slots = table - struct.unpack_from("<i", view, table)[0]
    size = struct.unpack_from("<H", view, slots)[0]
    if 4 + 2 * index >= size:
        return 0
    offset = struct.unpack_from("<H", view, slots + 4 + 2 * index)[0]
    return table + offset if offset else 0
