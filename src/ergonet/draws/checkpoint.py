"""Checkpoints: what an unfinished run needs to continue, beside the draws that it has stored.

A checkpoint holds the jobs between two chunks, and what the recorder keeps in memory. It is written after the draws
that it goes with, so draws beyond it are made again and are equal. The one that it replaces is kept, so that a torn
file costs only the draws since then. The fingerprint says what determines the draws; it is written once.
"""

import io
import json
import time
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.draws.durable import checksum_of, replacing, write_json

CHECKPOINT, OLDER, FINGERPRINT = "checkpoint.npz", "checkpoint.previous.npz", "fingerprint.json"
EVERY_SECONDS = 5.0
LARGEST_SHARE = 0.02  # of the time of a run
FORMAT_VERSION = 1
Series = Mapping[str, np.ndarray]  # [draw, ...] of one chain, by field
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


@dataclass(frozen=True)
class Memo:
    """A job between two chunks.

    Attributes:
        leaves: arrays of its record, in the order of the tree.
        counters: its counters.
        busy: its seconds of work by phase.
        fault: what is wrong with its chains, in words; empty if nothing.
        origin: what its warm start has found and cost, in JSON types; empty without one.
    """

    leaves: Sequence[Any]
    counters: Mapping[str, int]
    busy: Mapping[str, float]
    fault: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """A run between two chunks of each job.

    Attributes:
        memos: the jobs that have made a chunk, by their chains.
        done: number of draws of each chain after the warm-up, stored or not.
        series: `warmup`, `curve` and `newest` (draws that wait to be stored): the fields of each chain.
    """

    memos: Mapping[tuple[int, ...], Memo]
    done: Sequence[int]
    series: Mapping[str, Sequence[Series]]


class Pace:
    """When to write checkpoints: every few seconds, and so seldom that they take at most 2 % of the time."""

    def __init__(self):
        self._ended, self._took = time.perf_counter(), 0.0

    @property
    def is_due(self) -> bool:
        """Whether it is time for the next one."""
        return time.perf_counter() - self._ended >= max(EVERY_SECONDS, self._took / LARGEST_SHARE)

    def wrote(self, began: float) -> None:
        """Note that one was written since `began`."""
        self._ended = time.perf_counter()
        self._took = self._ended - began


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint in the folder of a store; the one before it is kept under another name."""
    leaves = [[np.asarray(leaf) for leaf in memo.leaves] for memo in checkpoint.memos.values()]
    header = {
        "format_version": FORMAT_VERSION,
        "done": list(checkpoint.done),
        "jobs": [
            {
                "chains": list(chains),
                "counters": dict(memo.counters),
                "busy": dict(memo.busy),
                "fault": memo.fault,
                "origin": dict(memo.origin),
                "layout": [[str(leaf.dtype), list(leaf.shape)] for leaf in arrays],
            }
            for (chains, memo), arrays in zip(checkpoint.memos.items(), leaves, strict=True)
        ],
        "series": {
            group: [len(next(iter(one.values()), ())) for one in chains] for group, chains in checkpoint.series.items()
        },
    }
    arrays = {"header": _bytes_of([np.frombuffer(json.dumps(header).encode(), np.uint8)])}
    arrays |= {f"job{number}": _bytes_of(one) for number, one in enumerate(leaves)}
    for group, chains in checkpoint.series.items():
        for name in next((one for one in chains if one), ()):
            arrays[f"{group}/{name}"] = np.concatenate([one[name] for one in chains if one])
    with replacing(folder / CHECKPOINT, previous=folder / OLDER) as file:
        np.savez(file, allow_pickle=False, **arrays)


def _bytes_of(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.frombuffer(b"".join(np.ascontiguousarray(one).tobytes() for one in arrays), np.uint8)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the newest intact checkpoint, with a warning if it is not the newest of all; None if there is none."""
    damage: list[str] = []
    for path in (folder / CHECKPOINT, folder / OLDER):
        if not path.exists():
            continue
        try:
            found = _read(path)
        except _UNREADABLE as error:
            damage.append(f"`{path}` is damaged ({error})")
            continue
        if damage:
            _warn(damage[0], "the checkpoint before it is used, and the draws since then are made again")
        return found
    if damage:
        _warn(" and ".join(damage), "the run starts again from its first draw")
    return None


