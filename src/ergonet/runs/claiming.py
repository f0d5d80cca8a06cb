"""The right to write a run directory; an existing one is replaced only once the new one contains draws."""

from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from ergonet._errors import RunDirectoryError
from ergonet.draws.contents import foreign_to_store, read_json
from ergonet.draws.durable import temporary
from ergonet.draws.replacement import Claim, Content
from ergonet.runs.directory import ALL, DRAWS, MANIFEST, REPORT


def claim_run(out: str | None, name: str, *, overwrite: bool) -> Claim:
    """Claim the directory of a new run: as given, or else `NAME-run`, with a number if that exists or is being written.

    Args:
        out: the directory; None: derived from the name.
        name: the name of the data.
        overwrite: replace an existing run directory, once the new run has draws.

    Raises:
        RunDirectoryError: the directory exists and must not be replaced, or another fit writes it.
    """
    content = Content(_foreign_to_run, "add `--overwrite`")
    if out is not None:
        return Claim(Path(out), content, overwrite=overwrite)
    for number in range(1, 1000):
        with suppress(RunDirectoryError):
            return Claim(Path(f"{name}-run" if number == 1 else f"{name}-run-{number}"), content, overwrite=False)
    raise RunDirectoryError(f"`{name}-run` and the names with a number up to 999 are taken. Choose one with `--out`.")


def _foreign_to_run(folder: Path) -> Path | None:
    """The first file in a run directory that `ergonet fit` did not write; None if there is none."""
    if folder.is_symlink() or not folder.is_dir():
        return folder
    ours = _own_names(folder)
    for entry in sorted(folder.iterdir()):
        if entry.name == DRAWS and DRAWS in ours:
            foreign = foreign_to_store(entry)
        else:
            is_known = entry.name in ours or (ours and entry.name.startswith(f".{REPORT}."))
            foreign = None if is_known and entry.is_file() and not entry.is_symlink() else entry
        if foreign is not None:
            return foreign
    return None


def _is_report(file: Path) -> bool:
    """Whether `ergonet report` wrote the file, which it also does for an unfinished run."""
    try:
        with file.open("rb") as content:
            return b'<meta name="generator" content="ergonet">' in content.read(1000)
    except OSError:
        return False


def _own_names(folder: Path) -> set[str]:
    """Names of the files that a fit has written, complete or not.

    The manifest of a finished run lists them. An unfinished run has draws and, in the order of writing, some others.
    """
    manifest = read_json(folder / MANIFEST)
    if {"format_version", "ergonet", "files"} <= manifest.keys() and isinstance(manifest["files"], list):
        names = {MANIFEST, REPORT, *(name for name in ALL if name in manifest["files"])}
    elif (folder / DRAWS).is_dir():
        names = {*takewhile(lambda name: (folder / name).exists(), ALL)}
        names |= {REPORT} if DRAWS in names and _is_report(folder / REPORT) else set()
    else:
        names = set[str]()
    return names | {temporary(Path(name)).name for name in (*ALL, MANIFEST) if names}
