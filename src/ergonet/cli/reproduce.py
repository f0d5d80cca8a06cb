"""`ergonet reproduce`: find the experiments of a checkout and run one of them."""

import importlib
import sys
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ergonet._errors import ErgonetError, SettingError

REGISTRY = Path("experiments") / "registry.py"
KEPT = Path("build") / "reproductions"  # in the checkout: what was measured, for a run that was interrupted


class CheckoutError(ErgonetError, FileNotFoundError):
    """The reproductions are not part of the installed package."""


def names() -> dict[str, str]:
    """List the known reproductions with a line about each.

    Raises:
        CheckoutError: there is no checkout.
    """
    return _module("registry").REPRODUCTIONS.describe()


def check(name: str) -> None:
    """Reject an unknown name before anything heavy is imported.

    Raises:
        CheckoutError: there is no checkout.
        SettingError: the name is not known, or has changed.
    """
    registry = _module("registry")
    if name in registry.RENAMED:
        raise SettingError(f"The reproduction `{name}` is `{registry.RENAMED[name]}` now.")
    registry.REPRODUCTIONS.entry(name)


def run(name: str, *, mode: str, seeds: int | None, out: str, executor: Executor | None = None) -> str:
    """Run a reproduction and write its files.

    Args:
        name: name of the reproduction.
        mode: `smoke`, `quick`, `full`, or `page`, which writes the page of a finished run again.
        seeds: number of repetitions, at least 1; None: the number of the mode.
        out: folder to write to.
        executor: measures the cases, each with each seed; None: one after the other in this process.

    Returns:
        The figures next to those of the document, and the verdict, as text.

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
            start = None if executor is None else partial(executor.submit, measure, name, size)
            kept = None if mode == "smoke" else checkout() / KEPT
            record = runner.reproduce(name, size, folder, _say, start=start, kept=kept)
    except runner.ResultError as error:
        raise SettingError(str(error)) from error
    return f"{runner.show(record)}\n\nWritten: {folder / f'{name}.md'} and {name}.json"


def measure(name: str, size: Any, label: str, seed: int) -> tuple[dict[str, Any], float]:
    """The figures of one case with one seed, and the seconds; also in another process, from its own checkout."""
    from ergonet.cli.fitting import keep_compiled_programs

    keep_compiled_programs()
    return _module("runner").measure(name, size, label, seed)


def _module(name: str) -> ModuleType:
    root = str(checkout())
    if root not in sys.path:
        sys.path.insert(0, root)
    found: Any = importlib.import_module(f"experiments.{name}")
    return found


def checkout(*starts: Path) -> Path:
    """Find the checkout that contains this package, or else the one that contains the current folder.

    Args:
        starts: folders from which to search upward; these two if none are given.

    Raises:
        CheckoutError: there is no checkout.
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
