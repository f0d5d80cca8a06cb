"""Where draws are kept: in memory, or in a Zarr group on disk.

Arrays are `[chain, draw, ...]`, allocated for the whole run and filled with NaN where nothing has been written. On disk
every block of a chain is one chunk, written whole; the manifest (`manifest.json`) that counts the valid draws is
replaced after the data, in one step, so a killed run is readable up to its manifest.
"""

import abc
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
POSITIONS = "positions"


class AbstractStore(abc.ABC):
    """Positions and statistics of a run."""

    @abc.abstractmethod
    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        """Make room for `[chain, draw, *shape]` arrays of each field."""

    @abc.abstractmethod
    def write(self, chain: int, start: int, block: Mapping[str, np.ndarray]) -> None:
        """Rows `start, start + 1, ...` of a chain, `[draw, ...]` by field."""

    @abc.abstractmethod
    def field(self, name: str) -> Any:
        """An array `[chain, draw, ...]`, lazy where it lies on disk."""

    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """Fields that are stored."""

    @abc.abstractmethod
    def finish(self, about: Mapping[str, Any]) -> None:
        """Record what is valid and what it is, after the data."""


def _blank(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose pages take memory only once they are written."""
    return np.zeros(shape, dtype)


class MemoryStore(AbstractStore):
    """Draws in NumPy arrays; unwritten rows are zeros, and the run cuts them off."""

    def __init__(self):
        self._arrays: dict[str, np.ndarray] = {}

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        self._arrays = {name: _blank((num_chains, num_draws, *shape), dtype) for name, (shape, dtype) in fields.items()}

    def write(self, chain: int, start: int, block: Mapping[str, np.ndarray]) -> None:
        for name, rows in block.items():
            self._arrays[name][chain, start : start + len(rows)] = rows

    def field(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def names(self) -> tuple[str, ...]:
        return tuple(self._arrays)

    def finish(self, about: Mapping[str, Any]) -> None:
        return None


class ZarrStore(AbstractStore):
    """Draws in a Zarr 3 group, one chunk per chain and block of draws."""

    def __init__(self, path: str | os.PathLike[str], *, block: int = 100, overwrite: bool = False):
        """Check and keep the settings.

        Args:
            path: a folder that does not exist yet.
            block: draws in a chunk, at least 1.
            overwrite: replace a folder that is there.

        Raises:
            RunDirectoryError: the folder exists.
        """
        self.path = Path(path)
        if self.path.exists() and not overwrite:
            raise RunDirectoryError(f"`{self.path}` exists. Choose another folder, or allow overwriting it.")
        self._block = block
        self._overwrite = overwrite
        self._group: Any = None
        self._counts: list[int] = []

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        import zarr

        self._group = zarr.open_group(str(self.path), mode="w" if self._overwrite else "w-", zarr_format=3)
        self._counts = [0] * num_chains
        for name, (shape, dtype) in fields.items():
            floating = np.issubdtype(dtype, np.floating)
            self._group.create_array(
                name,
                shape=(num_chains, num_draws, *shape),
                chunks=(1, max(1, min(self._block, num_draws)), *shape),
                dtype=dtype,
                fill_value=np.nan if floating else 0,
            )
        self._write_manifest({"complete": False})

    def write(self, chain: int, start: int, block: Mapping[str, np.ndarray]) -> None:
        count = 0
        for name, rows in block.items():
            count = len(rows)
            self._group[name][chain, start : start + count] = rows
        self._counts[chain] = start + count
        self._write_manifest({"complete": False})

    def field(self, name: str) -> Any:
        return self._group[name]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._group.array_keys()))

    def write_extra(self, group: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Arrays that belong to the run as a whole, in a group of their own."""
        subgroup = self._group.require_group(group)
        for name, values in arrays.items():
            subgroup.create_array(name, data=np.asarray(values), overwrite=True)

    def finish(self, about: Mapping[str, Any]) -> None:
        self._write_manifest({"complete": True, **about})

    def _write_manifest(self, about: Mapping[str, Any]) -> None:
        content = {"format_version": FORMAT_VERSION, "draws_by_chain": self._counts, **about}
        write_json(self.path / MANIFEST, content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file in one step, after its bytes are on disk."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, default=_plain)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _plain(number: Any) -> Any:
    """A NumPy number as Python's."""
    return number.item()


def read_store(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """The Zarr group and the manifest of a stored run.

    Raises:
        RunDirectoryError: the folder is missing, has no manifest, or was written by another format version.
    """
    import zarr

    folder = Path(path)
    if not (folder / MANIFEST).exists():
        raise RunDirectoryError(f"`{folder}` holds no `{MANIFEST}`: it is not a stored run, or it never began.")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest.get("format_version") != FORMAT_VERSION:
        raise RunDirectoryError(
            f"`{folder}` has format version {manifest.get('format_version')}, this Ergonet reads {FORMAT_VERSION}."
        )
    return zarr.open_group(str(folder), mode="r"), manifest
