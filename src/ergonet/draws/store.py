"""Stores of draws: in memory, or in a Zarr group on disk.

Arrays are `[chain, draw, ...]`, allocated for the whole run and filled with NaN where nothing has been written. On
disk, successive draws of a chain form Zarr chunks; the manifest (`manifest.json`) that counts the valid draws is
replaced atomically after the data, so that a killed run is readable up to its manifest.
"""

import abc
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError
from ergonet.draws.contents import MANIFEST, foreign_to_store
from ergonet.draws.replacement import Claim, Content, whereabouts

FORMAT_VERSION = 1
STORE = Content(foreign_to_store, "pass `overwrite=True`")


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

    def close(self) -> None:  # noqa: B027  most stores hold nothing
        """Release what the store holds, at the end of a run or after an error; by default nothing."""


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

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        draws_per_chunk: int = 100,
        overwrite: bool = False,
        within: Claim | None = None,
    ):
        """Check and keep the settings, and lock the folder until `finish` or `close`.

        Args:
            path: the folder, which is created, or replaced, as soon as every chain has a draw.
            draws_per_chunk: draws of a chain in each Zarr chunk, at least 1.
            overwrite: replace an existing folder, if it has nothing but a stored run.
            within: a claimed folder that contains this one and takes its place together with it; `path` is then
                relative to it.

        Raises:
            RunDirectoryError: the folder exists, or another process writes it.
        """
        self._claim = Claim(Path(path), STORE, overwrite=overwrite) if within is None else within
        self._part = path if within is not None else ""
        self._draws_per_chunk = draws_per_chunk
        self._opened: tuple[Path, Any] | None = None
        self._counts: list[int] = []

    @property
    def path(self) -> Path:
        """Where the draws are now: beside their folder until every chain has one."""
        return self._claim.folder / self._part

    @property
    def _group(self) -> Any:
        import zarr

        path = self.path
        if self._opened is None or self._opened[0] != path:
            self._opened = path, zarr.open_group(str(path), mode="r+")
        return self._opened[1]

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        import zarr

        path = self.path
        self._opened = path, zarr.open_group(str(path), mode="w-", zarr_format=3)
        self._counts = [0] * num_chains
        for name, (shape, dtype) in fields.items():
            floating = np.issubdtype(dtype, np.floating)
            self._group.create_array(
                name,
                shape=(num_chains, num_draws, *shape),
                chunks=(1, max(1, min(self._draws_per_chunk, num_draws)), *shape),
                dtype=dtype,
                fill_value=np.nan if floating else 0,
            )
        self._write_manifest({"complete": False})

    def write(self, chain: int, start: int, rows: Mapping[str, np.ndarray]) -> None:
        count = 0
        for name, values in rows.items():
            count = len(values)
            self._group[name][chain, start : start + count] = values
        self._counts[chain] = start + count
        self._write_manifest({"complete": False})
        if min(self._counts) > 0:
            self._claim.take()

    def field(self, name: str) -> Any:
        return self._group[name]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._group.array_keys()))

    def write_extra(self, group: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays that belong to the run as a whole, in a separate group."""
        subgroup = self._group.require_group(group)
        for name, values in arrays.items():
            subgroup.create_array(name, data=np.asarray(values), overwrite=True)

    def finish(self, about: Mapping[str, Any]) -> None:
        self._write_manifest({"complete": True, **about})
        self._claim.take()
        self.close()

    def close(self) -> None:
        if not self._part:  # otherwise the claim is another's
            self._claim.close()

    def _write_manifest(self, about: Mapping[str, Any]) -> None:
        content = {"format_version": FORMAT_VERSION, "draws_by_chain": self._counts, **about}
        write_json(self.path / MANIFEST, content)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a JSON file atomically, after its bytes are on disk."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, default=_plain)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _plain(number: Any) -> Any:
    """Convert a NumPy number to a Python number."""
    return number.item()


def read_store(path: str | os.PathLike[str]) -> tuple[Any, dict[str, Any]]:
    """Open the Zarr group and read the manifest of a stored run.

    Raises:
        RunDirectoryError: the folder is missing, has no manifest, or was written by another format version.
    """
    import zarr

    folder = Path(path)
    if not (folder / MANIFEST).exists():
        raise RunDirectoryError(
            f"`{folder}` has no `{MANIFEST}`: it is not a stored run, or the run never started.{whereabouts(folder)}"
        )
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest.get("format_version") != FORMAT_VERSION:
        raise RunDirectoryError(
            f"`{folder}` has format version {manifest.get('format_version')}, but this version of Ergonet reads "
            f"{FORMAT_VERSION}."
        )
    return zarr.open_group(str(folder), mode="r"), manifest
