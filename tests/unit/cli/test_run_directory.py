"""A run directory is made whole or not at all, and replaces only what it should."""

import json

import numpy as np
import pytest

from ergonet._errors import RunDirectoryError
from ergonet.cli.run_directory import RunDirectory, check_free, choose_path, new_run_directory
from ergonet.draws.store import ZarrStore


def give_draws(directory, count=3):
    store = ZarrStore(directory.draws)
    store.allocate(1, 5, {"positions": ((2,), np.dtype(np.float32))})
    if count:
        store.write(0, 0, {"positions": np.zeros((count, 2), np.float32)})


def test_the_default_name_is_the_first_free_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(choose_path(None, "digits")) == "digits-run"
    (tmp_path / "digits-run").mkdir()
    assert str(choose_path(None, "digits")) == "digits-run-2"
    assert str(choose_path("here", "digits")) == "here"


def test_what_exists_is_refused_without_overwrite(tmp_path):
    check_free(tmp_path / "new" / "deep", overwrite=False)
    for overwrite in (False, True):
        (tmp_path / "notes").mkdir(exist_ok=True)
        (tmp_path / "notes" / "mine.txt").write_text("hours of work")
        with pytest.raises(RunDirectoryError):
            check_free(tmp_path / "notes", overwrite=overwrite)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.toml").write_text("")
    check_free(tmp_path / "run", overwrite=True)
    with pytest.raises(RunDirectoryError, match="--overwrite"):
        check_free(tmp_path / "run", overwrite=False)


def test_a_folder_that_one_stands_in_is_never_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunDirectoryError, match="does not replace it"):
        check_free(tmp_path, overwrite=True)


def test_a_file_cannot_hold_a_run(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(RunDirectoryError, match="is a file"):
        check_free(tmp_path / "table.csv" / "run", overwrite=False)


def test_without_draws_nothing_is_left_behind(tmp_path):
    def fail():
        with new_run_directory(tmp_path / "run") as directory:
            give_draws(directory, count=0)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_old_run_returns_where_the_new_one_has_no_draws(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "settings.toml").write_text("old")

    def fail():
        with new_run_directory(tmp_path / "run") as directory:
            (directory.path / "settings.toml").write_text("new")
            raise ValueError("no start")

    with pytest.raises(ValueError, match="no start"):
        fail()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert (tmp_path / "run" / "settings.toml").read_text() == "old"


def test_draws_are_kept_whatever_comes_after(tmp_path):
    (tmp_path / "run").mkdir()

    def fail():
        with new_run_directory(tmp_path / "run") as directory:
            give_draws(directory)
            raise MemoryError

    with pytest.raises(MemoryError):
        fail()
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
    assert RunDirectory(tmp_path / "run").has_draws()


def test_a_complete_run_has_a_manifest_that_lists_its_files(tmp_path):
    with new_run_directory(tmp_path / "run") as directory:
        give_draws(directory)
        assert not directory.check_version()
        directory.write_manifest()
    assert directory.check_version()
    content = json.loads((directory.path / "manifest.json").read_text())
    assert (content["format_version"], content["files"]) == (1, ["draws.zarr"])


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
