"""`python -m benchmarks.uci.candidates`: settings from which the default is chosen; writes docs/results/default.md.

A candidate is a set of tables as in a settings file, run by the command. They are compared on splits 5 to 9, so that
the standard splits 0 to 4 can check what was chosen. Results are kept in build/uci-candidates; nothing runs that is not
named by `--candidate`, `--set` and `--split`, except with `--all`.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import page as pages
from benchmarks.rounds import ROOT
from benchmarks.uci.cells import Kept, measure
from benchmarks.uci.contestants import Contestant, candidate
from benchmarks.uci.results import CALIBRATION, COVERAGE, CPU, DRAWS, ERROR, LOG_SCORE, RMSE, Results, summary
from benchmarks.uci.tables import CLASSIFICATIONS, REGRESSIONS, load
from ergonet.assembly.default import CROSS_VALIDATION, KERNEL, NORMAL, ONE_LAYER, ONE_LAYER_KERNEL, STARTED

SPLITS = tuple(range(5, 10))
SHORT = {"num_chains": 10, "num_warmup": 100, "num_draws": 100}
FROM_ADAM = {"warm_start": {"name": "adam", "most_epochs": 1000}}
FROM_MCLMC = {"warm_start": {"name": "adam+mclmc", "num_transitions": STARTED}}
SHORT_START = {"warm_start": {"name": "adam+mclmc", "num_transitions": 1000}}
CONSTANT = {"likelihood": {"name": "gaussian"}}
LONG_HMC = {"kernel": {"name": "hmc", "num_steps": 64, "metric": "identity"}}
CANDIDATES: dict[str, dict[str, Any]] = {
    "default": {},
    "constant-noise": CONSTANT,
    "normal-noise": {"likelihood": {"name": NORMAL}},
    "mams": {"kernel": {"name": "mams", "metric": "identity"}, "run": SHORT | FROM_MCLMC},
    "short-start": {"kernel": dict(KERNEL), "run": SHORT | SHORT_START},
    "from-adam": {**LONG_HMC, "run": SHORT | FROM_ADAM},
    "wide": {"network": {"hidden": [32, 32], "activation": "silu"}},
    "before": {"network": {"hidden": [50]}, **CONSTANT, "kernel": {"name": "nuts"}},
}
"""Of regressions. `default` is the command without settings, `before` was its default until 2026-11-23."""
TEMPERED = {"likelihood": {"temperature": CROSS_VALIDATION}}
CLASS_CANDIDATES: dict[str, dict[str, Any]] = {
    "classes-default": {},
    "classes-no-temperature": {"likelihood": {"temperature": 1.0}},
    "classes-no-logarithm": {"data": {"log_beyond": 0.0}},
    "classes-learned-length": {**TEMPERED, "kernel": dict(ONE_LAYER_KERNEL), "run": dict(ONE_LAYER)},
    "classes-64-steps": {**TEMPERED, "kernel": {**ONE_LAYER_KERNEL, "num_steps": 64}, "run": dict(ONE_LAYER)},
    "classes-nuts": {**TEMPERED, "kernel": {"name": "nuts"}, "run": dict(ONE_LAYER)},
    "classes-narrow-prior": {"prior": {"scale": 4.0}},
}
"""Of classifications. `classes-default` is the command without settings."""
for _tables in (*CANDIDATES.values(), *CLASS_CANDIDATES.values()):
    _tables["run"] = {**_tables.get("run", {}), "baselines": False}  # only the network is timed
KINDS = (
    ("Regressions", CANDIDATES, REGRESSIONS, (LOG_SCORE, RMSE, COVERAGE, CPU)),
    ("Classifications", CLASS_CANDIDATES, tuple(CLASSIFICATIONS), (LOG_SCORE, ERROR, CALIBRATION, *DRAWS, CPU)),
)
"""Titles, candidates, tables and figures."""
PREFACE = """Splits {first} to {last}; the standard splits 0 to 4 are kept back to check the choice. What is empty was
not measured; there the default rests on the figures in the [decisions](../decisions.md).

"""


def contestants() -> list[Contestant]:
    """The candidates."""
    return [candidate(name, tables) for _, chosen, _, _ in KINDS for name, tables in chosen.items()]


def main(arguments: list[str] | None = None) -> int:
    """Measure what is named, and write the page."""
    parser = argparse.ArgumentParser(description="Candidates for the default settings, on UCI tables.")
    parser.add_argument(
        "--candidate", action="append", help="measure it; repeat", choices=[*CANDIDATES, *CLASS_CANDIDATES]
    )
    parser.add_argument(
        "--set", action="append", choices=(*REGRESSIONS, *CLASSIFICATIONS), help="on this table; repeat"
    )
    parser.add_argument("--split", action="append", type=int, help="on this split; repeat")
    parser.add_argument("--all", action="store_true", help="measure every candidate: many hours")
    parser.add_argument("--data", type=Path, help="folder that contains uci/; else ERGONET_DATA")
    options = parser.parse_args(arguments)
    out = ROOT / "docs" / "results"
    kept = Kept(ROOT / "build" / "uci-candidates", out / "default.json")
    for one in contestants():
        if not options.all and one.name not in (options.candidate or ()):
            continue
        own = REGRESSIONS if one.name in CANDIDATES else tuple(CLASSIFICATIONS)
        for name in (name for name in own if name in (options.set or own)):
            for split in options.split or SPLITS:
                if not kept.has(one, name, split):
                    cell = measure(one, name, split, load(name, split, data=options.data))
                    kept.add(cell)
                    print(f"{one.name} {name} {split}: {cell.failed or cell.scores}; {cell.seconds:.0f} s", flush=True)
    write(out, kept)
    return 0


def write(folder: Path, kept: Kept) -> None:
    """Write default.md and default.json."""
    about = pages.describe(
        "python -m benchmarks.uci.candidates", quick=False, settings={**CANDIDATES, **CLASS_CANDIDATES}
    )
    cells = kept.newest(contestants())
    results, parts = Results(cells), [PREFACE.format(first=SPLITS[0], last=SPLITS[-1])]
    for title, chosen, tables, figures in KINDS:
        parts.append(f"### {title}\n")
        for figure in figures:
            rows = [
                [one, *(summary([*results.values(figure, one, name).values()], figure.pattern) for name in tables)]
                for one in chosen
            ]
            parts.append(f"**{figure.title}**\n\n{pages.table(('', *tables), rows)}\n")
    failed = [
        f"- {cell.contestant}, {cell.table}, split {cell.split} failed: {cell.failed}\n"
        for cell in cells
        if cell.failed
    ]
    parts += [*failed, "\n## Candidates\n"]
    settings = [(name, f"`{json.dumps(tables)}`") for _, chosen, _, _ in KINDS for name, tables in chosen.items()]
    parts.append(pages.table(("name", "settings"), settings))
    record = {"about": about, "cells": [asdict(cell) for cell in cells]}
    pages.write_measured(folder / "default", "Candidates for the default", record, "".join(parts))


if __name__ == "__main__":
    sys.exit(main())
