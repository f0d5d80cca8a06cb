"""`ergonet resume` and `ergonet extend`: go on with a run directory."""

import dataclasses
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from ergonet.cli import fitting
from ergonet.runs.claiming import claim_to_continue
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.assembly.settings import Settings


def run(path: str, *, draws: int = 0, time_limit: float | None, strict: bool, quiet: bool, began: float) -> int:
    """Finish a fit that was killed or stopped, or add draws to one, then evaluate and report as the fit does.

    Args:
        path: the run directory.
        draws: how many draws of each chain to add to those that the fit was to make.
        time_limit: seconds after which sampling stops again; None: no limit.
        strict: whether the command fails if the diagnostics fail.
        quiet: print only problems.
        began: `time.perf_counter()` at the start of the command.

    Returns:
        The exit code.

    Raises:
        ErgonetError: there is no such run, it is damaged, or its data or software have changed.
    """
    with closing(claim_to_continue(Path(path))) as claim:
        directory = RunDirectory(claim.folder)
        settings, preprocessing = directory.read_settings()
        if not draws and _is_complete(directory, settings):
            sys.stdout.write(
                f"{path} is complete: {settings.run.num_draws} draws of each of {settings.run.num_chains} chains. "
                f"There is nothing to do; `ergonet extend {path} --draws COUNT` adds draws.\n"
            )
            return fitting.FINE
        settings = _settings_of(settings, draws=draws, time_limit=time_limit)
        fitting.watch(settings, claim, began=began)
        dataset = fitting.reload_data(settings, preprocessing, lacking=f"{path!r} is continued with its data")
        directory, metrics = fitting.fit(settings, dataset, claim, resume=True, quiet=quiet, began=began)
    return fitting.conclude(directory, metrics, strict=strict, quiet=quiet)


def _settings_of(settings: "Settings", *, draws: int, time_limit: float | None) -> "Settings":
    changed = dataclasses.replace(settings.run, num_draws=settings.run.num_draws + draws, time_limit=time_limit)
    return dataclasses.replace(settings, run=changed)


def _is_complete(directory: RunDirectory, settings: "Settings") -> bool:
    """Whether the directory has everything that its fit was to make."""
    from ergonet.draws.manifest import read_manifest

    if not directory.check_version() or directory.missing_results():
        return False
    return min(read_manifest(directory.draws)["draws_by_chain"]) >= settings.run.num_draws
