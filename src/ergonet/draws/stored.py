"""Arrays of a stored run, as they are read: lazily, and with a check of every chunk."""

import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError

Block = tuple[int, ...]  # index of a chunk along each axis; for draws: chain, block of draws, 0, ...

_METADATA = "zarr.json"
_CODECS = {"bytes", "zstd", "blosc", "crc32c"}  # all that Ergonet has written; anything else is never executed
_NUMBERS = {"bool"} | {f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)}
_UNREADABLE = (ValueError, RuntimeError, OSError)  # what Zarr and its codecs raise for a chunk that they cannot decode


def chunk_name(block: Block, separator: str) -> str:
    """The file of a chunk, relative to the folder of its array."""
    return separator.join(["c", *map(str, block)])


class StoredArray:
    """An array on disk, read lazily; indexed by integers, slices and index arrays."""

    def __init__(self, folder: Path, name: str, *, is_sealed: bool = True):
        """Open an array without reading it.

        Args:
            folder: the folder of a stored run.
            name: the array, such as `positions` or `tuning/step_size`.
            is_sealed: whether all counted chunks exist; arrays of format version 1 omit chunks of zeros.

        Raises:
            RunDirectoryError: the array is missing, damaged, or in a form that Ergonet does not write.
        """
        import zarr

        self.name, self._path, self._is_sealed = name, folder / name, is_sealed
        self._separator = _separator(self._path / _METADATA)
        try:
            self._array: Any = zarr.open_array(str(self._path), mode="r", zarr_format=3)
        except (*_UNREADABLE, KeyError, TypeError) as error:
            raise _unknown(self._path / _METADATA) from error

    @property
    def shape(self) -> tuple[int, ...]:
        """Size of each axis."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers."""
        return self._array.dtype

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
        if all(self._is_there(block) for block in blocks):
            try:
                return np.asarray(self._array[index])
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
                self._array[tuple(slice(b * s, (b + 1) * s) for b, s in zip(block, size, strict=True))]
            except _UNREADABLE:
                what = "damaged"
            else:
                return None
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

    def _is_there(self, block: Block) -> bool:
        return not self._is_sealed or (self._path / chunk_name(block, self._separator)).is_file()

    def _blocks(self, index: Any) -> list[Block]:
        """The chunks that an index touches."""
        parts = list(index) if isinstance(index, tuple) else [index]
        if (at := next((i for i, part in enumerate(parts) if part is Ellipsis), None)) is not None:
            parts[at : at + 1] = [slice(None)] * (self.ndim + 1 - len(parts))
        parts += [slice(None)] * (self.ndim - len(parts))
        axes = zip(parts, self.shape, self._array.chunks, strict=True)
        touched = [np.unique(np.arange(length)[part] // size).tolist() for part, length, size in axes]
        return list(itertools.product(*touched))


def find_arrays(folder: Path) -> list[str]:
    """Names of the arrays in the folder of a stored run and in its groups."""
    found = sorted(itertools.chain(folder.glob(f"*/{_METADATA}"), folder.glob(f"*/*/{_METADATA}")))
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
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise RunDirectoryError(f"`{path}` is missing. Restore its folder from a backup, or run again.") from error
    except (OSError, ValueError) as error:
        raise _unknown(path) from error
    return content if isinstance(content, dict) else {}
