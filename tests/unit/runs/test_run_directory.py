"""A run directory is made whole or not at all, and replaces only what it should."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import ergonet.report
from ergonet._errors import RunDirectoryError
from ergonet.draws.store import ZarrStore
from ergonet.runs import directory as runs
from ergonet.runs.claiming import claim_run
from ergonet.runs.directory import DRAWS, RunDirectory

UNFINISHED = ("settings.toml", "preprocessing.json")
FINISHED = (*UNFINISHED, "stats.npz", "evaluation.npz", "metrics.json", "report.html")


def claim(path, *, overwrite=False):
    return closing(claim_run(str(path), "data", overwrite=overwrite))


def write_run(claimed, *, names=UNFINISHED, count=3, finished=False):
    """Write a run as a fit does, up to some point."""
    directory = RunDirectory(claimed.folder)
    directory.path.mkdir()
    for name in names[:2]:
        (directory.path / name).write_text(f"{count}")
    store = ZarrStore(DRAWS, within=claimed)
    store.allocate(1, 5, {"positions": ((2,), np.dtype(np.float32))})
    if count:
        store.write(0, 0, {"positions": np.zeros((count, 2), np.float32)})
    directory = RunDirectory(claimed.folder)
    for name in names[2:]:
        (directory.path / name).write_text(f"{count}")
    if finished:
        directory.write_manifest()
    return directory


@pytest.fixture(params=[False, True])
def run(tmp_path, request):
    """A run directory, of a fit that was killed or of one that finished."""
    with claim(tmp_path / "run") as claimed:
        write_run(claimed, names=FINISHED if request.param else UNFINISHED, finished=request.param)
    return tmp_path / "run"


def test_the_default_name_is_the_first_that_is_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits-run-2").mkdir()
    claims = [claim_run(None, "digits", overwrite=False) for _ in range(3)]  # three fits at once
    assert [str(one.path) for one in claims] == ["digits-run", "digits-run-3", "digits-run-4"]
    for one in claims:
        one.close()
    assert [one.name for one in tmp_path.iterdir()] == ["digits-run-2"]


def test_a_run_directory_has_one_writer(tmp_path):
    with claim(tmp_path / "run"):
        for overwrite in (False, True):
            with pytest.raises(RunDirectoryError, match=f"run` is being written by this process {os.getpid()}"):
                claim_run(str(tmp_path / "run"), "data", overwrite=overwrite)


def test_what_exists_is_refused_without_overwrite(run):
    with pytest.raises(RunDirectoryError, match=r"exists already.*--overwrite"):
        claim_run(str(run), "data", overwrite=False)
    claim_run(str(run), "data", overwrite=True).close()


def write(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("hours of work")


@pytest.mark.parametrize("foreign", ["thesis.txt", "photos/cat.jpg", "draws.zarr/photos/cat.jpg", "draws.zarr/a.jpg"])
def test_a_foreign_file_in_a_run_is_named_and_kept(run, foreign):
    write(run / foreign)
    with pytest.raises(RunDirectoryError, match=rf"run/{foreign.replace('/cat.jpg', '(/cat.jpg)?')}` was not written"):
        claim_run(str(run), "data", overwrite=True)
    assert (run / foreign).read_text() == "hours of work"


@pytest.mark.parametrize("name", ["settings.toml", "report.html", "manifest.json", "draws.zarr/settings.toml"])
def test_names_alone_do_not_make_a_run(tmp_path, name):
    write(tmp_path / "mine" / name)
    with pytest.raises(RunDirectoryError, match=r"mine/[\w./]+` was not written by Ergonet"):
        claim_run(str(tmp_path / "mine"), "data", overwrite=True)
    assert (tmp_path / "mine" / name).read_text() == "hours of work"


def test_an_unfinished_run_has_what_is_written_in_order(tmp_path):
    with claim(tmp_path / "run") as claimed:
        write_run(claimed, names=FINISHED[:4])
    (tmp_path / "run" / "metrics.tmp").write_text("{")
    (tmp_path / "run" / ".report.html.abc").write_text("<html>")
    claim_run(str(tmp_path / "run"), "data", overwrite=True).close()
    write(tmp_path / "run" / "report.html")  # there is no metrics.json, so this is a report on something else
    with pytest.raises(RunDirectoryError, match=r"report\.html` was not written by Ergonet"):
        claim_run(str(tmp_path / "run"), "data", overwrite=True)


def test_a_report_on_an_unfinished_run_is_part_of_it(tmp_path):
    with claim(tmp_path / "run") as claimed:
        write_run(claimed, names=FINISHED[:4])
    head = (Path(ergonet.report.__file__).parent / "templates" / "head.html").read_text().partition("{%")[0]
    (tmp_path / "run" / "report.html").write_text(head)
    claim_run(str(tmp_path / "run"), "data", overwrite=True).close()


def test_a_folder_that_one_stands_in_is_never_replaced(run, monkeypatch):
    monkeypatch.chdir(run)
    for path in (".", "..", str(run)):
        with pytest.raises(RunDirectoryError, match="you are in it"):
            claim_run(path, "data", overwrite=True)


def test_a_file_cannot_hold_a_run(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(RunDirectoryError, match="is a file"):
        claim_run(str(tmp_path / "table.csv" / "run"), "data", overwrite=False)


def test_without_draws_nothing_is_left_behind(tmp_path):
    with claim(tmp_path / "deep" / "run") as claimed:
        write_run(claimed, count=0)
    assert list(tmp_path.iterdir()) == []


def test_an_old_run_stays_until_the_new_one_has_draws(run):
    shutil.copytree(run, run.parent / ".run.previous")  # a person's own copy
    with claim(run, overwrite=True) as claimed:
        write_run(claimed, count=0)
    assert (run / "settings.toml").read_text() == "3"
    with claim(run, overwrite=True) as claimed:
        assert write_run(claimed, count=5).path == run
        assert (run / "settings.toml").read_text() == "5"
    assert sorted(entry.name for entry in run.parent.iterdir()) == [".run.previous", "run"]


def test_a_run_that_was_being_replaced_is_named_and_restored(run):
    aside = run.parent / ".run.ergonet" / "previous"
    aside.parent.mkdir()
    run.rename(aside)  # where a kill between two renamings leaves it
    with pytest.raises(RunDirectoryError, match=r"previous content is in `.*\.run\.ergonet/previous`"):
        RunDirectory(run).read_settings()
    with pytest.raises(RunDirectoryError, match="exists already"):
        claim_run(str(run), "data", overwrite=False)
    assert RunDirectory(run).has_draws()
    assert [entry.name for entry in run.parent.iterdir()] == ["run"]


def test_a_complete_run_has_a_manifest_that_lists_its_files(tmp_path):
    with claim(tmp_path / "run") as claimed:
        directory = write_run(claimed)
        assert not directory.check_version()
        directory.write_manifest()
    assert directory.check_version()
    content = json.loads((directory.path / "manifest.json").read_text())
    assert (content["format_version"], content["files"]) == (2, ["settings.toml", "preprocessing.json", "draws.zarr"])


def test_a_kill_while_figures_are_replaced_leaves_a_run_that_did_not_finish(tmp_path, monkeypatch):
    with claim(tmp_path / "run") as claimed:
        directory = write_run(claimed, names=FINISHED, finished=True)
    write_json = runs.write_json

    def killed(path, content):
        write_json(path, content)
        if path.name == "metrics.json":
            raise KeyboardInterrupt

    monkeypatch.setattr(runs, "write_json", killed)
    with pytest.raises(KeyboardInterrupt):
        directory.write_metrics({"dim": 2})
    assert not directory.check_version()
    assert directory.missing_results() == ["metrics.json"]
    assert directory.read_metrics() == {"dim": 2}


@pytest.mark.parametrize("content", ['{"format_version": 99}', "[]", "{", '{"format_version": 1, "checksum": 7}'])
def test_another_version_is_refused(tmp_path, content):
    (tmp_path / "manifest.json").write_text(content)
    with pytest.raises(RunDirectoryError):
        RunDirectory(tmp_path).check_version()


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(RunDirectoryError, match="no run directory"):
        RunDirectory(tmp_path / "none").read_metrics()
    with pytest.raises(RunDirectoryError, match=r"has no metrics\.json"):
        RunDirectory(tmp_path).read_metrics()
    with pytest.raises(RunDirectoryError, match=r"settings\.toml and no preprocessing\.json and no draws\.zarr"):
        RunDirectory(tmp_path).read_settings()
    (tmp_path / "metrics.json").write_text("{")
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        RunDirectory(tmp_path).read_metrics()
