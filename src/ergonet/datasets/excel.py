"""Tables from Excel workbooks, by the extra `excel`."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets.limits import check_decompressed, check_table

_MOST_ROWS = 2**20
_BAD = (ValueError, OSError, EOFError, KeyError, TypeError, AttributeError, IndexError, RuntimeError, SyntaxError)
_DAMAGED = (*_BAD, zipfile.BadZipFile, zlib.error)


def read_excel(file: Path) -> tuple[pd.DataFrame, str]:
    """Read the first sheet of a workbook; its first row has the names.

    Raises:
        DataError: openpyxl is not installed, the workbook is damaged or would not fit in memory, or a column has no
            name, or that of another.
    """
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise DataError(
            f"{file}: reading Excel needs openpyxl. Install it (`pip install openpyxl`), or save the table as CSV."
        ) from error
    try:
        with zipfile.ZipFile(file) as archive:
            check_decompressed(sum(member.file_size for member in archive.infolist()), file=file)
        book = load_workbook(file, read_only=True, data_only=True)
        sheet = book.worksheets[0]
        sheet.reset_dimensions()  # what a file claims of its size need not be true
        rows = list(_filled_rows(sheet, file))
        title, others = sheet.title, len(book.worksheets) - 1
        book.close()
    except _DAMAGED as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file} is not a readable Excel workbook: {error}") from error
    said = f"Excel, sheet {title!r}" + (f" (the first of {others + 1})" if others else "")
    return _table(rows, file), said


def _filled_rows(sheet: Any, file: Path) -> Iterator[list[Any]]:
    """The rows that are not empty."""
    for number, row in enumerate(sheet.iter_rows(values_only=True)):
        if number >= _MOST_ROWS:
            raise DataError(f"{file} has a row beyond {_MOST_ROWS}, the last that Excel knows. Save the table as CSV.")
        if any(entry is not None for entry in row):
            yield list(row)


def _table(filled: list[list[Any]], file: Path) -> pd.DataFrame:
    if not filled:
        raise DataError(f"{file} is empty: the first sheet has no entries. Move the table to the first sheet.")
    width = max(len(row) - next(i for i, one in enumerate(reversed(row)) if one is not None) for row in filled)
    check_table(len(filled), width, file=file)
    header, *body = [(row + [None] * width)[:width] for row in filled]
    names = ["" if one is None else str(one).strip() for one in header]
    for column, name in enumerate(names):
        if not name or name in names[:column]:
            what = f"repeats the name {name!r}" if name else "has no name"
            raise DataError(
                f"{file}: column {column + 1} (counting from 1) of the first sheet {what}. Its first row must name "
                "every column, each once."
            )
    columns = {name: [row[column] for row in body] for column, name in enumerate(names)}
    return pd.DataFrame({name: pd.Series(entries, dtype=object) for name, entries in columns.items()}).infer_objects()
