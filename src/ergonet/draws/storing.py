"""Runs on disk: written as a Zarr group with a manifest, and read back with lazy positions."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError
from ergonet.draws.contents import POSITIONS
from ergonet.draws.record import Record
from ergonet.draws.replacement import Claim
from ergonet.draws.store import STORE, AbstractStore, ZarrStore, read_store
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


def _without_blanks(stats: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Remove statistics that the kernel did not have: older versions stored NaN for them, or a depth of -1."""
    return {
        name: values
        for name, values in stats.items()
        if not (values.size and np.all(values == -1 if name == "tree_depth" else np.isnan(values)))
    }


def read(path: str | os.PathLike[str], target: AbstractTarget | None = None) -> Record:
    """Read a stored run; positions are read lazily, and only valid draws are included.

    Args:
        path: a folder written by `Samples.save` or by a run with `store=path`.
        target: the target, which gives names to positions; draws and statistics can be read without it.

    Raises:
        RunDirectoryError: the folder is not a stored run, or has no draw of every chain.
    """
    group, manifest = read_store(path)
    draws = manifest.get("draws", min(manifest["draws_by_chain"]))
    if draws == 0:
        raise RunDirectoryError(f"`{path}` has no draw of every chain: the run ended during its warm-up.")
    positions = group[POSITIONS]
    if target is not None and positions.shape[2] != target.dim:
        raise RunDirectoryError(
            f"`{path}` has positions of dimension {positions.shape[2]}, but `target` has dimension {target.dim}."
        )
    return Record(
        positions=positions if positions.shape[1] == draws else np.asarray(positions[:, :draws]),
        stats=_without_blanks(
            {name: np.asarray(group[name][:, :draws]) for name in sorted(group.array_keys()) if name != POSITIONS}
        ),
        warmup_stats=_without_blanks(_extra(group, "warmup")),
        seconds=manifest.get("seconds", {}),
        gradients=manifest.get("gradients", {}),
        tuning=_extra(group, "tuning"),
        about=manifest.get("about", {}),
        target=target,
        curve=_extra(group, "curve") or None,
    )


def _extra(group: Any, name: str) -> dict[str, np.ndarray]:
    return {key: np.asarray(value[...]) for key, value in group[name].arrays()} if name in group else {}
