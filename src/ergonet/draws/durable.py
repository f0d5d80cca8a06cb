"""Files that are complete and on disk before anything relies on them."""

import errno
import json
import os
import zlib
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ergonet.draws.faults import told

_AT_ONCE = 16  # a disk writes what is requested together in about the time of one file


def sync(paths: Iterable[Path]) -> None:
    """Wait until files and folders are on disk."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(_sync_one, paths))


def sync_tree(folder: Path) -> None:
    """Wait until a folder and everything in it are on disk."""
    sync([folder.parent, folder, *folder.rglob("*")])


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks cannot do this for folders
            raise
    finally:
        os.close(handle)


def temporary(path: Path) -> Path:
    """The name of a file until it is on disk."""
    return path.with_suffix(".tmp")


@contextmanager
def replacing(path: Path, *, previous: Path | None = None) -> Generator[IO[bytes]]:
    """Yield a file that replaces `path` once it is on disk.

    Args:
        path: the file to create or replace.
        previous: the new name of the file that is replaced; None: it is deleted.
    """
    unfinished = temporary(path)
    unfinished.unlink(missing_ok=True)  # a link there would be followed
    with told(path):
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if previous is not None and path.exists():
            path.replace(previous)
        unfinished.replace(path)
        _sync_one(path.parent)


def write_json(path: Path, content: Mapping[str, Any], *, previous: Path | None = None) -> None:
    """Replace a JSON file as `replacing` does."""
    with replacing(path, previous=previous) as file:
        file.write(to_json(content).encode())


def to_json(content: Mapping[str, Any]) -> str:
    """JSON text, with NumPy numbers as Python numbers."""
    return json.dumps(content, indent=1, default=lambda number: number.item())


def checksum_of(content: Mapping[str, Any]) -> int:
    """The CRC-32 of a table as JSON, which is the same after writing and reading."""
    return zlib.crc32(to_json(content).encode())
