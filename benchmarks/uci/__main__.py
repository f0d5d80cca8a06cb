"""`python -m benchmarks.uci`: measure what has not been measured, and write docs/results/uci.md and .json.

Results are kept in build/uci and in the published uci.json, so that an interrupted run continues where it was and
peers are measured once. `--set`, `--split` and `--contestant` name what is measured first, with `--only` nothing else;
`--page` only writes the page. To measure again, delete a file of build/uci. `--quick` takes a minute or two.
"""

import argparse
import sys
from pathlib import Path

from benchmarks import page as pages
from benchmarks.rounds import ROOT
from benchmarks.uci import results
from benchmarks.uci.cells import Kept, measure
from benchmarks.uci.contestants import CONTESTANTS, Contestant, ours
from benchmarks.uci.tables import CLASSIFICATIONS, FURTHER_SPLITS, REGRESSIONS, SMALL, STANDARD_SPLITS, TINY, load

TABLES = (*REGRESSIONS, *CLASSIFICATIONS)
QUICK_RUN = {"run": {"num_chains": 2, "num_warmup": 10, "num_draws": 10}}
Plan = list[tuple[Contestant, str, int]]


def main(arguments: list[str] | None = None) -> int:
    """Measure, write the page, and print which goals are met; 1 if one is not."""
    options = _parse(arguments)
    name = "uci-quick" if options.quick else "uci"
    folder = options.kept or ROOT / "build" / name
    out = options.out or (folder if options.quick else ROOT / "docs" / "results")
    contestants = (CONTESTANTS[0], ours(tables=QUICK_RUN)) if options.quick else CONTESTANTS
    kept = Kept(folder / "cells", out / "uci.json")
    if not options.page:
        run(plan(options, contestants), kept, data=options.data)
    command = "python -m benchmarks.uci" + (" --quick" if options.quick else "")
    goals = results.write(
        out,
        kept.newest(contestants),
        contestants,
        about=pages.describe(command, quick=options.quick, settings={}),
    )
    for goal in goals:
        print(f"{'met    ' if goal.is_met else 'NOT MET'}  {goal.what}: {goal.found} (wanted {goal.wanted})")
    print(f"Written: {out / 'uci.md'}")
    return 0 if options.quick or all(goal.is_met for goal in goals) else 1


def plan(options: argparse.Namespace, contestants: tuple[Contestant, ...]) -> Plan:
    """Everything to measure, in order: what is named first, then all tables by contestant, cheap ones first."""
    tables, splits = (tuple(TINY), (0,)) if options.quick else (TABLES, STANDARD_SPLITS)
    every = [(one, table, split) for one in contestants for split in splits for table in tables]
    if not options.quick:
        every += [
            (one, table, split) for one in results.rivals(contestants) for split in FURTHER_SPLITS for table in SMALL
        ]
    is_named = bool(options.set or options.split or options.contestant)
    named = [
        (one, table, split)
        for one, table, split in every
        if (not options.set or table in options.set)
        and (not options.split or split in options.split)
        and (not options.contestant or one.name in options.contestant)
    ]
    return named if options.only or not is_named else named + [one for one in every if one not in named]


def run(cells: Plan, kept: Kept, *, data: Path | None) -> None:
    """Measure the cells that are not kept, one process at a time."""
    for one, table, number in cells:
        if kept.has(one, table, number) or table not in one.sets:
            continue
        if not one.is_present:
            print(f"{one.name} {table} {number}: not installed here", flush=True)
            continue
        split = load(table, number, data=data)
        if not one.takes(table, len(split.x_train)):
            continue
        cell = measure(one, table, number, split)
        kept.add(cell)
        said = cell.failed or f"rmse {cell.scores.get('rmse', cell.scores.get('error', 0)):.4g}"
        said += "" if cell.failed else f", log score {-cell.scores['nll']:.4g}"
        print(f"{one.name} {table} {number}: {said}; {cell.seconds:.0f} s, {cell.cpu_seconds:.0f} CPU s", flush=True)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="The library as it is shipped against other predictors, on tables.")
    parser.add_argument("--set", action="append", choices=(*TABLES, *TINY), help="measure this table first; repeat")
    parser.add_argument(
        "--split",
        action="append",
        type=int,
        choices=(*STANDARD_SPLITS, *FURTHER_SPLITS),
        help="measure this split first; repeat",
    )
    names = [one.name for one in CONTESTANTS]
    parser.add_argument("--contestant", action="append", choices=names, help="measure this one first; repeat")
    parser.add_argument("--only", action="store_true", help="measure nothing but what is named")
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page of kept results")
    parser.add_argument("--quick", action="store_true", help="two tiny tables: shows that the command works")
    parser.add_argument("--data", type=Path, help="folder that contains uci/; else ERGONET_DATA")
    parser.add_argument("--out", type=Path, help="folder of uci.md and uci.json; docs/results unless quick")
    parser.add_argument("--kept", type=Path, help="folder of kept results; build/uci unless given")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
