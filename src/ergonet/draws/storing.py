"""Runs on disk: written as a Zarr group with a manifest, and read back with lazy positions."""

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.draws.contents import POSITIONS
from ergonet.draws.manifest import FORMAT_VERSION, read_manifest
from ergonet.draws.record import Record
from ergonet.draws.replacement import Claim
from ergonet.draws.store import STORE, AbstractStore, ZarrStore
from ergonet.draws.stored import LazyArrays, StoredArray, find_arrays
from ergonet.target.contract import AbstractTarget


def save(record: Record, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Write positions, statistics and tuning as a Zarr group with a manifest; no pickle.

    An existing folder is replaced once the new one is complete, so it may be the one that the positions are read from.

    Raises:
        RunDirectoryError: the folder exists and `overwrite` is not set, contains files that Ergonet did not write, or
            is being written by another process.
    """
    with closing(Claim(Path(path), STORE, overwrite=overwrite)) as claim:
        store = ZarrStore(claim.folder)
        arrays: dict[str, Any] = {POSITIONS: record.positions, **record.stats}
        fields = {name: (tuple(a.shape[2:]), np.dtype(a.dtype)) for name, a in arrays.items()}
        store.allocate(record.num_chains, record.num_draws, fields)
        for chain in range(record.num_chains):
            store.write(chain, 0, {name: np.asarray(a[chain]) for name, a in arrays.items()})
        finish_store(record, store)
        claim.take()
    return Path(path)


def finish_store(record: Record, store: AbstractStore) -> None:
    """Write everything that is not per draw, then the final manifest; other kinds of stores only receive `about`."""
    if not isinstance(store, ZarrStore):
        store.finish(record.about)
        return
    store.write_extra("warmup", record.warmup_stats)
    store.write_extra("tuning", record.tuning)
    if record.curve:
        store.write_extra("curve", record.curve)
    store.finish(
        {
            "draws": record.num_draws,
            "seconds": dict(record.seconds),
            "gradients": dict(record.gradients),
            "about": dict(record.about),
        }
    )


def _without_blanks(stats: Mapping[str, Callable[[], np.ndarray]]) -> dict[str, np.ndarray]:
    """Remove statistics that the kernel did not have: older versions stored NaN for them, or a depth of -1."""
    return {
        name: values
        for name, values in LazyArrays(stats).items()
        if not (values.size and np.all(values == -1 if name == "tree_depth" else np.isnan(values)))
    }


def read(path: str | os.PathLike[str], target: AbstractTarget | None = None) -> Record:
    """Read a stored run; positions are read lazily, and only valid draws are included.

    Args:
        path: a folder written by `Samples.save` or by a run with `store=path`.
        target: the target, which gives names to positions; draws and statistics can be read without it.

    Raises:
        RunDirectoryError: the folder is not a stored run, is damaged, or has no draw of every chain.
    """
    arrays, manifest = open_store(Path(path))
    draws = manifest.get("draws", min(manifest["draws_by_chain"]))
    if not manifest.get("complete"):
        draws = _before_torn_chunks(arrays, draws)
    if draws == 0:
        raise RunDirectoryError(f"`{path}` has no draw of every chain: the run ended during its warm-up. Run again.")
    positions = arrays[POSITIONS]
    if target is not None and positions.shape[2] != target.dim:
        raise RunDirectoryError(
            f"`{path}` has positions of dimension {positions.shape[2]}, but `target` has dimension {target.dim}."
        )
    stats = {
        name: partial(array.__getitem__, (slice(None), slice(draws)))
        for name, array in arrays.items()
        if "/" not in name and name != POSITIONS
    }
    known = LazyArrays if manifest["format_version"] >= FORMAT_VERSION else _without_blanks
    return Record(
        positions=positions if positions.shape[1] == draws else positions[:, :draws],
        stats=known(stats),
        warmup_stats=known(_extra(arrays, "warmup")),
        seconds=manifest.get("seconds", {}),
        gradients=manifest.get("gradients", {}),
        tuning=LazyArrays(_extra(arrays, "tuning")),
        about={"draws_by_chain": manifest["draws_by_chain"], **manifest.get("about", {})},
        target=target,
        curve=LazyArrays(curve) if (curve := _extra(arrays, "curve")) else None,
    )


def open_store(folder: Path) -> tuple[dict[str, StoredArray], dict[str, Any]]:
    """Open the arrays of a stored run by name, such as `positions` or `tuning/step_size`, and read its manifest.

    Raises:
        RunDirectoryError: the folder is not a stored run, has another format version, or lacks an array.
    """
    manifest = read_manifest(folder)
    has_checksums = manifest["format_version"] >= FORMAT_VERSION
    names = manifest.get("arrays") or find_arrays(folder)
    forms, checksums = manifest.get("forms", {}), manifest.get("checksums", {})
    arrays = {
        name: StoredArray(
            folder,
            name,
            is_sealed=has_checksums or name == POSITIONS,
            form=forms.get(name),
            checksums=checksums.get(name, ()),
        )
        for name in names
    }
    counts = manifest["draws_by_chain"]
    for name, array in arrays.items():
        if "/" not in name and (array.ndim < 2 or array.shape[0] != len(counts) or array.shape[1] < max(counts)):
            raise RunDirectoryError(
                f"`{folder / name}` has shape {list(array.shape)}, but the manifest counts {counts} draws by chain: a "
                f"file was changed. Restore the folder from a backup, or run again."
            )
    if POSITIONS not in arrays or arrays[POSITIONS].ndim != 3:
        raise RunDirectoryError(f"`{folder}` has no positions. Restore the folder from a backup, or run again.")
    return arrays, manifest


def _before_torn_chunks(arrays: Mapping[str, StoredArray], num_draws: int) -> int:
    """The draws of an unfinished run before the chunks that were being written when it ended, if these are torn."""
    for name, array in arrays.items():
        if "/" in name or num_draws == 0:
            continue
        start, blocks = array.last_block(num_draws)
        fault = next(filter(None, map(array.fault, blocks)), None)
        if fault is not None:
            warnings.warn(
                f"{fault} The run ended while it was written; the {start} draws of each chain before it are used.",
                SamplingWarning,
                stacklevel=2,
            )
            num_draws = start
    return num_draws


def _extra(arrays: Mapping[str, StoredArray], group: str) -> dict[str, Callable[[], np.ndarray]]:
    return {
        name.removeprefix(f"{group}/"): partial(array.__getitem__, ...)
        for name, array in arrays.items()
        if name.startswith(f"{group}/")
    }
