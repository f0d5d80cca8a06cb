"""Files opened for reading, decompressed on the way: gzip, bzip2, xz, Zstandard, and ZIP archives of one file."""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ergonet._errors import DataError
from ergonet.datasets.limits import check_decompressed

_BEGINNINGS = {
    "gzip": b"\x1f\x8b",
    "bzip2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
    "Zstandard": b"\x28\xb5\x2f\xfd",
    "ZIP": b"PK\x03\x04",
}
_SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard", ".zip": "ZIP"}
_DAMAGED = (ValueError, OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)
_CHUNK = 2**20


class Decompressed(io.RawIOBase):
    """The content of a compressed file as a stream; whatever goes wrong in it is one `DataError`."""

    def __init__(self, file: Path, compression: str):
        super().__init__()
        self._file, self._compression = file, compression
        try:
            self._stream: Any = _OPENERS[compression](file)
        except _DAMAGED as error:
            raise self._damaged(error) from error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            found = self._stream.read(len(buffer))
        except _DAMAGED as error:
            raise self._damaged(error) from error
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed and hasattr(self, "_stream"):
            self._stream.close()
        super().close()

    def _damaged(self, error: Exception) -> DataError:
        if isinstance(error, DataError):
            return error
        return DataError(f"{self._file} cannot be decompressed ({self._compression}): {str(error).rstrip('.')}.")


def compression_of(file: Path) -> str | None:
    """How a file is compressed, told from its first bytes; None: it is not.

    Raises:
        DataError: The name ends like that of a compressed file, but the content is not compressed in this way.
    """
    with file.open("rb") as stream:
        beginning = stream.read(8)
    named = _SUFFIXES.get(file.suffix.lower())
    if named is not None:
        if not beginning.startswith(_BEGINNINGS[named]):
            raise DataError(f"{file} is not compressed with {named}, which its name says. Check how it was written.")
        return named
    return next((name for name, start in _BEGINNINGS.items() if beginning.startswith(start)), None)


def suffix_of(file: Path) -> str:
    """The suffix that says what a file holds: of ``table.csv.gz``, and of ``table.zip`` with it inside, ``.csv``."""
    suffix = file.suffix.lower()
    if suffix == ".zip":
        with Decompressed(file, "ZIP"):
            return Path(_only_member(file)).suffix.lower()
    return Path(file.stem).suffix.lower() if suffix in _SUFFIXES else suffix


def open_bytes(file: Path, compression: str | None) -> io.BufferedIOBase:
    """Open a file for reading its bytes after decompression."""
    if compression is None:
        return file.open("rb")
    return io.BufferedReader(Decompressed(file, compression), _CHUNK)


def whole_content(file: Path, compression: str) -> io.BufferedIOBase:
    """Decompress a file into memory.

    Raises:
        DataError: The file is damaged, or its content would not fit (see `limits`); no more than fits is read.
    """
    content, size = io.BytesIO(), 0
    with open_bytes(file, compression) as stream:
        while part := stream.read(_CHUNK):
            size += len(part)
            check_decompressed(size, file=file)
            content.write(part)
    content.seek(0)
    return content


def _only_member(file: Path) -> str:
    with zipfile.ZipFile(file) as archive:
        names = [one.filename for one in archive.infolist() if not one.is_dir()]
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise DataError(f"{file} holds {len(names)} files; an archive of exactly one table can be read. Unpack it.")
    return names[0]


def _open_zip(file: Path) -> Any:
    return zipfile.ZipFile(file).open(_only_member(file))


def _open_zstandard(file: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(file), compression="zstd")


_OPENERS: dict[str, Callable[[Path], Any]] = {
    "gzip": gzip.GzipFile,
    "bzip2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "Zstandard": _open_zstandard,
    "ZIP": _open_zip,
}
