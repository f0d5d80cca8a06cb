"""`ergonet resume` and `ergonet extend`: go on with a run directory."""

import dataclasses
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet.cli import fitting, loading, viewing
from ergonet.diagnostics.finding import UNTIL
from ergonet.runs.claiming import claim_to_continue
from ergonet.runs.directory import RunDirectory

if TYPE_CHECKING:
    from ergonet.assembly.settings import RunSettings, Settings


def run(
    path: str,
    *,
    draws: int = 0,
    until: Mapping[str, Any] | None = None,
    time_limit: float | None,
    strict: bool,
    quiet: bool,
    began: float,
    live: bool = False,
) -> int:
    """Finish a fit that was killed or stopped, or add draws to one, then evaluate and report as the fit does.

    Args:
        path: the run directory.
        draws: how many draws of each chain to add to those that the fit was to make, or has made if its stop rule is
            met.
        until: settings of the stop rule that change; None: none.
        time_limit: seconds after which sampling stops again; None: no limit.
        strict: whether the command fails if the diagnostics fail.
        quiet: print only problems.
        began: `time.perf_counter()` at the start of the command.
        live: whether to write a page that shows the run while it goes on.

    Returns:
        The exit code.

    Raises:
        ErgonetError: there is no such run, it is damaged, or its data or software have changed.
    """
    with closing(claim_to_continue(Path(path))) as claim:
        directory = RunDirectory(claim.folder)
        directory.require_own_draws()
        settings, preprocessing = directory.read_settings()
        drawn = _drawn(directory, settings)
        if drawn and not draws and not until:
            sys.stdout.write(
                f"{path} is complete: {drawn} draws of each of {settings.run.num_chains} chains. "
                f"There is nothing to do; `ergonet extend {path} --draws COUNT` adds draws.\n"
            )
            return fitting.FINE
        is_met = bool(drawn) and _is_met(directory)
        changed = _changed(settings.run, drawn=drawn, draws=draws, until=until or {}, is_met=is_met)
        settings = dataclasses.replace(settings, run=dataclasses.replace(changed, time_limit=time_limit))
        fitting.watch(settings, claim, began=began)
        dataset = loading.reload_data(settings, preprocessing, lacking=f"{path!r} is continued with its data")
        with viewing.page(claim, wanted=live, quiet=quiet) as page:
            directory, metrics = fitting.fit(settings, dataset, claim, resume=True, quiet=quiet, began=began, page=page)
    return fitting.conclude(directory, metrics, strict=strict, quiet=quiet)


def _changed(run: "RunSettings", *, drawn: int, draws: int, until: Mapping[str, Any], is_met: bool) -> "RunSettings":
    """The settings of a run that goes on; draws are added to a run whose stop rule is met without that rule."""
    if until or not is_met:
        return dataclasses.replace(run, num_draws=run.num_draws + draws, **until)
    rule = [one.name for one in dataclasses.fields(run) if one.name.startswith("until_")]
    return dataclasses.replace(run, num_draws=drawn + draws, **dict.fromkeys(rule))


def _drawn(directory: RunDirectory, settings: "Settings") -> int:
    """Draws of each chain if the directory has everything that its fit was to make; else 0."""
    from ergonet.draws.manifest import read_manifest

    if not directory.check_version() or directory.missing_results():
        return 0
    drawn = min(read_manifest(directory.draws)["draws_by_chain"])
    return drawn if _is_met(directory) or drawn >= settings.run.num_draws else 0


def _is_met(directory: RunDirectory) -> bool:
    return bool((directory.read_metrics().get(UNTIL) or {}).get("met"))
