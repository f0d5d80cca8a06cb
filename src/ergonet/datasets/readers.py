"""Tables from files: CSV and its relatives, Parquet and NPZ, with one clear error for each way to fail."""

import csv
import difflib
import os
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets import registry
from ergonet.datasets.validation import check_rows, shorten

_HEAD_CHARACTERS = 65536
_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", r"\s+": "white space"}
# pandas' own list without "None", which people use as a category.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "#N/A", "<NA>"]


def read_table(path: str | os.PathLike[str], *, minimum_rows: int = 1) -> pd.DataFrame:
    """Read a table with named columns from a file.

    ============================  ==================================================================
    ``.csv``                      comma, semicolon or tab (found out); first line: column names
    ``.tsv``                      tab; first line: column names
    ``.txt``, ``.data``, ``.dat`` the same or white space; lines after ``#`` are comments; without a
                                  line of names the columns are ``column_1``, ``column_2``, ...
    ``.parquet``, ``.pq``         as written by pandas, Polars, Arrow
    ``.npz``                      arrays ``x`` or ``X`` [rows, features] (columns ``x0``, ``x1``, ...)
                                  and ``y`` if there is one, or named columns of equal length
    ============================  ==================================================================

    Text must be UTF-8.

    Args:
        path: The file.
        minimum_rows: Refuse fewer rows; prediction needs 1, fitting checks for 2 later.

    Returns:
        The table, with its columns in the order of the file.

    Raises:
        DataError: The file is not there, empty, of an unknown kind, or not what its suffix says; it has
            too few rows, names that are missing or repeated, or pickled objects (which are never loaded).
    """
    file = Path(path)
    _check_there(file)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise DataError(
            f"{file}: files of type {file.suffix!r} cannot be read. Known: {', '.join(_READERS)}. "
            "Save the table as CSV (UTF-8, with column names in the first line)."
        )
    if file.stat().st_size == 0:
        raise DataError(f"{file} is empty (0 bytes). Check that it was written completely.")
    table = reader(file)
    check_rows(len(table), argument=f"the file {file}", minimum=minimum_rows)
    return table


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
    hint = f"Did you mean {' or '.join(repr(one) for one in near)}?" if near else "Check the path."
    raise DataError(f"{file} was not found. {hint}")


def _read_comma(file: Path) -> pd.DataFrame:
    return _read_text(file, delimiters=(",", ";", "\t"), header_required=True)


def _read_tab(file: Path) -> pd.DataFrame:
    return _read_text(file, delimiters=("\t",), header_required=True)


def _read_loose(file: Path) -> pd.DataFrame:
    return _read_text(file, delimiters=(",", ";", "\t", r"\s+"), header_required=False)


def _read_text(file: Path, *, delimiters: Sequence[str], header_required: bool) -> pd.DataFrame:
    lines = _first_lines(file, comments=not header_required)
    delimiter = _sniff(lines, delimiters)
    if delimiter is None:
        kinds = ", ".join(_DELIMITERS[one] for one in delimiters)
        raise DataError(
            f"{file} has only one column when split at {kinds}: its first line is {lines[0][:80]!r}. A table "
            "needs a target and at least one input. Check that the file is CSV, and which delimiter it uses."
        )
    first = _fields(lines[0], delimiter)
    numeric = [_is_number(one) for one in first]
    if header_required and all(numeric):
        raise DataError(
            f"{file} has no column names: its first line holds numbers only ({lines[0][:80]!r}). "
            "Add a first line with the names."
        )
    has_header = header_required or not any(numeric)
    names = first if has_header else [f"column_{i + 1}" for i in range(len(first))]
    _check_names(names, file)
    return _parse(file, delimiter, names, has_header=has_header, comments=not header_required)


