"""Faults that were found by attack before: what happens now, one short script for each."""

import os
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reliability.section import Bench, Goal, Section, without_paths

ABOUT = """Each row is a script that runs what once lost data, was silently wrong, hung, or ended in an exception; the
outcome is what it printed just now."""
_LONGEST = 240


@dataclass(frozen=True)
class Outcome:
    """What a script saw, in one line, and whether it is as promised."""

    seen: str
    is_kept: bool


@dataclass(frozen=True)
class Check:
    """A fault that was found before, and the script that tries it again in an empty folder."""

    fault: str
    script: Callable[[Path], Outcome]


def measure(bench: Bench) -> Section:
    """Run every script in a folder of its own."""
    from benchmarks.reliability import promised_files, promised_inputs, promised_runs

    checks = [*promised_files.CHECKS, *promised_runs.CHECKS, *promised_inputs.CHECKS]
    if bench.is_quick:
        checks = [check for check in checks if check not in promised_runs.SLOW]
    rows, kept = list[list[str]](), 0
    for number, check in enumerate(checks):
        folder = bench.folder / str(number)
        folder.mkdir()
        outcome = _run(check, folder)
        kept += outcome.is_kept
        seen = without_paths(outcome.seen, folder)
        shown = seen if len(seen) <= _LONGEST else f"{seen[: _LONGEST - 3]}..."
        rows.append([check.fault, shown, "yes" if outcome.is_kept else "**no**"])
        bench.say(f"    {'kept' if outcome.is_kept else 'NOT KEPT'}: {check.fault}: {shown}")
    goals = [Goal("faults that are gone", f"{kept} of {len(checks)}", "all", kept == len(checks))]
    return Section("Faults found before", ABOUT, goals, ("fault", "outcome now", "gone"), rows)


def _run(check: Check, folder: Path) -> Outcome:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return check.script(folder)
    except BaseException as error:  # noqa: BLE001  whatever a person would see
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome(f"uncaught {type(error).__name__}: {error} ({Path(where.filename).name})", is_kept=False)
    finally:
        os.chdir(before)


def all_of(outcomes: Sequence[tuple[str, Outcome]]) -> Outcome:
    """Several outcomes in one line, each after its name."""
    kept = [name for name, one in outcomes if one.is_kept]
    broken = [f"{name}: {one.seen}" for name, one in outcomes if not one.is_kept]
    first = f"{outcomes[0][0]}: {outcomes[0][1].seen}"
    return Outcome(f"{len(kept)} of {len(outcomes)} as promised; {'; '.join(broken) or first}", is_kept=not broken)
