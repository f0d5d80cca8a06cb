"""Tables from files: delimited text, Parquet, Arrow, Excel and NPZ, with a specific error for each failure."""

import difflib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError, shown
from ergonet.datasets import registry, text
from ergonet.datasets.arrays import read_arrays
from ergonet.datasets.arrow import arrow_blocks, read_arrow
from ergonet.datasets.excel import read_excel
from ergonet.datasets.limits import check_name_lengths
from ergonet.datasets.opening import suffix_of
from ergonet.datasets.parquet import parquet_blocks, read_parquet
from ergonet.datasets.validation import check_rows

ROWS = 10_000


@dataclass(frozen=True, eq=False)
class TableFile:
    """A table and what was told of its file.

    Attributes:
        table: With its columns in the order of the file.
        said: How the file is written, such as ``gzip, semicolons, decimal commas, UTF-8``.
    """

    table: pd.DataFrame
    said: str


def read_table(path: str | os.PathLike[str], *, minimum_rows: int = 1) -> pd.DataFrame:
    """Read a table with named columns from a file.

    - ``.csv``: commas, semicolons, tabs or vertical bars; the first line has the column names.
    - ``.tsv``: tabs; the first line has the column names.
    - ``.txt``, ``.data``, ``.dat``: the same, or white space; ``#`` starts a comment. Without a line of names the
      columns are ``column_1``, ``column_2``, ...
    - ``.parquet``, ``.pq``: as written by pandas, Polars or Arrow.
    - ``.arrow``, ``.feather``, ``.ipc``: Arrow's own files.
    - ``.xlsx``, ``.xlsm``: the first sheet of an Excel workbook, if Ergonet was installed with the extra ``excel``.
    - ``.npz``: arrays ``x`` or ``X`` [rows, features] (columns ``x0``, ``x1``, ...) and ``y`` if there is one, or named
      columns of equal length.

    Of text, the delimiter, the decimal mark (decimal commas need another delimiter), the encoding (UTF-8, UTF-16,
    Windows-1252) and the compression (``.gz``, ``.bz2``, ``.xz``, ``.zst``, ``.zip`` of one file) are told from the
    file; `read_file` says what was found.

    Args:
        path: The file.
        minimum_rows: Smallest number of rows accepted; prediction needs 1, and fitting checks for 2 later.

    Returns:
        The table, with its columns in the order of the file.

    Raises:
        DataError: The file does not exist, is empty, has an unknown type, or is not what its suffix says; it has too
            few rows, missing or repeated column names, or pickled objects (which are never loaded).
    """
    return read_file(path, minimum_rows=minimum_rows).table


def read_file(path: str | os.PathLike[str], *, minimum_rows: int = 1) -> TableFile:
    """Read a table and say how its file is written; arguments and errors as of `read_table`."""
    file, suffix = _checked(path)
    if suffix in text.SUFFIXES:
        table, said = text.read_text(file, suffix)
    else:
        table, said = _READERS[suffix](file)
    check_name_lengths(map(str, table.columns), file=file)
    check_rows(len(table), argument=f"the file {file}", minimum=minimum_rows)
    return TableFile(table, said)


def blocks(path: str | os.PathLike[str], rows: int = ROWS) -> Iterator[pd.DataFrame]:
    """Read a table in blocks of rows, so that a file may be larger than the memory.

    Text (compressed, too), Parquet and Arrow are read piece by piece; Excel workbooks and NPZ archives must fit. The
    index of a block counts the rows of the file from 0. A column can be numbers in one block and text in another if
    only some of its fields are numbers; `Preprocessing.transform` takes both.

    Args:
        path: A file that `read_table` takes.
        rows: Number of rows of every block but the last, at least 1.

    Yields:
        The blocks in order, at least one, none of them empty.

    Raises:
        DataError: As `read_table`, some only when the block at fault is read.
        SettingError: `rows` is not a positive integer.
    """
    if not is_integer(rows) or rows < 1:
        raise SettingError(f"`rows` must be an integer of at least 1, got {shown(rows)}.")
    file, suffix = _checked(path)
    if suffix in text.SUFFIXES:
        found = text.text_blocks(file, suffix, rows)
    elif suffix in _BLOCKS:
        found = _BLOCKS[suffix](file, rows)
    else:
        table = _READERS[suffix](file)[0]
        found = (table.iloc[start : start + rows] for start in range(0, len(table), rows))
    start = 0
    for block in _of_equal_size(found, rows):
        if start == 0:
            check_name_lengths(map(str, block.columns), file=file)
        yield block.set_axis(pd.RangeIndex(start, start + len(block)), axis=0)
        start += len(block)
    check_rows(start, argument=f"the file {file}", minimum=1)


def _of_equal_size(tables: Iterable[pd.DataFrame], rows: int) -> Iterator[pd.DataFrame]:
    """The rows of tables, which a file may hold in groups of any size, in blocks of `rows` rows."""
    rest = pd.DataFrame()
    for table in tables:
        rest = pd.concat([rest, table], ignore_index=True) if len(rest) else table
        while len(rest) >= rows:
            yield rest.iloc[:rows]
            rest = rest.iloc[rows:]
    if len(rest):
        yield rest


def _checked(path: str | os.PathLike[str]) -> tuple[Path, str]:
    """The file and the suffix of its content, if both are there and known."""
    file = Path(path)
    _check_there(file)
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty (0 bytes). Check that it was written completely.")
    suffix = suffix_of(file)
    known = [*text.SUFFIXES, *_READERS]
    if suffix not in known:
        raise DataError(
            f"{file}: files of type {suffix!r} cannot be read. Known: {', '.join(known)}. "
            "Save the table as CSV (UTF-8, with column names in the first line)."
        )
    if suffix in _READERS and file.suffix.lower() != suffix:
        raise DataError(f"{file}: of compressed files, only text is read. Decompress it, and give the {suffix} file.")
    return file, suffix


def _check_there(file: Path) -> None:
    if file.is_dir():
        raise DataError(f"{file} is a directory. Give the path of a file in it.")
    if file.is_file():
        return
    folder = file.parent
    if not folder.is_dir():
        raise DataError(f"{file} was not found: there is no directory {folder}. Check the path.")
    known = [one.name for one in folder.iterdir() if one.is_file()] + list(registry.names())
    near = difflib.get_close_matches(file.name, known, n=3)
    paths = [one if one in registry.DATASETS else str(folder / one) for one in near]
    hint = f"Did you mean {' or '.join(repr(one) for one in paths)}?" if near else "Check the path."
    raise DataError(f"{file} was not found. {hint}")


def _parquet(file: Path) -> tuple[pd.DataFrame, str]:
    return read_parquet(file), "Parquet"


def _arrow(file: Path) -> tuple[pd.DataFrame, str]:
    return read_arrow(file), "Arrow"


def _npz(file: Path) -> tuple[pd.DataFrame, str]:
    return read_arrays(file), "NPZ"


_READERS: dict[str, Callable[[Path], tuple[pd.DataFrame, str]]] = {
    **dict.fromkeys((".parquet", ".pq"), _parquet),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), _arrow),
    **dict.fromkeys((".xlsx", ".xlsm"), read_excel),
    ".npz": _npz,
}
_BLOCKS: dict[str, Callable[[Path, int], Iterator[pd.DataFrame]]] = {
    **dict.fromkeys((".parquet", ".pq"), parquet_blocks),
    **dict.fromkeys((".arrow", ".feather", ".ipc"), arrow_blocks),
}