def _first_lines(file: Path, *, comments: bool) -> list[str]:
    """Lines from the head of the file that hold something; refuses what is no text table."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            head = stream.read(_HEAD_CHARACTERS)
    except UnicodeDecodeError as error:
        raise _not_text(file, f"byte {error.start} is no UTF-8") from error
    if "\0" in head:
        raise _not_text(file, "it holds zero bytes")
    if head.lstrip()[:1] in ("<", "{"):
        raise _not_text(file, f"it starts like a web page or JSON: {head.lstrip()[:30]!r}")
    lines = [line for line in head.splitlines() if line.strip()]
    if len(head) == _HEAD_CHARACTERS and len(lines) > 1:
        lines.pop()  # cut in the middle
    if comments:
        lines = [line for line in lines if not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(f"{file} is empty: it holds no line with data. Check that it was written completely.")
    return lines[:50]


def _not_text(file: Path, reason: str) -> DataError:
    return DataError(f"{file} is not a text table: {reason}. Save the table as CSV in UTF-8, or as Parquet.")


def _sniff(lines: list[str], delimiters: Sequence[str]) -> str | None:
    """The delimiter that splits every line into the same number of fields, else the one that splits most."""
    best, best_score = None, (False, 1)
    for delimiter in delimiters:
        widths = [len(_fields(line, delimiter)) for line in lines]
        consistent = widths[0] > 1 and len(set(widths)) == 1
        score = (consistent, widths[0])
        if widths[0] > 1 and score > best_score:
            best, best_score = delimiter, score
    return best


def _fields(line: str, delimiter: str) -> list[str]:
    if delimiter == r"\s+":
        return line.split()
    return [field.strip() for field in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_names(names: Sequence[str], file: Path) -> None:
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if not name:
            raise DataError(
                f"{file}: column {position + 1} (counting from 1) has no name; often this is a saved row "
                "index. Name it, or write the file without the index."
            )
        if name in first:
            raise DataError(
                f"{file}: the column name {name!r} appears more than once (columns {first[name] + 1} and "
                f"{position + 1}, counting from 1). Give every column its own name."
            )
        first[name] = position


def _parse(file: Path, delimiter: str, names: list[str], *, has_header: bool, comments: bool) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                file,
                sep=delimiter,
                header=0 if has_header else None,
                names=names,
                index_col=False,
                skipinitialspace=True,
                comment="#" if comments else None,
                keep_default_na=False,
                na_values=_MISSING,
                encoding="utf-8-sig",
                low_memory=False,
            )
    except UnicodeDecodeError as error:
        raise _not_text(file, f"byte {error.start} is no UTF-8") from error
    except pd.errors.ParserWarning as error:
        raise DataError(_ragged(file, delimiter, len(names), "later lines hold more")) from error
    except pd.errors.ParserError as error:
        found = re.search(r"Expected \d+ fields in line (\d+), saw (\d+)", str(error))
        where = f"line {found[1]} holds {found[2]}" if found else str(error).strip()
        raise DataError(_ragged(file, delimiter, len(names), where)) from error


def _ragged(file: Path, delimiter: str, width: int, where: str) -> str:
    return (
        f"{file} is not a regular table split at {_DELIMITERS[delimiter]}: its first line holds {width} "
        f"fields, {where}. Check that line, its quotes and the delimiter."
    )


def _read_parquet(file: Path) -> pd.DataFrame:
    import pyarrow as pa

    try:
        return pd.read_parquet(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{file} is not a readable Parquet file: {error}") from error


def _read_arrays(file: Path) -> pd.DataFrame:
    try:
        archive = np.load(file, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise DataError(f"{file} holds a single array, not an NPZ archive. Write it with `numpy.savez`.")
        with archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        if "allow_pickle" in str(error):
            raise DataError(
                f"{file} holds pickled objects, which can run any code and are never loaded. "
                "Save plain arrays of numbers or strings with `numpy.savez`."
            ) from error
        raise DataError(f"{file} is not a readable NPZ archive: {error}") from error
    return _table_of_arrays(arrays, file)


def _table_of_arrays(arrays: dict[str, np.ndarray], file: Path) -> pd.DataFrame:
    if not arrays:
        raise DataError(f"{file} is empty: the archive holds no array.")
    inputs = next((name for name in ("x", "X") if name in arrays and arrays[name].ndim == 2), None)
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1 and name != inputs):
            columns[name] = array.reshape(-1)
        elif name == inputs or (array.ndim == 2 and name in ("y", "Y")):
            columns.update({f"{name.lower()}{i}": array[:, i] for i in range(array.shape[1])})
        else:
            raise DataError(
                f"{file}: array {name!r} has shape {array.shape}. Give `x` [rows, features] and `y` [rows] "
                "or [rows, targets], or one array [rows] per column."
            )
    lengths = {name: len(array) for name, array in columns.items()}
    first = next(iter(lengths.values()))
    unequal = [f"{name!r} {length}" for name, length in lengths.items() if length != first]
    if unequal:
        raise DataError(
            f"{file}: columns differ in their number of rows: {next(iter(lengths))!r} {first}, "
            f"{shorten(unequal)}. Every array needs the same number of rows."
        )
    return pd.DataFrame(columns)


_READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": _read_comma,
    ".tsv": _read_tab,
    ".txt": _read_loose,
    ".data": _read_loose,
    ".dat": _read_loose,
    ".parquet": _read_parquet,
    ".pq": _read_parquet,
    ".npz": _read_arrays,
}
