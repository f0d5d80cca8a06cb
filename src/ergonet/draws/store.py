"""Stores of draws: in memory, or in a Zarr group on disk.

Arrays are `[chain, draw, ...]`, allocated for the whole run. On disk, successive draws of a chain form Zarr chunks with
checksums; the manifest (`manifest.json`) that counts the valid draws is replaced atomically after the data are on disk,
so that a killed run is readable up to its manifest.
"""

import abc
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError, SettingError
from ergonet.draws import checkpoint as checkpoints
from ergonet.draws.checkpoint import Checkpoint
from ergonet.draws.contents import foreign_to_store
from ergonet.draws.durable import sync, sync_tree
from ergonet.draws.faults import require_present, writes
from ergonet.draws.manifest import read_manifest, write_manifest
from ergonet.draws.replacement import Claim, Content, Existing
from ergonet.draws.stored import StoredArray, chunk_name

STORE = Content(foreign_to_store, "pass `overwrite=True`")
_SEPARATOR = "."  # between the numbers in the name of a chunk: one folder per array
_CONFIG: Any = {"write_empty_chunks": True}  # so that a missing chunk is a lost one


@dataclass(frozen=True)
class Left:
    """What an earlier run has left in a store.

    Attributes:
        fingerprint: what determines its draws.
        checkpoint: where it can be continued; None: at its beginning.
    """

    fingerprint: Mapping[str, Any]
    checkpoint: Checkpoint | None

    @property
    def drawn(self) -> int:
        """Draws that every chain has made, before retention."""
        return min(self.checkpoint.done) if self.checkpoint else 0


class AbstractStore(abc.ABC):
    """Positions and statistics of a run.

    Attributes:
        how_to_continue: how a run that was stopped is continued, as a sentence; empty if it cannot be.
    """

    how_to_continue: str = ""

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


