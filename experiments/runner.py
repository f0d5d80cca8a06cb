"""Runs a reproduction: every case at every seed, then `NAME.json`, `NAME.md` and pictures in a folder."""

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ergonet.execution.threads import num_cores
from experiments import page
from experiments.kept import Kept, Measured
from experiments.record import Case, Experiment, ratio_name
from experiments.registry import REPRODUCTIONS
from experiments.sizes import SIZES, Size

Values = dict[str, dict[str, list[float]]]


class ResultError(ValueError):
    """A result is missing, or must not be replaced."""


def reproduce(
    name: str,
    size: Size,
    folder: Path,
    say: Callable[[str], None],
    *,
    start: Callable[[str, int], Future[Measured]] | None = None,
    kept: Path | None = None,
) -> dict[str, Any]:
    """Measure, and write after every round of seeds, so that an interrupted run leaves what it has.

    Args:
        name: name of the reproduction.
        size: how much is run.
        folder: folder of the result; created if it does not exist.
        say: called with each line of progress.
        start: starts to measure a case with a seed elsewhere; None: they are measured here, one after the other.
        kept: folder of what was measured by the same code, which is not measured again; None: there is none.

    Returns:
        The content of `NAME.json`.

    Raises:
        ResultError: a smaller run would replace a full result.
    """
    experiment = REPRODUCTIONS.load(name)
    _check_replaced(folder / f"{name}.json", size)
    folder.mkdir(parents=True, exist_ok=True)
    cases = experiment.cases(size)
    values: Values = {case.label: {} for case in cases}
    began, started = time.perf_counter(), datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    result: dict[str, Any] = {}
    tasks = [(case.label, seed) for seed in range(size.num_seeds) for case in cases]
    store = None if kept is None else Kept(kept, name, size, _versions())
    known = {} if store is None else {task: found for task in tasks if (found := store.find(*task)) is not None}
    pending = {} if start is None else {task: start(*task) for task in tasks if task not in known}
    for seed in range(size.num_seeds):
        for case in cases:
            task = (case.label, seed)
            if task in known:
                found, seconds = known[task]
                began -= seconds  # the time of the page is that of all measurements
            else:
                found, seconds = pending[task].result() if task in pending else measured(case, size, seed)
                if store is not None:
                    store.keep(*task, (found, seconds))
            for quantity, value in found.items():
                values[case.label].setdefault(quantity, []).append(float(value))
            shown = ", ".join(f"{quantity} {value:.4g}" for quantity, value in list(found.items())[:3])
            which = ", kept" if task in known else ""
            say(f"seed {seed + 1} of {size.num_seeds}, {case.label}: {seconds:.0f} s{which}; {shown}")
        about = {
            "mode": size.mode,
            "seconds": round(time.perf_counter() - began, 1),
            "num_seeds": seed + 1,
            "started": started,
            "machine": machine(),
            "versions": _versions(),
        }
        result = write(experiment, size, values, about, folder)
    return result


def measure(name: str, size: Size, label: str, seed: int) -> Measured:
    """The figures of one case with one seed, and the seconds."""
    (case,) = (one for one in REPRODUCTIONS.load(name).cases(size) if one.label == label)
    return measured(case, size, seed)


def measured(case: Case, size: Size, seed: int) -> Measured:
    """The figures of a case with one seed, and the seconds."""
    began = time.perf_counter()
    return dict(case.measure(size, seed)), time.perf_counter() - began


def rewrite(name: str, folder: Path) -> dict[str, Any]:
    """Write the page and the verdict of a finished run again, as after a change of the remarks.

    Raises:
        ResultError: there is no result in the folder.
    """
    file = folder / f"{name}.json"
    if not file.is_file():
        raise ResultError(f"There is no {file} to write the page of. Run without `--page`.")
    record = json.loads(file.read_text(encoding="utf-8"))
    about = {key: record[key] for key in ("mode", "seconds", "num_seeds", "started", "machine", "versions")}
    size = SIZES[record["mode"]].with_seeds(record["num_seeds"])
    values = {
        label: {name: [float("nan") if one is None else one for one in found] for name, found in quantities.items()}
        for label, quantities in record["values"].items()
    }
    return write(REPRODUCTIONS.load(name), size, values, about, folder)


def write(
    experiment: Experiment, size: Size, values: Mapping[str, Any], about: Mapping[str, Any], folder: Path
) -> dict[str, Any]:
    """Judge, and write the JSON file, the pictures and the page."""
    table = experiment.table(size, values)
    claims = [str(claim) for claim in experiment.judge(table)]
    verdict = (page.SMOKE if size.mode == "smoke" else "") + " ".join(claims)
    record = {
        "name": experiment.name,
        "mode": about["mode"],
        "seconds": about["seconds"],
        "rows": [asdict(row) for row in table.rows() if _is_shown(experiment, row.quantity)],
        "verdict": verdict,
        **{key: value for key, value in about.items() if key not in ("mode", "seconds")},
        "values": values,
    }
    text = json.dumps(_finite(record), indent=1, allow_nan=False) + "\n"
    (folder / f"{experiment.name}.json").write_text(text, encoding="utf-8")
    pictures = experiment.draw(table, folder)
    shown = {**about, "claims": claims, "size": experiment.in_words(size.with_seeds(about["num_seeds"]))}
    told = page.render(experiment, table, shown, pictures, remarks_file(experiment))
    (folder / f"{experiment.name}.md").write_text(told, encoding="utf-8")
    return record


def _is_shown(experiment: Experiment, quantity: str) -> bool:
    """Whether a table of the page shows the quantity; points of curves are among the values only."""
    shown = [one.name for group in experiment.groups.values() for one in group]
    return quantity in shown or any(quantity == ratio_name(name, experiment.reference) for name in experiment.ratios)


def remarks_file(experiment: Experiment) -> Path:
    """The file of remarks written by hand; `page.REMARKS_OF` describes its first line."""
    module = importlib.import_module(REPRODUCTIONS.entry(experiment.name).module)
    return Path(str(module.__file__)).parent / "remarks" / f"{experiment.name}.md"


def show(record: Mapping[str, Any]) -> str:
    """The rows as plain text, and the verdict."""
    lines = [["row", "quantity", "ours", "error", "document"]]
    for row in record["rows"]:
        numbers = ("" if row[key] is None else f"{row[key]:.4g}" for key in ("ours", "error", "source"))
        lines.append([row["label"], row["quantity"], *numbers])
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join([*(line.rstrip() for line in table), "", record["verdict"]])


def machine() -> str:
    """The number of cores, and of usable cores if fewer, and the system."""
    cores, ours = os.cpu_count(), num_cores()
    return f"{cores if cores == ours else f'{ours} of {cores}'} cores, {platform.system()} {platform.machine()}"


def _check_replaced(file: Path, size: Size) -> None:
    if size.mode == "full" or not file.is_file():
        return
    if json.loads(file.read_text(encoding="utf-8")).get("mode") == "full":
        raise ResultError(
            f"{file} holds a full result, which a {size.mode} run must not replace. Choose another --out."
        )


def _versions() -> dict[str, str]:
    found = {"Python": platform.python_version()}
    for package in ("ergonet", "jax", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _finite(value: Any) -> Any:
    """Replace NaN, which JSON does not have, by null."""
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and value - value != 0 else value


if __name__ == "__main__":
    sys.exit("Use `ergonet reproduce`.")
