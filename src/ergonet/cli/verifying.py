"""`ergonet verify`: check every file of a run directory."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.draws.manifest import FORMAT_VERSION, manifest_faults
from ergonet.runs.directory import DRAWS, ESTIMATOR, MANIFEST, PREPROCESSING, RESULTS, SETTINGS, RunDirectory

_ALWAYS_THERE = (SETTINGS, PREPROCESSING)


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
    elif directory.check_version():
        verdict = "No damage was found."
    else:
        verdict = "No damage was found, but the fit did not finish: `ergonet report` uses the draws that there are."
    return [*map(str, checks), f"{directory.path}: {verdict}"], is_intact


def _checks(directory: RunDirectory) -> Iterator[Check]:
    try:
        manifest, faults = directory.read_manifest(), ()
    except RunDirectoryError as error:
        manifest, faults = None, (str(error),)
    finished = bool(faults) or (manifest is not None and manifest.get("finished", True))
    yield Check(MANIFEST, faults, "intact" if finished else "the fit did not finish")
    expected = {*_ALWAYS_THERE, *(manifest["files"] if manifest and finished else RESULTS if finished else ())}
    for name in (*_ALWAYS_THERE, *RESULTS, ESTIMATOR):
        if (directory.path / name).exists() or name in expected:
            found = tuple(_faults(directory, name))
            yield Check(name, found, "intact" if name in (manifest or {}).get("checksums", {}) else "readable")
        elif not finished and name != ESTIMATOR:
            yield Check(name, (), "missing: the fit did not finish")
    yield from _draws(directory.draws)


def _faults(directory: RunDirectory, name: str) -> Iterator[str]:
    """What is wrong with a file."""
    try:
        directory.read(name)
    except RunDirectoryError as error:
        yield str(error)


def _draws(folder: Path) -> Iterator[Check]:
    from ergonet.draws.checkpoint import CHECKPOINT, checkpoint_faults
    from ergonet.draws.storing import open_store

    yield Check(f"{DRAWS}/{MANIFEST}", tuple(manifest_faults(folder)))
    if (folder / CHECKPOINT).exists():
        yield Check(f"{DRAWS}/{CHECKPOINT}", tuple(checkpoint_faults(folder)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # about manifests, which were just checked
            arrays, manifest = open_store(folder)
    except RunDirectoryError as error:
        yield Check(DRAWS, (str(error),))
        return
    counts = manifest["draws_by_chain"]
    if len(set(counts)) > 1:
        yield Check("draws by chain", (), ", ".join(map(str, counts)))
    kinds: dict[str, list[Any]] = {}
    for name, array in arrays.items():
        kinds.setdefault(name.partition("/")[0] if "/" in name else _kind(name), []).append(array)
    for kind, members in kinds.items():
        blocks = [(array, block) for array in members for block in array.counted(counts)]
        faults = filter(None, (array.fault(block) for array, block in blocks))
        has_checksums = manifest["format_version"] >= FORMAT_VERSION
        remark = "intact" if has_checksums else "readable, but of a version without checksums"
        yield Check(f"{DRAWS} {kind}", tuple(faults), f"{remark}: {len(blocks)} chunks")


def _kind(name: str) -> str:
    from ergonet.draws.contents import POSITIONS

    return name if name == POSITIONS else "statistics"