class AbstractResumableStore(AbstractStore):
    """A store from which a run can be continued after its process has ended."""

    @abc.abstractmethod
    def write_fingerprint(self, fingerprint: Mapping[str, Any]) -> None:
        """Write what determines the draws, after the allocation."""

    @abc.abstractmethod
    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write what the run needs to continue, after the draws that it goes with."""

    @abc.abstractmethod
    def preserve(self) -> None:
        """Keep what a run has stored, though it ends without a draw of every chain."""

    @abc.abstractmethod
    def left(self) -> Left | None:
        """What an earlier run has left here to be continued; None to start a new one.

        Raises:
            RunDirectoryError: there is something that cannot be continued.
        """

    @abc.abstractmethod
    def require_intact(self, counts: Sequence[int]) -> None:
        """Check that draws can be added to so many of each chain; what is damaged beyond them, they replace.

        Raises:
            RunDirectoryError: a file to which they would be added is damaged.
        """


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


class ZarrStore(AbstractResumableStore):
    """Draws in a Zarr 3 group, with chunks of successive draws of one chain.

    Attributes:
        resumes: whether the stored run is continued.
        how_to_continue: how a run that was stopped is continued, as a sentence.
    """

    how_to_continue = "`resume=True` with the same arguments continues it."

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        draws_per_chunk: int = 100,
        overwrite: bool = False,
        resume: bool = False,
        within: Claim | None = None,
    ):
        """Check and keep the settings, and lock the folder until `finish` or `close`.

        Args:
            path: the folder, which is created, or replaced, as soon as every chain has a draw.
            draws_per_chunk: draws of a chain in each Zarr chunk, at least 1.
            overwrite: replace an existing folder, if it has nothing but a stored run.
            resume: continue the run that is stored there, if there is one.
            within: a claimed folder that contains this one and takes its place together with it; `path` is then
                relative to it.

        Raises:
            RunDirectoryError: the folder exists, or another process writes it.
            SettingError: both `overwrite` and `resume` are set.
        """
        if overwrite and resume:
            raise SettingError("Give `overwrite=True` or `resume=True` for a store, not both.")
        existing = Existing.CONTINUE if resume else Existing.REPLACE if overwrite else Existing.REFUSE
        self._claim = Claim(Path(path), STORE, existing=existing) if within is None else within
        self.resumes = resume
        self._part = path if within is not None else ""
        self._draws_per_chunk = draws_per_chunk
        self._opened: dict[Path, Any] = {}
        self._fields: list[str] = []
        self._extras: list[str] = []
        self._counts: list[int] = []

    @property
    def path(self) -> Path:
        """Where the draws are now: beside their folder until every chain has one."""
        return self._claim.folder / self._part

    def _array(self, name: str) -> Any:
        """An array, opened anew once the folder has taken its place."""
        import zarr

        path = self.path / name
        if path not in self._opened:
            self._opened[path] = zarr.open_array(str(path), mode="r+", zarr_format=3, config=_CONFIG)
        return self._opened[path]

    @writes
    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        import zarr

        if self.left() is not None:
            self._reopen(num_draws, fields)
            return
        if self.resumes and not self._claim.is_there:
            shutil.rmtree(self.path, ignore_errors=True)  # killed before it had anything to continue
        zarr.open_group(str(self.path), mode="w-", zarr_format=3)
        self._counts = [0] * num_chains
        draws = max(1, min(self._draws_per_chunk, num_draws))
        for name, (shape, dtype) in fields.items():
            self._create(name, (num_chains, num_draws, *shape), dtype, (1, draws, *shape))
            self._fields.append(name)
        sync_tree(self.path)
        self._write_manifest({"complete": False})

    def _reopen(self, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        """Continue the stored arrays, with room for `num_draws` draws."""
        self._counts = [min(count, num_draws) for count in read_manifest(self.path)["draws_by_chain"]]
        self._fields = list(fields)
        self._write_manifest({"complete": False})
        for name, (shape, _) in fields.items():
            array = self._array(name)
            if array.shape[1] != num_draws:
                array.resize((len(self._counts), num_draws, *shape))
        sync_tree(self.path)

    def require_intact(self, counts: Sequence[int]) -> None:
        for name in self._fields:
            array = StoredArray(self.path, name)
            for chain, count in enumerate(counts):
                fault = array.fault(array.last_block(count)[1][chain]) if count else None
                if fault is not None:
                    raise RunDirectoryError(
                        f"{fault} The run cannot be continued without it. Restore this file from a backup, or run "
                        f"again in another folder."
                    )
            array.discard_damaged(counts)

    def _create(self, name: str, shape: tuple[int, ...], dtype: np.dtype, chunks: Any = "auto") -> Any:
        import zarr
        from zarr.codecs import Crc32cCodec, ZstdCodec

        return zarr.open_group(str(self.path), mode="r+", zarr_format=3).create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            fill_value=np.nan if np.issubdtype(dtype, np.floating) else 0,
            compressors=[ZstdCodec(), Crc32cCodec()],
            chunk_key_encoding={"name": "default", "separator": _SEPARATOR},
            config=_CONFIG,
            overwrite=True,
        )

    @writes
    def write(self, chain: int, start: int, rows: Mapping[str, np.ndarray]) -> None:
        stop, written = start, set[Path]()
        for name, values in rows.items():
            require_present(self.path / name)
            array, stop = self._array(name), start + len(values)
            array[chain, start:stop] = values
            size, folder = array.chunks[1], self.path / name
            blocks = range(start // size, -(-stop // size))
            rest = (0,) * (array.ndim - 2)
            written |= {folder, *(folder / chunk_name((chain, block, *rest), _SEPARATOR) for block in blocks)}
        sync(written)
        self._counts[chain] = max(stop, self._counts[chain])  # draws beyond a checkpoint are made again, and are equal
        self._write_manifest({"complete": False})
        if min(self._counts) > 0:
            self._claim.take()

    def field(self, name: str) -> StoredArray:
        return StoredArray(self.path, name)

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._fields))

    @writes
    def write_extra(self, group: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays that belong to the run as a whole, in a separate group."""
        for name, given in arrays.items():
            values = np.asarray(given)
            self._create(f"{group}/{name}", values.shape, values.dtype)[...] = values
            self._extras.append(f"{group}/{name}")
        if arrays:
            sync_tree(self.path / group)

    @writes
    def write_fingerprint(self, fingerprint: Mapping[str, Any]) -> None:
        checkpoints.write_fingerprint(self.path, fingerprint)

    @writes
    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        checkpoints.write_checkpoint(self.path, checkpoint)

    def preserve(self) -> None:
        self._claim.preserve()

    def left(self) -> Left | None:
        return self._left

    @cached_property
    def _left(self) -> Left | None:
        is_begun = (self.path / checkpoints.FINGERPRINT).exists()
        if not self.resumes or not (is_begun or self._claim.is_there):
            return None
        return Left(checkpoints.read_fingerprint(self.path), checkpoints.read_checkpoint(self.path))

    @writes
    def finish(self, about: Mapping[str, Any]) -> None:
        checksums = {name: StoredArray(self.path, name).checksums() for name in (*self.names(), *self._extras)}
        self._write_manifest({"complete": True, "checksums": checksums, **about})
        self._claim.take()
        self.close()

    def close(self) -> None:
        if not self._part:  # otherwise the claim is another's
            self._claim.close()

    def _write_manifest(self, about: Mapping[str, Any]) -> None:
        arrays = [*self.names(), *self._extras]
        write_manifest(self.path, {"draws_by_chain": self._counts, "arrays": arrays, **about})
