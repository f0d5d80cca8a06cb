"""Run directories with similar names, for the error about one that is missing."""

import difflib
import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

_SETTINGS, _DRAWS = "settings.toml", "draws.zarr"
_MOST_ENTRIES = 2000  # of a folder, so that a large one costs no time
_MOST_SHOWN = 3


def near_runs(path: Path) -> str:
    """A sentence that suggests run directories with similar names, with their folders; empty if there are none.

    Looks where the path leads, in the current folder, and in the folders of both.
    """
    found: dict[str, str] = {}
    for folder in dict.fromkeys((path.parent, Path())):
        for run in _runs_in(folder):
            found.setdefault(os.path.normpath(run), run.name)
    near = difflib.get_close_matches(path.name, sorted(set(found.values())), n=_MOST_SHOWN)
    shown = [run for name in near for run, own in sorted(found.items()) if own == name][:_MOST_SHOWN]
    return f" Did you mean {' or '.join(repr(run) for run in shown)}?" if shown else ""


def _runs_in(folder: Path) -> Iterator[Path]:
    for inner in _folders(folder):
        if _is_run(inner):
            yield inner
        else:
            yield from filter(_is_run, _folders(inner))


def _folders(folder: Path) -> list[Path]:
    with suppress(OSError):  # no such folder, or one that may not be read
        entries = islice(folder.iterdir(), _MOST_ENTRIES)
        return [one for one in entries if one.is_dir() and not one.is_symlink() and not one.name.startswith(".")]
    return []


def _is_run(folder: Path) -> bool:
    return (folder / _SETTINGS).is_file() and (folder / _DRAWS).is_dir()
