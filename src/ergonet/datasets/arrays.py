"""Tables from NPZ archives, whose sizes are checked before any array is read."""

import math
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets.limits import check_decompressed, check_table
from ergonet.datasets.validation import shorten

# What `zipfile` and NumPy raise for archives that are cut off, altered, encrypted or compressed by other methods.
_DAMAGED = (ValueError, OSError, EOFError, KeyError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)


def read_arrays(file: Path) -> pd.DataFrame:
    """Read arrays ``x`` [rows, features] and ``y``, or named columns of equal length.

    Raises:
        DataError: The archive is damaged, would not fit in memory, or holds pickled objects or arrays of other shapes.
    """
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
    try:
        return pd.DataFrame(columns)
    except (pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta, OverflowError) as error:
        raise DataError(f"{file}: a date is beyond those that can be read: {error}. Correct it.") from error
