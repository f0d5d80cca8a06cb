"""Tables from files: CSV and other delimited text, Parquet and NPZ, with a specific error for each failure."""

import csv
import difflib
import math
import os
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets import registry
from ergonet.datasets.limits import check_decompressed, check_name_lengths, check_table
from ergonet.datasets.parquet import read_parquet
from ergonet.datasets.validation import check_rows, shorten

_HEAD_CHARACTERS = 65536
_LONGEST_LINE = 2**26  # characters: names of more columns than are read
_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", r"\s+": "white space"}
# The default list of pandas without "None", which some tables use as a category.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "#N/A", "<NA>"]

# What `zipfile` and NumPy raise for archives that are cut off, altered, encrypted or compressed by other methods.
_DAMAGED = (ValueError, OSError, EOFError, KeyError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


def read_table(path: str | os.PathLike[str], *, minimum_rows: int = 1) -> pd.DataFrame:
    """Read a table with named columns from a file.

    - ``.csv``: comma, semicolon or tab (detected); the first line has the column names.
    - ``.tsv``: tab; the first line has the column names.
    - ``.txt``, ``.data``, ``.dat``: the same, or white space; ``#`` starts a comment. Without a line of names the
      columns are ``column_1``, ``column_2``, ...
    - ``.parquet``, ``.pq``: as written by pandas, Polars or Arrow.
    - ``.npz``: arrays ``x`` or ``X`` [rows, features] (columns ``x0``, ``x1``, ...) and ``y`` if there is one, or named
      columns of equal length.

    Text must be UTF-8.

    Args:
        path: The file.
        minimum_rows: Smallest number of rows accepted; prediction needs 1, and fitting checks for 2 later.

    Returns:
        The table, with its columns in the order of the file.

    Raises:
        DataError: The file does not exist, is empty, has an unknown type, or is not what its suffix says; it has too
            few rows, missing or repeated column names, or pickled objects (which are never loaded).
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
    check_name_lengths(map(str, table.columns), file=file)
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
    check_name_lengths(names, file=file)
    check_table(_count_lines(file), len(names), file=file)  # missing fields take space, too
    _check_names(names, file)
    return _parse(file, delimiter, names, has_header=has_header, comments=not header_required)


def _first_lines(file: Path, *, comments: bool) -> list[str]:
    """Nonempty lines from the head of the file; raises an error if it is not a text table."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            first = stream.readline(_LONGEST_LINE)
            head = first + stream.read(_HEAD_CHARACTERS)
    except UnicodeDecodeError as error:
        raise _not_text(file, f"byte {error.start} is not valid UTF-8") from error
    if "\0" in head:
        raise _not_text(file, "it holds zero bytes")
    if head.lstrip()[:1] in ("<", "{"):
        raise _not_text(file, f"it looks like a web page or JSON: {head.lstrip()[:30]!r}")
    lines = [line for line in head.splitlines() if line.strip()]
    if len(head) - len(first) == _HEAD_CHARACTERS and len(lines) > 1:
        lines.pop()  # the last line may be incomplete
    if comments:
        lines = [line for line in lines if not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(f"{file} is empty: no line contains data. Check that it was written completely.")
    return lines[:50]


def _count_lines(file: Path) -> int:
    with file.open("rb") as stream:
        return sum(part.count(b"\n") + part.count(b"\r") for part in iter(lambda: stream.read(2**20), b""))


def _not_text(file: Path, reason: str) -> DataError:
    return DataError(f"{file} is not a text table: {reason}. Save the table as CSV in UTF-8, or as Parquet.")


def _sniff(lines: list[str], delimiters: Sequence[str]) -> str | None:
    """The delimiter that splits every line into the same number of fields, or else the one with the most fields."""
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
    try:
        return [field.strip() for field in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
    except csv.Error:  # a field of more than 128 KiB: this is another delimiter, or no table
        return [line]


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
        raise _not_text(file, f"byte {error.start} is not valid UTF-8") from error
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


def _read_arrays(file: Path) -> pd.DataFrame:
    try:
        _check_archive(file)
        archive = np.load(file, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise DataError(f"{file} holds a single array, not an NPZ archive. Write it with `numpy.savez`.")
        with archive:
            arrays = {name: _plain(archive[name], name, file) for name in archive.files}
    except _DAMAGED as error:
        if isinstance(error, DataError):
            raise
        if "allow_pickle" in str(error):
            raise DataError(
                f"{file} holds pickled objects, which can run any code and are never loaded. "
                "Save plain arrays of numbers or strings with `numpy.savez`."
            ) from error
        raise DataError(f"{file} is not a readable NPZ archive: {error}") from error
    return _table_of_arrays(arrays, file)


def _check_archive(file: Path) -> None:
    """Reject arrays that would not fit, or that claim more entries than the archive holds, before any is read."""
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        check_decompressed(sum(member.file_size for member in members), file=file)
        for member in members:
            with archive.open(member) as stream:
                version = np.lib.format.read_magic(stream)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(stream)
            if math.prod(shape) * dtype.itemsize > member.file_size:
                raise ValueError(f"{member.filename} claims the shape {shape}, but holds {member.file_size} bytes")
            check_table(shape[0] if shape else 1, math.prod(shape[1:]), file=f"{file}: array {member.filename!r}")


def _plain(array: np.ndarray, name: str, file: Path) -> np.ndarray:
    """An array in the byte order of this machine; rejects data that are neither numbers, text nor dates."""
    if array.dtype.kind not in "biufUmM":
        raise DataError(
            f"{file}: array {name!r} has the type {array.dtype}. Save plain arrays of real numbers, text or dates."
        )
    if array.dtype.kind in "mM" and np.datetime_data(array.dtype)[0] == "generic":
        raise DataError(f"{file}: array {name!r} holds durations without a unit. Save them as plain numbers.")
    if array.dtype.kind == "U":
        _check_text(array, name, file)
    if 0 in array.shape[1:]:
        raise DataError(f"{file}: array {name!r} has shape {array.shape}, so no columns. At least one is needed.")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _check_text(array: np.ndarray, name: str, file: Path) -> None:
    try:
        "".join(array.reshape(-1).tolist()).encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{file}: array {name!r} holds text that is not valid Unicode: {error}.") from error


def _table_of_arrays(arrays: dict[str, np.ndarray], file: Path) -> pd.DataFrame:
    if not arrays:
        raise DataError(f"{file} is empty: the archive contains no arrays.")
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
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".npz": _read_arrays,
}
