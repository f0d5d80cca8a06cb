"""The right to write a run directory; an existing one is replaced only once the new one contains draws."""

from contextlib import suppress
from itertools import takewhile
from pathlib import Path

from ergonet._errors import RunDirectoryError
from ergonet.draws.contents import foreign_to_store, read_json
from ergonet.draws.durable import temporary
from ergonet.draws.replacement import Claim, Content, Existing, is_unfinished
from ergonet.runs.directory import ALL, BY_FIT, DRAWS, ESTIMATOR, MANIFEST, REPORT, RunDirectory


def claim_run(out: str | None, name: str, *, overwrite: bool) -> Claim:
    """Claim the directory of a new run: as given, or else `NAME-run`, with a number if that exists or is being written.

    Args:
        out: the directory; None: derived from the name.
        name: the name of the data.
        overwrite: replace an existing run directory, once the new run has draws.

    Raises:
        RunDirectoryError: the directory exists and must not be replaced, or another fit writes it.
    """
    content = run_content("add `--overwrite`")
    if out is not None:
        try:
            return Claim(Path(out), content, overwrite=overwrite)
        except RunDirectoryError as error:
            if overwrite or not _is_stopped(RunDirectory(Path(out))):
                raise
            raise RunDirectoryError(f"{error} Its fit did not finish: `ergonet resume {out}` continues it.") from error
    for number in range(1, 1000):
        path = Path(f"{name}-run" if number == 1 else f"{name}-run-{number}")
        if is_unfinished(path):
            continue
        with suppress(RunDirectoryError):
            return Claim(path, content, overwrite=False)
    raise RunDirectoryError(f"`{name}-run` and the names with a number up to 999 are taken. Choose one with `--out`.")


def _is_stopped(directory: RunDirectory) -> bool:
    """Whether it has draws of a fit that did not finish."""
    with suppress(RunDirectoryError):
        return directory.draws.is_dir() and not directory.check_version()
    return False


def claim_to_continue(path: Path) -> Claim:
    """Claim a run directory, or what an unfinished fit has left beside its place, to go on with it.

    Raises:
        RunDirectoryError: there is none, or another process writes it.
    """
    if not is_unfinished(path):
        RunDirectory(path).require(())
    return Claim(path, run_content("add `--overwrite`"), existing=Existing.CONTINUE)


def run_content(overwriting: str) -> Content:
    """The kind of folder that a run directory is.

    Args:
        overwriting: how a user allows replacing one, for errors.
    """
    return Content(_foreign_to_run, overwriting)


def _foreign_to_run(folder: Path) -> Path | None:
    """The first file in a run directory that Ergonet did not write; None if there is none."""
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


def is_page(file: Path) -> bool:
    """Whether Ergonet wrote this file as a page, such as the report of an unfinished run."""
    try:
        with file.open("rb") as content:
            return b'<meta name="generator" content="ergonet">' in content.read(1000)
    except OSError:
        return False


def _own_names(folder: Path) -> set[str]:
    """Names of the files that Ergonet has written, complete or not.

    The manifest lists them. An unfinished run has, in the order of writing, some that it does not list yet.
    """
    manifest = read_json(folder / MANIFEST)
    is_listed = {"format_version", "ergonet", "files"} <= manifest.keys() and isinstance(manifest["files"], list)
    names = set[str]()
    if is_listed:
        names |= {MANIFEST, *(name for name in ALL if name in manifest["files"])}
        names |= {REPORT} if manifest.get("finished", True) else set()
    if not is_listed or not manifest.get("finished", True):
        names |= _of_unfinished(folder)
    return names | {temporary(Path(name)).name for name in (*ALL, MANIFEST) if names}


def _of_unfinished(folder: Path) -> set[str]:
    """Names of the files of a run that did not finish, or of an estimator saved before these had a manifest."""
    if not (folder / DRAWS).is_dir():
        return set()
    if read_json(folder / ESTIMATOR).keys() >= {"format_version", "estimator", "parameters", "fitted"}:
        return {ESTIMATOR, DRAWS}
    names = {*takewhile(lambda name: (folder / name).exists(), BY_FIT)}
    return names | ({REPORT} if DRAWS in names and is_page(folder / REPORT) else set())
