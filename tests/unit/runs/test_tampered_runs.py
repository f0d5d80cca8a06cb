"""Whatever is done to a file of a run directory: an error that names what to do, or the same result as before."""

import copy
import json
import os
import shutil
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ergonet._errors import RunDirectoryError, SamplingWarning
from ergonet.cli import unfinished, verifying
from ergonet.cli.summary import rows, sentences
from ergonet.draws.samples import load
from ergonet.prediction.predictive import predict
from ergonet.runs.directory import RunDirectory
from ergonet.runs.toml import to_toml
from tests.runs import finish, write_killed

NEW = np.asarray([[0.0, 1.0], [1.0, 0.0], [30.0, -2.0]])
VALUES = (None, "x", "../../..", "", -1, 0, 10**30, 2**62, 1e308, float("nan"), True, [], [-1], {}, {"name": 3})
WAYS = ("flip first", "flip middle", "flip last", "half", "empty", "longer", "delete", "folder", "dangling", "pipe")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tampered")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        finish(write_killed(folder))
    (folder / "table.csv").unlink()  # so that nothing is computed anew
    return folder / "run"


def values_of(table, path=()) -> Iterator[tuple]:
    """The paths to all values of nested tables and lists, with those to the tables and lists."""
    items = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from values_of(value, (*path, key))


def parsed(file: Path):
    return tomllib.loads(file.read_text()) if file.suffix == ".toml" else json.loads(file.read_text())


def mutations(run: Path) -> Iterator[tuple[Path, str, bytes | str]]:
    """All mutations: a file, their name, and the new content, or else what to do to the file."""
    for file in sorted(path for path in run.rglob("*") if path.is_file()):
        yield from ((file, way, way) for way in WAYS)
        if file.suffix not in (".json", ".toml"):
            continue
        yield file, "deep", (b"a = " if file.suffix == ".toml" else b"") + b"[" * 100_000
        table = parsed(file)
        for *path, last in values_of(table):
            for value in (*VALUES, "delete"):
                changed = copy.deepcopy(table)
                inside = changed
                for key in path:
                    inside = inside[key]
                if value == "delete":
                    del inside[last]
                elif inside[last] == value and type(inside[last]) is type(value):
                    continue
                else:
                    inside[last] = value
                try:
                    text = to_toml(changed) if file.suffix == ".toml" else json.dumps(changed)
                except TypeError:  # TOML has no None in a list
                    continue
                yield file, f"{[*path, last]} = {str(value)[:20]}", text.encode()


def apply(file: Path, change: bytes | str) -> None:
    data = file.read_bytes()
    if isinstance(change, bytes):
        file.write_bytes(change)
    elif change.startswith("flip"):
        at = {"first": 0, "middle": len(data) // 2, "last": len(data) - 1}[change.split()[1]]
        file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    elif change in ("half", "empty", "longer"):
        file.write_bytes({"half": data[: len(data) // 2], "empty": b"", "longer": data + b"\0"}[change])
    else:
        file.unlink()
        {"folder": file.mkdir, "dangling": lambda: file.symlink_to("nowhere"), "pipe": lambda: os.mkfifo(file)}.get(
            change, lambda: None
        )()


def restore(file: Path, data: bytes) -> None:
    if file.is_dir():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)
    file.write_bytes(data)


def predictions(run):
    fitted = RunDirectory(run).read_fitted()
    return predict(fitted.samples, fitted.preprocessing.transform(NEW), model=fitted.model).mean


def figures(run):
    metrics = unfinished.metrics_of(RunDirectory(run))
    return rows(metrics), sentences(metrics)


def record(run):
    found = unfinished.record_of(RunDirectory(run))
    arrays = {**found.evaluation, **found.stats, **found.warmup_stats}
    return found.metrics, found.settings, {name: values.tobytes() for name, values in arrays.items()}


def draws(run):
    found = load(run / "draws.zarr")
    arrays = {"positions": found.positions[...], **found.stats, **found.warmup_stats, **found.tuning}
    return {name: values.tobytes() for name, values in arrays.items()}, found.about


USES = {"predict": predictions, "diagnose": figures, "report": record, "load": draws}


def outcomes(run):
    """What each use gives: a result, or an error with a sentence."""
    found = {}
    for name, use in USES.items():
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            try:
                result = repr(use(run))
            except RunDirectoryError as error:
                result = f"refused: {error}"
        if result.startswith("refused"):
            assert str(run) in result, (name, result)
            assert any(
                word in result for word in ("estore", "again", "delete", "version that wrote", "run the command")
            ), (name, result)
            result = "refused"
        found[name] = "warned" if any(one.category is SamplingWarning for one in issued) else result
    return found


def check(run: Path, chosen, *, allow_changes: bool = False) -> dict[str, int]:
    """Apply each mutation by itself; counts of what was refused and what made no difference."""
    before, counts = outcomes(run), {"refused": 0, "same": 0, "unseen by verify": 0}
    if not allow_changes:
        assert "refused" not in before.values()
    for file, label, change in chosen:
        data, what = file.read_bytes(), f"{file.relative_to(run)}: {label}"
        apply(file, change)
        try:
            found = outcomes(run)
            is_intact = verifying.verify(RunDirectory(run))[1]
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        finally:
            restore(file, data)
        for use, result in found.items():
            assert allow_changes or result in ("refused", "warned", before[use]), f"{what}: {use} gives another result"
            counts["refused" if result in ("refused", "warned") else "same"] += 1
        counts["unseen by verify"] += is_intact and "refused" in found.values()
    return counts


def test_a_tampered_run_is_refused_or_gives_the_same(run):
    counts = check(run, list(mutations(run))[::397])
    assert counts["unseen by verify"] == 0, counts
    assert counts["refused"] > counts["same"] / 5, counts


@pytest.mark.statistical
def test_every_mutation_of_a_run_is_refused_or_gives_the_same(run):
    chosen = list(mutations(run))[::31]
    assert len(chosen) > 200
    check(run, chosen)


@pytest.mark.statistical
def test_without_a_manifest_nothing_but_one_error_is_raised(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    chosen = [one for one in mutations(tmp_path / "run") if one[0].parent.name == "run"][::29]
    check(tmp_path / "run", chosen, allow_changes=True)
