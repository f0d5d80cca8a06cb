"""Files of a run directory, read with a check of their checksums, sizes and forms before anything uses them."""

import io
import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ergonet._errors import RunDirectoryError

if TYPE_CHECKING:
    import numpy as np

# What parsers and constructors raise for content that Ergonet did not write.
DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError),
    *(EOFError, MemoryError, zipfile.BadZipFile, zlib.error, struct.error),
)
_TEXT_BYTES = 2**28  # more than any JSON or TOML of a run
T = TypeVar("T")


def checksum(data: bytes) -> int:
    """The CRC-32 by which the manifest recognizes a file."""
    return zlib.crc32(data)


def read(path: Path, expected: int | None) -> bytes:
    """Read a file.

    Args:
        path: the file.
        expected: its checksum in the manifest; None: there is none.

    Raises:
        RunDirectoryError: it is missing, cannot be read, or has another checksum.
    """
    try:
        data = path.read_bytes() if path.is_file() or not path.exists() else None
    except (OSError, MemoryError) as error:
        raise damaged(path, error) from error
    if data is None:
        raise damaged(path, "it is no file")
    if expected is not None and checksum(data) != expected:
        raise RunDirectoryError(
            f"{str(path)!r} is not as it was written: its checksum differs. Restore it from a backup, or fit again. If "
            f"you changed it on purpose, delete 'manifest.json' beside it, which has the checksums."
        )
    return data


def damaged(path: Path, error: object) -> RunDirectoryError:
    """The error about a file that cannot be used."""
    return RunDirectoryError(
        f"{str(path)!r} cannot be read ({error}). It is damaged or was written by another program: restore it from a "
        f"backup, or fit again."
    )


def parse(path: Path, data: bytes) -> dict[str, Any]:
    """The content of a TOML, JSON or NPZ file, by its suffix.

    Raises:
        RunDirectoryError: it is damaged, or contains objects.
    """
    parser: Callable[[bytes], dict[str, Any]] = {".toml": _toml, ".json": _json, ".npz": _arrays}[path.suffix]
    return using(path, lambda: parser(data))


def using(path: Path, use: Callable[[], T]) -> T:
    """The result of what uses the content of a file; whatever goes wrong is an error that names the file."""
    try:
        return use()
    except RunDirectoryError as error:
        if str(path.parent) in str(error):
            raise
        raise RunDirectoryError(f"{str(path)!r}: {error}") from error
    except DAMAGE as error:
        raise damaged(path, f"{type(error).__name__}: {error}") from error


def _toml(data: bytes) -> dict[str, Any]:
    import tomllib

    _check_size(data)
    return tomllib.loads(data.decode())


def _json(data: bytes) -> dict[str, Any]:
    _check_size(data)
    content = json.loads(data)
    if not isinstance(content, dict):
        raise TypeError(f"expected a table, got {type(content).__name__}")
    return content


def _check_size(data: bytes) -> None:
    if len(data) > _TEXT_BYTES:
        raise ValueError(f"it has {len(data)} bytes, more than a run has in text")


def _arrays(data: bytes) -> "dict[str, np.ndarray]":
    import numpy as np

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(one.file_size for one in archive.infolist()) > len(data):  # Ergonet does not compress
            raise ValueError("its arrays declare more bytes than it has")
        for one in archive.infolist():
            with archive.open(one) as file:
                _check_header(file, one.file_size)
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _check_header(file: Any, size: int) -> None:
    """Compare the shape in the header of an array with its bytes, before it is allocated."""
    from numpy.lib import format as form

    version = form.read_magic(file)
    header = form.read_array_header_1_0 if version == (1, 0) else form.read_array_header_2_0
    shape, _, dtype = header(file)
    if dtype.hasobject or file.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"an array of shape {list(shape)} and type {dtype} does not match its bytes")


def table_of(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A table in a table; empty if it is absent.

    Raises:
        TypeError: it is no table.
    """
    found = content.get(name, {})
    if not isinstance(found, dict):
        raise TypeError(f"`{name}` must be a table, got {found!r}")
    return found
