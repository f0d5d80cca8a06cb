"""One process for each contestant, table and split, and the results that are kept.

A result is kept as a JSON file, with the version and the settings of its contestant in the name; those of the published
page count as kept, so that peers that have been measured need not be installed.
"""

import csv
import datetime as dt
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.page import machine
from benchmarks.rounds import ROOT
from benchmarks.uci.contestants import COMMAND, Contestant, time_limit
from benchmarks.uci.scores import score
from benchmarks.uci.tables import Split
from ergonet._errors import DataError
from ergonet.runs.toml import to_toml

DIAGNOSTICS = ("max_rhat_function", "min_ess_bulk_function", "divergences")  # of our draws
GRACE = 120  # seconds after the time limit of the command
LONGEST = 3600  # seconds of a peer


@dataclass(frozen=True)
class Cell:
    """What a contestant did on a split of a table.

    Attributes:
        contestant: its name.
        table: name of the table.
        split: number of the split.
        key: changes with the version and the settings of the contestant.
        versions: the version of the contestant.
        date: day of the measurement.
        rows: number of training rows.
        seconds: wall time of the process.
        cpu_seconds: processor time of the process and its children.
        scores: by name, as in `metrics.json`; empty if it failed.
        failed: why there are no scores; empty if there are.
        notes: what else is known about the fit.
        machine: where it was measured.
    """

    contestant: str
    table: str
    split: int
    key: str
    versions: Mapping[str, str]
    date: str
    rows: int
    seconds: float
    cpu_seconds: float
    scores: Mapping[str, float]
    failed: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)
    machine: str = ""

    @property
    def place(self) -> tuple[str, str, int]:
        """Contestant, table and split."""
        return (self.contestant, self.table, self.split)


class Kept:
    """Kept cells: those of a page, and a folder of files.

    Args:
        folder: where new cells are written.
        page: JSON file of a published page; it need not exist.
    """

    def __init__(self, folder: Path, page: Path | None = None):
        self.folder = folder
        found = json.loads(page.read_text(encoding="utf-8"))["cells"] if page and page.exists() else []
        files = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime)  # dates are days
        found += [json.loads(path.read_text(encoding="utf-8")) for path in files]
        self.cells = [Cell(**one) for one in found]

    def has(self, contestant: Contestant, table: str, split: int) -> bool:
        """Whether this version with these settings has been measured."""
        key = contestant.key()
        return any(cell.place == (contestant.name, table, split) and cell.key == key for cell in self.cells)

    def add(self, cell: Cell) -> None:
        """Keep a cell."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{cell.contestant}-{cell.table}-{cell.split}-{cell.key}.json"
        unfinished = file.with_suffix(".tmp")
        unfinished.write_text(json.dumps(asdict(cell), indent=1), encoding="utf-8")
        unfinished.replace(file)
        self.cells.append(cell)

    def newest(self, contestants: Iterable[Contestant]) -> list[Cell]:
        """For every place the cell of the present version, or else the last one that was measured."""
        keys = {one.name: one.key() for one in contestants}
        found: dict[tuple[str, str, int], Cell] = {}
        for cell in self.cells:
            if cell.contestant not in keys:
                continue
            other = found.get(cell.place)
            is_present = cell.key == keys[cell.contestant]
            if other is None or is_present or (other.key != keys[cell.contestant] and other.date <= cell.date):
                found[cell.place] = cell
        return list(found.values())


def measure(contestant: Contestant, table: str, number: int, split: Split) -> Cell:
    """Run a contestant in a process of its own, and score its predictions."""
    folder = Path(tempfile.mkdtemp(prefix="uci-"))
    try:
        run = _run_ours if contestant.is_ours else _run_peer
        seconds, cpu_seconds, scores, failed, notes = run(contestant, split, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Cell(
        *(contestant.name, table, number, contestant.key(), contestant.version()),
        date=dt.datetime.now(dt.UTC).strftime("%Y-%m-%d"),
        rows=len(split.x_train),
        seconds=round(seconds, 2),
        cpu_seconds=round(cpu_seconds, 2),
        scores={name: float(value) for name, value in scores.items() if value is not None},
        failed=failed,
        notes=notes,
        machine=machine(),
    )


Outcome = tuple[float, float, Mapping[str, Any], str, Mapping[str, Any]]


def _run_peer(contestant: Contestant, split: Split, folder: Path) -> Outcome:
    split.save(folder / "split.npz")
    out = folder / "out.npz"
    seconds, cpu_seconds, failed = _timed(
        contestant.command(folder / "split.npz", out), contestant.environment, limit=LONGEST
    )
    if failed or not out.exists():
        return seconds, cpu_seconds, {}, failed or "it wrote no predictions", {}
    with np.load(out) as content:
        predictions = {name: content[name] for name in content.files}
    notes = {"chosen": json.loads(str(predictions.pop("chosen")))} if "chosen" in predictions else {}
    try:
        return seconds, cpu_seconds, score(predictions, split.y_test), "", notes
    except DataError as error:
        return seconds, cpu_seconds, {}, f"its predictions cannot be scored: {error}"[:300], notes


def _run_ours(contestant: Contestant, split: Split, folder: Path) -> Outcome:
    """The public way in: two CSV files, the command, and the scores in its `metrics.json`."""
    _write_csv(folder / "train.csv", split.x_train, split.y_train)
    _write_csv(folder / "test.csv", split.x_test, split.y_test)
    (folder / "settings.toml").write_text(to_toml(contestant.settings["tables"]), encoding="utf-8")
    limit = None if contestant.settings.get("is_unlimited") else time_limit(split)
    task = "classification" if split.is_classification else "regression"
    arguments = ["fit", "train.csv", "--test-file", "test.csv", "--target", "y", "--task", task, "--out", "run"]
    arguments += ["--settings", "settings.toml", "--quiet"]
    arguments += [] if limit is None else ["--time-limit", str(limit)]
    longest = LONGEST if limit is None else limit + GRACE
    command = [sys.executable, "-c", COMMAND, *arguments]
    seconds, cpu_seconds, failed = _timed(command, contestant.environment, limit=longest, cwd=folder)
    file = folder / "run" / "metrics.json"
    if not file.exists():
        return seconds, cpu_seconds, {}, failed or "it left no predictions", {}
    metrics = json.loads(file.read_text(encoding="utf-8"))
    wanted = ("dim", "kernel", "num_chains", "num_draws", "stopped_by", "gradients")
    notes = {name: metrics.get(name) for name in wanted}
    diagnostics = metrics.get("diagnostics") or {}  # of draws, which a fallback has not
    notes["diagnostics"] = {name: diagnostics[name] for name in DIAGNOSTICS if name in diagnostics}
    return seconds, cpu_seconds, metrics["test"], "", notes


def _write_csv(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"x{index}" for index in range(x.shape[1])), "y"])
        writer.writerows([*row, target] for row, target in zip(x.tolist(), y.tolist(), strict=True))


def _timed(
    command: list[str], environment: Mapping[str, str], *, limit: float, cwd: Path = ROOT
) -> tuple[float, float, str]:
    """Wall time, processor time, and why the process failed; empty if it did not."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    before, began = _cpu_seconds(), time.perf_counter()
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, stderr = process.communicate(timeout=limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            _, stderr = process.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            stderr = f"ended after {limit:.0f} s"
    seconds, cpu_seconds = time.perf_counter() - began, _cpu_seconds() - before
    lines = [line for line in stderr.splitlines() if line.strip()] or [f"exit code {process.returncode}"]
    return seconds, cpu_seconds, "" if process.returncode == 0 else lines[-1].replace(str(cwd), ".")[:300]


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
