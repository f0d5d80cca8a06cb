"""Arrays of a stored run, as they are read: lazily, and with a check of every chunk."""

import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError
from ergonet.draws import memory
from ergonet.draws.manifest import METADATA, form_of, read_file

_CHUNKS = 10**7  # more than any run has files
_COMPRESSION = 2**17  # more than Zstandard achieves
Block = tuple[int, ...]  # index of a chunk along each axis; for draws: chain, block of draws, 0, ...

_CODECS = {"bytes", "zstd", "blosc", "crc32c"}  # all that Ergonet has written; anything else is never executed
_NUMBERS = {"bool"} | {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
CHECKSUM = 4  # bytes at the end of a chunk
_UNREADABLE = (
    ValueError,
    RuntimeError,
    OSError,
    MemoryError,
)  # of chunks that cannot be decoded


def chunk_name(block: Block, separator: str) -> str:
    """The file of a chunk, relative to the folder of its array."""
    return separator.join(["c", *map(str, block)])


class StoredArray:
    """An array on disk, read lazily; indexed by integers, slices and index arrays.

    Numbers that are stored in half precision are read in single precision.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        is_sealed: bool = True,
        form: int | None = None,
        checksums: Sequence[int | None] = (),
    ):
        """Open an array without reading it.

        Args:
            folder: the folder of a stored run.
            name: the array, such as `positions` or `tuning/step_size`.
            is_sealed: whether all counted chunks exist; arrays of format version 1 omit chunks of zeros.
            form: what `form_of` returned when the array was written; None: unknown.
            checksums: what `checksums` returned when the run was complete; empty: unknown.

        Raises:
            RunDirectoryError: the array is missing, damaged, or in a form that Ergonet does not write, or a chunk of it
                would not fit in memory.
        """
        import zarr

        self.name, self._path, self._is_sealed = name, folder / name, is_sealed
        self._separator = _separator(self._path / METADATA)
        if form is not None and form_of(self._path) != form:
            raise _unknown(self._path / METADATA)
        try:
            self._array: Any = zarr.open_array(str(self._path), mode="r", zarr_format=3)
        except (*_UNREADABLE, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            raise _unknown(self._path / METADATA) from error
        if math.prod(-(-length // size) for length, size in zip(self.shape, self._array.chunks, strict=True)) > _CHUNKS:
            raise _unknown(self._path / METADATA)
        self._checksums = dict(zip(self._blocks(...), checksums, strict=False)) if checksums else {}
        chunk, free = math.prod(self._array.chunks) * self._array.dtype.itemsize, memory.free_memory()
        if free is not None and chunk > free:
            raise RunDirectoryError(
                f"A chunk of `{self._path}` would take {chunk / memory.GIB:.1f} GiB of memory when decompressed, but "
                f"only {free / memory.GIB:.1f} GiB are free. Check where the run comes from."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each axis."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers, as they are read."""
        return np.dtype(np.float32) if self._array.dtype == np.float16 else self._array.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001 - NumPy's protocol
        return np.asarray(self[...], dtype)

    def __getitem__(self, index: Any) -> np.ndarray:
        """Read a part of the array.

        Raises:
            RunDirectoryError: a chunk of this part is missing or damaged.
        """
        blocks = self._blocks(index)
        cause = None
        if all(self._is_there(block) and self._is_original(block) for block in blocks):
            try:
                self._require_room(blocks)
                return np.asarray(self._array[index], self.dtype)
            except _UNREADABLE as error:
                cause = error
        fault = next(filter(None, map(self.fault, blocks)), None)
        if fault is None and cause is not None:
            raise cause
        raise RunDirectoryError(f"{fault} Restore this file from a backup, or run again.") from cause

    def fault(self, block: Block) -> str | None:
        """What is wrong with a chunk, as a sentence; None if it is intact."""
        file, size = self._path / chunk_name(block, self._separator), self._array.chunks
        if self._is_there(block):
            try:
                self._require_room([block])
                self._array[tuple(slice(b * s, (b + 1) * s) for b, s in zip(block, size, strict=True))]
            except _UNREADABLE:
                what = "damaged"
            else:
                if self._is_original(block):
                    return None
                what = "not the one that was written"
        else:
            what = "missing"
        if "/" in self.name:
            return f"`{file}` is {what}."
        first, last = block[1] * size[1], min((block[1] + 1) * size[1], self.shape[1]) - 1
        held = f"{self.name} of draws {first} to {last} of chain {block[0]} (counted from 0)"
        return f"`{file}` with {held} is {what}."

    def counted(self, counts: Sequence[int]) -> Iterator[Block]:
        """The chunks that contain valid data, where chain number i has `counts[i]` draws."""
        for block in self._blocks(...):
            if "/" in self.name or block[1] * self._array.chunks[1] < counts[block[0]]:
                yield block

    def last_block(self, num_draws: int) -> tuple[int, list[Block]]:
        """The chunks, one per chain, with the last of `num_draws` draws, and the first draw in them."""
        size = self._array.chunks[1]
        block = (num_draws - 1) // size
        return block * size, [(chain, block, *(0,) * (self.ndim - 2)) for chain in range(len(self))]

    def discard_damaged(self, counts: Sequence[int]) -> None:
        """Remove damaged chunks without any of the first draws of a chain, `counts`, so that others can be written.

        They are of a run that was cut off after its last checkpoint.
        """
        for block in self._existing():
            if block[1] * self._array.chunks[1] >= counts[block[0]] and self.fault(block) is not None:
                (self._path / chunk_name(block, self._separator)).unlink(missing_ok=True)

    def checksums(self) -> list[int | None]:
        """The checksums at the ends of all chunks; None for chunks without a file."""
        there = set(self._existing())
        return [self._checksum(block) if block in there else None for block in self._blocks(...)]

    def _existing(self) -> list[Block]:
        """The chunks that have a file."""
        names = [file.relative_to(self._path).as_posix().split(self._separator) for file in self._path.rglob("*")]
        return [
            tuple(map(int, rest))
            for first, *rest in names
            if first == "c" and len(rest) == self.ndim and all(map(str.isdecimal, rest))
        ]

    def _checksum(self, block: Block) -> int | None:
        try:
            with (self._path / chunk_name(block, self._separator)).open("rb") as file:
                file.seek(-CHECKSUM, os.SEEK_END)
                return int.from_bytes(file.read(), "little")
        except OSError:
            return None

    def _is_original(self, block: Block) -> bool:
        """Whether a chunk is the one that was written here, and not that of another place or run."""
        written = self._checksums.get(block)
        return written is None or written == self._checksum(block)

    def _require_room(self, blocks: list[Block]) -> None:
        """Refuse what no file of this size contains, before it is allocated; raises `ValueError`."""
        size = math.prod(self._array.chunks) * self.dtype.itemsize
        for block in blocks:
            file = self._path / chunk_name(block, self._separator)
            if file.is_file() and size > _COMPRESSION * file.stat().st_size:
                raise ValueError("a chunk declares more than it contains")

    def _is_there(self, block: Block) -> bool:
        return not self._is_sealed or (self._path / chunk_name(block, self._separator)).is_file()

    def _blocks(self, index: Any) -> list[Block]:
        """The chunks that an index touches."""
        parts = list(index) if isinstance(index, tuple) else [index]
        if (at := next((i for i, part in enumerate(parts) if part is Ellipsis), None)) is not None:
            parts[at : at + 1] = [slice(None)] * (self.ndim + 1 - len(parts))
        parts += [slice(None)] * (self.ndim - len(parts))
        axes = zip(parts, self.shape, self._array.chunks, strict=True)
        touched = [_touched(part, length, size) for part, length, size in axes]
        return list(itertools.product(*touched))


def _touched(part: Any, length: int, size: int) -> list[int]:
    """The chunks along an axis that an index touches."""
    chosen = range(length)[part] if isinstance(part, slice) else np.arange(length)[part]
    if isinstance(chosen, range) and chosen and chosen.step == 1:
        return [*range(chosen[0] // size, chosen[-1] // size + 1)]
    return np.unique(np.asarray(chosen) // size).tolist()


class LazyArrays(Mapping[str, np.ndarray]):
    """Arrays by name, each read when it is first used, so that a damaged one is no obstacle to the others."""

    def __init__(self, readers: Mapping[str, Callable[[], np.ndarray]]):
        self._readers, self._read = dict(readers), dict[str, np.ndarray]()

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._read:
            self._read[name] = self._readers[name]()
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


def find_arrays(folder: Path) -> list[str]:
    """Names of the arrays in the folder of a stored run and in its groups."""
    found = sorted(itertools.chain(folder.glob(f"*/{METADATA}"), folder.glob(f"*/*/{METADATA}")))
    return [str(path.parent.relative_to(folder)) for path in found if _table(path).get("node_type") == "array"]


def _separator(path: Path) -> str:
    """Check the metadata of an array before Zarr interprets them; the separator in the names of its chunks."""
    table = _table(path)
    try:
        keys = table["chunk_key_encoding"]
        is_known = (
            (table["zarr_format"], table["node_type"], table["chunk_grid"]["name"]) == (3, "array", "regular")
            and {codec["name"] for codec in table["codecs"]} <= _CODECS
            and table["data_type"] in _NUMBERS
            and keys["name"] == "default"
            and not table.get("storage_transformers")
        )
        separator = keys.get("configuration", {}).get("separator", "/")
    except (KeyError, TypeError, AttributeError) as error:
        raise _unknown(path) from error
    if not is_known or separator not in (".", "/"):
        raise _unknown(path)
    return separator


def _unknown(path: Path) -> RunDirectoryError:
    return RunDirectoryError(
        f"`{path}` is damaged or was written by another program: its array is not opened. Restore this file from a "
        f"backup, or run again."
    )


def _table(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_file(path))
    except FileNotFoundError as error:
        raise RunDirectoryError(f"`{path}` is missing. Restore its folder from a backup, or run again.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise _unknown(path) from error
    return content if isinstance(content, dict) else {}
