"""`ergonet verify`: check every file of a run directory."""

import io
import json
import tomllib
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.draws.manifest import FORMAT_VERSION, manifest_faults
from ergonet.runs.directory import DRAWS, EVALUATION, MANIFEST, METRICS, PREPROCESSING, SETTINGS, STATS, RunDirectory

_UNREADABLE = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)
_ALWAYS_THERE = (SETTINGS, PREPROCESSING)
_RESULTS = (METRICS, EVALUATION, STATS)  # of a fit that finished


@dataclass(frozen=True)
class Check:
    """The check of one kind of files: what is wrong, one sentence each, or else a remark."""

    kind: str
    faults: tuple[str, ...]
    remark: str = "intact"

    def __str__(self) -> str:
        more = f" ({len(self.faults)} faults in all)" if len(self.faults) > 1 else ""
        return f"{self.kind:<25} {self.faults[0] + more if self.faults else self.remark}"


def verify(directory: RunDirectory) -> tuple[list[str], bool]:
    """Check every file of a run directory.

    Returns:
        A line for each kind of files, with a verdict at the end, and whether no file is damaged.

    Raises:
        RunDirectoryError: there is no such directory.
    """
    directory.require(())
    checks = list(_checks(directory))
    is_intact = not any(check.faults for check in checks)
    if not is_intact:
        verdict = "Files are damaged. Restore them from a backup, or fit again."
    elif (directory.path / MANIFEST).exists():
        verdict = "No damage was found."
    else:
        verdict = "No damage was found, but the fit did not finish: `ergonet report` uses the draws that there are."
    return [*map(str, checks), f"{directory.path}: {verdict}"], is_intact


def _checks(directory: RunDirectory) -> Iterator[Check]:
    try:
        manifest, faults = directory.read_manifest(), ()
    except RunDirectoryError as error:
        manifest, faults = None, (str(error),)
    finished = manifest is not None or bool(faults)
    yield Check(MANIFEST, faults, "intact" if finished else "missing: the fit did not finish")
    checksums = (manifest or {}).get("checksums", {})
    for name in (*_ALWAYS_THERE, *_RESULTS):
        path = directory.path / name
        if path.exists() or finished or name in _ALWAYS_THERE:
            yield Check(name, tuple(_faults(path, checksums)), "intact" if name in checksums else "readable")
        else:
            yield Check(name, (), "missing: the fit did not finish")
    yield from _draws(directory.draws)


def _faults(path: Path, checksums: Mapping[str, int]) -> Iterator[str]:
    """What is wrong with a file."""
    try:
        data = path.read_bytes()
        _parse(path.suffix, data)
    except FileNotFoundError:
        yield f"{str(path)!r} is missing."
    except (OSError, *_UNREADABLE) as error:
        yield f"{str(path)!r} is damaged: {error}."
    else:
        if zlib.crc32(data) != checksums.get(path.name, zlib.crc32(data)):
            yield f"{str(path)!r} is not as the fit wrote it: its checksum differs."


def _parse(suffix: str, data: bytes) -> None:
    if suffix == ".toml":
        tomllib.loads(data.decode())
    elif suffix == ".json":
        json.loads(data)
    else:
        broken = zipfile.ZipFile(io.BytesIO(data)).testzip()
        if broken is not None:
            raise ValueError(f"the checksum of {broken} differs")


def _draws(folder: Path) -> Iterator[Check]:
    from ergonet.draws.storing import open_store

    yield Check(f"{DRAWS}/{MANIFEST}", tuple(manifest_faults(folder)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # about manifests, which were just checked
            arrays, manifest = open_store(folder)
    except RunDirectoryError as error:
        yield Check(DRAWS, (str(error),))
        return
    kinds: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        kinds.setdefault(name.partition("/")[0] if "/" in name else _kind(name), []).append(array)
    for kind, members in kinds.items():
        blocks = [(array, block) for array in members for block in array.counted(manifest["draws_by_chain"])]
        faults = filter(None, (array.fault(block) for array, block in blocks))
        has_checksums = manifest["format_version"] >= FORMAT_VERSION
        remark = "intact" if has_checksums else "readable, but of a version without checksums"
        yield Check(f"{DRAWS} {kind}", tuple(faults), f"{remark}: {len(blocks)} chunks")


def _kind(name: str) -> str:
    from ergonet.draws.contents import POSITIONS

    return name if name == POSITIONS else "statistics"