def checkpoint_faults(folder: Path) -> list[str]:
    """What is wrong with the checkpoints and the fingerprint, one sentence each."""
    found: list[str] = []
    try:
        read_fingerprint(folder)
    except RunDirectoryError as error:
        found.append(str(error))
    for path in (folder / CHECKPOINT, folder / OLDER):
        try:
            if path.exists():
                _read(path)
        except _UNREADABLE as error:
            found.append(f"`{path}` is damaged: {error}.")
    return found


def _warn(damage: str, consequence: str) -> None:
    warnings.warn(f"{damage}: {consequence}.", SamplingWarning, stacklevel=3)


def _read(path: Path) -> Checkpoint:
    data = path.read_bytes()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        broken = archive.testzip()
    if broken is not None:
        raise ValueError(f"the checksum of {broken} differs")
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        header = json.loads(arrays["header"].tobytes())
        if header["format_version"] != FORMAT_VERSION:
            raise ValueError(f"it has format version {header['format_version']}")
        memos = {
            tuple(job["chains"]): Memo(
                leaves=_arrays_of(arrays[f"job{number}"], job["layout"]),
                counters=job["counters"],
                busy=job["busy"],
                fault=job["fault"],
                origin=job.get("origin", {}),
            )
            for number, job in enumerate(header["jobs"])
        }
        series = {group: _series(arrays, group, lengths) for group, lengths in header["series"].items()}
    return Checkpoint(memos=memos, done=header["done"], series=series)


def _arrays_of(data: np.ndarray, layout: Sequence[Any]) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    start = 0
    for name, shape in layout:
        dtype = _dtype(name)
        size = dtype.itemsize * int(np.prod(shape, dtype=int))
        found.append(np.frombuffer(data[start : start + size].tobytes(), dtype).reshape(shape))
        start += size
    return found


def _dtype(name: str) -> np.dtype:
    """A NumPy dtype by name, or one of the short floats that JAX adds."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _series(arrays: Any, group: str, lengths: Sequence[int]) -> list[Series]:
    ends = np.cumsum(lengths).tolist()
    names = [name for name in arrays.files if name.startswith(f"{group}/")]
    whole = {name.removeprefix(f"{group}/"): arrays[name] for name in names}
    return [
        {name: values[end - length : end] for name, values in whole.items()} if length else {}
        for length, end in zip(lengths, ends, strict=True)
    ]


def write_fingerprint(folder: Path, fingerprint: Mapping[str, Any]) -> None:
    """Write what determines the draws of a run."""
    write_json(folder / FINGERPRINT, {"fingerprint": dict(fingerprint), "checksum": checksum_of(fingerprint)})


def read_fingerprint(folder: Path) -> dict[str, Any]:
    """Read what determines the draws of a stored run.

    Raises:
        RunDirectoryError: it is missing or damaged, so that the run cannot be continued.
    """
    path = folder / FINGERPRINT
    try:
        content = json.loads(path.read_bytes())
        found = content["fingerprint"]
        if checksum_of(found) != content["checksum"]:
            raise ValueError("its checksum does not match")
    except FileNotFoundError as error:
        raise RunDirectoryError(
            f"`{folder}` cannot be continued: it has no `{FINGERPRINT}`, because it was written by `save` or by an "
            f"older version. Choose another folder for a new run."
        ) from error
    except _UNREADABLE as error:
        raise RunDirectoryError(
            f"`{path}` is damaged ({error}), so the run cannot be continued. Restore it from a backup, or run again."
        ) from error
    return found
