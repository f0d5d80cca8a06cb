"""Stores of draws: in memory, or in a Zarr group on disk.

Arrays are `[chain, draw, ...]`, allocated for the whole run. On disk, successive draws of a chain form Zarr chunks with
checksums; the manifest (`manifest.json`) that counts the valid draws is replaced atomically after the data are on disk,
so that a killed run is readable up to its manifest.
"""

import abc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError
from ergonet.draws.durable import sync, sync_tree
from ergonet.draws.manifest import write_manifest
from ergonet.draws.stored import StoredArray, chunk_name

POSITIONS = "positions"
_SEPARATOR = "."  # between the numbers in the name of a chunk: one folder per array


class AbstractStore(abc.ABC):
    """Positions and statistics of a run."""

    @abc.abstractmethod
    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        """Allocate an array `[chain, draw, *shape]` for each field."""

    @abc.abstractmethod
    def write(self, chain: int, start: int, rows: Mapping[str, np.ndarray]) -> None:
        """Write draws `start, start + 1, ...` of a chain, `[draw, ...]` by field."""

    @abc.abstractmethod
    def field(self, name: str) -> Any:
        """An array `[chain, draw, ...]`, lazy if it is on disk."""

    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the stored fields."""

    @abc.abstractmethod
    def finish(self, about: Mapping[str, Any]) -> None:
        """Write what is valid and the description of the run, after the data."""


def _blank(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array whose pages take memory only after they are written."""
    return np.zeros(shape, dtype)


class MemoryStore(AbstractStore):
    """Draws in NumPy arrays; unwritten draws are zeros, which the run cuts off."""

    def __init__(self):
        self._arrays: dict[str, np.ndarray] = {}

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        self._arrays = {name: _blank((num_chains, num_draws, *shape), dtype) for name, (shape, dtype) in fields.items()}

    def write(self, chain: int, start: int, rows: Mapping[str, np.ndarray]) -> None:
        for name, values in rows.items():
            self._arrays[name][chain, start : start + len(values)] = values

    def field(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def names(self) -> tuple[str, ...]:
        return tuple(self._arrays)

    def finish(self, about: Mapping[str, Any]) -> None:
        return None


class ZarrStore(AbstractStore):
    """Draws in a Zarr 3 group, with chunks of successive draws of one chain."""

    def __init__(self, path: str | os.PathLike[str], *, draws_per_chunk: int = 100, overwrite: bool = False):
        """Check and keep the settings.

        Args:
            path: the folder to create.
            draws_per_chunk: draws of a chain in each Zarr chunk, at least 1.
            overwrite: replace an existing folder.

        Raises:
            RunDirectoryError: the folder exists.
        """
        self.path = Path(path)
        if self.path.exists() and not overwrite:
            raise RunDirectoryError(f"`{self.path}` exists. Choose another folder, or allow overwriting it.")
        self._draws_per_chunk = draws_per_chunk
        self._overwrite = overwrite
        self._group: Any = None
        self._arrays: dict[str, Any] = {}
        self._extras: list[str] = []
        self._counts: list[int] = []

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        import zarr

        self._group = zarr.open_group(str(self.path), mode="w" if self._overwrite else "w-", zarr_format=3)
        self._counts = [0] * num_chains
        draws = max(1, min(self._draws_per_chunk, num_draws))
        for name, (shape, dtype) in fields.items():
            self._arrays[name] = self._create(name, (num_chains, num_draws, *shape), dtype, (1, draws, *shape))
        sync_tree(self.path)
        self._write_manifest({"complete": False})

    def _create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, chunks: Any = "auto") -> Any:
        from zarr.codecs import Crc32cCodec, ZstdCodec

        return self._group.create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            fill_value=np.nan if np.issubdtype(dtype, np.floating) else 0,
            compressors=[ZstdCodec(), Crc32cCodec()],
            chunk_key_encoding={"name": "default", "separator": _SEPARATOR},
            config={"write_empty_chunks": True},  # so that a missing chunk is a lost one
            overwrite=True,
        )

    def write(self, chain: int, start: int, rows: Mapping[str, np.ndarray]) -> None:
        stop, written = start, set[Path]()
        for name, values in rows.items():
            array, stop = self._arrays[name], start + len(values)
            array[chain, start:stop] = values
            size, folder = array.chunks[1], self.path / name
            blocks = range(start // size, -(-stop // size))
            rest = (0,) * (array.ndim - 2)
            written |= {folder, *(folder / chunk_name((chain, block, *rest), _SEPARATOR) for block in blocks)}
        sync(written)
        self._counts[chain] = stop
        self._write_manifest({"complete": False})

    def field(self, name: str) -> StoredArray:
        return StoredArray(self.path, name)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._arrays))

    def write_extra(self, group: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays that belong to the run as a whole, in a separate group."""
        for name, given in arrays.items():
            values = np.asarray(given)
            self._create(f"{group}/{name}", values.shape, values.dtype)[...] = values
            self._extras.append(f"{group}/{name}")
        if arrays:
            sync_tree(self.path / group)

    def finish(self, about: Mapping[str, Any]) -> None:
        self._write_manifest({"complete": True, **about})

    def _write_manifest(self, about: Mapping[str, Any]) -> None:
        arrays = [*self.names(), *self._extras]
        write_manifest(self.path, {"draws_by_chain": self._counts, "arrays": arrays, **about})
