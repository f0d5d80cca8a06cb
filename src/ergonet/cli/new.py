"""`ergonet new`: a settings file with a comment for every setting."""

import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from ergonet._errors import SettingError
from ergonet.assembly.rules import Setting
from ergonet.assembly.settings import Table, every_setting
from ergonet.cli.outputs import check_file
from ergonet.runs.toml import value_text

_WIDTH = 100
_ABOUT = """\
# Settings of a fit: ergonet fit --settings FILE
# A line such as `# thin = 1` has a default: remove the # to change it. Options of the command override this file.
"""


def run(given: Table, out: str, *, overwrite: bool) -> Path:
    """Write a settings file.

    Args:
        given: tables of settings that are not commented out.
        out: the TOML file to write.
        overwrite: replace an existing file.

    Raises:
        SettingError: the file is no TOML file, or a setting is invalid.
        RunDirectoryError: the file exists, or its folder does not.
    """
    path = Path(out)
    if path.suffix != ".toml":
        raise SettingError(f"`--out`: {out!r} must end in .toml.")
    check_file(path, overwrite=overwrite)
    path.write_text(text(given), encoding="utf-8")
    return path


def text(given: Table) -> str:
    """The content of the file."""
    tables = groupby(every_setting(), key=lambda one: one[0])
    parts = ["\n".join([f"[{name}]", *_lines(list(settings), given.get(name, {}))]) for name, settings in tables]
    return "\n".join([_ABOUT, *(f"{part}\n" for part in parts)])


def _lines(settings: list[tuple[str, str, Setting, Any]], given: Table) -> Iterator[str]:
    for _, name, setting, default in settings:
        said = "; ".join(filter(None, (setting.say, setting.form)))
        yield from textwrap.wrap(f"{said}.", _WIDTH, initial_indent="# ", subsequent_indent="# ")
        if name in given:
            yield f"{name} = {value_text(given[name])}"
        else:
            has_default = default is not None and default not in ("", ())
            yield f"# {name} = {value_text(default) if has_default else ''}".rstrip()
