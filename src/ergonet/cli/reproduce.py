"""`ergonet reproduce`: finds the experiments of a checkout and runs one of them."""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ergonet._errors import ErgonetError, SettingError, suggest

REGISTRY = Path("experiments") / "registry.py"


class CheckoutError(ErgonetError, FileNotFoundError):
    """The reproductions are not part of the installed package."""


def names() -> dict[str, str]:
    """The known reproductions with a line about each.

    Raises:
        CheckoutError: there is no checkout.
    """
    return {name: entry.about for name, entry in _module("registry").ENTRIES.items()}


def check(name: str) -> None:
    """Refuse a name that is not known, before anything heavy is imported.

    Raises:
        CheckoutError: there is no checkout.
        SettingError: the name is not known.
    """
    known = names()
    if name not in known:
        raise SettingError(f"There is no reproduction {name!r}. {suggest(name, known)}")


def run(name: str, *, mode: str, seeds: int | None, out: str) -> str:
    """Run a reproduction and write its files.

    Args:
        name: of the reproduction.
        mode: `smoke`, `quick`, `full`, or `page`: write the page of a finished run again.
        seeds: repetitions, at least 1; None: as the mode says.
        out: folder to write.

    Returns:
        The figures beside the document's, and the verdict, as text.

    Raises:
        CheckoutError: there is no checkout.
        SettingError: the name is not known, or a result is missing or must not be replaced.
    """
    check(name)
    if seeds is not None and seeds < 1:
        raise SettingError(f"`--seeds` must be at least 1, got {seeds}.")
    from ergonet.cli.fitting import keep_compiled_programs

    keep_compiled_programs()
    runner, folder = _module("runner"), Path(out)
    try:
        if mode == "page":
            record = runner.rewrite(name, folder)
        else:
            size = _module("sizes").SIZES[mode].with_seeds(seeds)
            record = runner.reproduce(name, size, folder, _say)
    except runner.ResultError as error:
        raise SettingError(str(error)) from error
    return f"{runner.show(record)}\n\nWritten: {folder / f'{name}.md'} and {name}.json"


def _module(name: str) -> ModuleType:
    root = str(checkout())
    if root not in sys.path:
        sys.path.insert(0, root)
    found: Any = importlib.import_module(f"experiments.{name}")
    return found


def checkout(*starts: Path) -> Path:
    """The checkout that this package lies in, else the one around the current folder.

    Args:
        starts: folders to look in and above; the two above unless given.

    Raises:
        CheckoutError: there is none.
    """
    for start in starts or (Path(__file__).resolve().parent, Path.cwd()):
        for folder in (start, *start.parents):
            if (folder / REGISTRY).is_file() and (folder / "src" / "ergonet").is_dir():
                return folder
    raise CheckoutError(
        "`ergonet reproduce` needs a checkout of the repository: the reproductions in experiments/ are not part of "
        "the installed package. Clone it and run the command inside."
    )


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
