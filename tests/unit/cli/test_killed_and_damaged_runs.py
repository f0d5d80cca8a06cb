"""`diagnose`, `report`, `predict` and `verify` on runs whose fit was killed, and on damaged ones."""

import shutil
from dataclasses import replace

import pandas as pd
import pytest
from typer.testing import CliRunner

import ergonet
from ergonet.cli import unfinished
from ergonet.cli.main import app
from ergonet.runs.directory import RunDirectory
from tests.runs import DRAWS, finish, write_killed


def call(*arguments, code=0):
    found = CliRunner().invoke(app, list(arguments))
    assert found.exit_code == code, found.output
    return found


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A run directory as it is while the fit samples: 8 of 20 draws of each chain are stored."""
    folder = tmp_path_factory.mktemp("killed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_killed(folder)
    return folder


@pytest.fixture
def folder(killed, tmp_path, monkeypatch):
    shutil.copytree(killed, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def finished(folder):
    """The same run, with all files that a fit writes."""
    finish(RunDirectory(folder / "run"))
    return folder


def test_weights_are_compared_on_request(finished):
    before, told = "R-hat of the weights, median (worst): ", call("diagnose", "run", "--weights").stdout
    assert before in told
    assert "without order of units and signs." in told
    assert before not in call("diagnose", "run").stdout


@pytest.mark.slow
def test_a_killed_fit_is_diagnosed_and_reported_from_its_draws(folder):
    before = sorted(folder.joinpath("run").rglob("*"))
    found = call("diagnose", "run", "--strict", code=3)
    assert "has no metrics.json and no evaluation.npz and no stats.npz: its fit did not finish" in found.stderr
    assert f"! Stopped by the end of its process: {DRAWS} draws of each chain are available." in found.stdout
    assert "Test RMSE" in found.stdout
    assert sorted(folder.joinpath("run").rglob("*")) == before
    assert "computed from 8 draws of each chain" in call("report", "run").stderr
    assert "Root mean square error" in (folder / "run" / "report.html").read_text()


def test_what_diagnostics_need_of_a_killed_fit_is_in_its_settings(folder):
    directory = RunDirectory(folder / "run")
    settings, _ = directory.read_settings()
    thinned = replace(settings, run=replace(settings.run, thin=3))
    about = unfinished._described(ergonet.load(directory.draws), thinned).about
    assert (about["thin"], about["max_doublings"]) == (3, 5)


def test_a_killed_fit_predicts_without_warnings_about_its_files(folder):
    found = call("predict", "run", "table.csv", "--out", "p.csv")
    assert found.stderr == "Warning: this run did not finish; 8 draws of each chain are used.\n"
    assert pd.read_csv("p.csv").drop(columns="outside").notna().all(axis=None)


def test_what_a_killed_fit_needs_is_said(folder):
    table = pd.read_csv("table.csv")
    table.iloc[::-1].to_csv("table.csv", index=False)
    assert "have changed since. Restore them" in call("report", "run", code=1).stderr
    (folder / "table.csv").unlink()
    assert "in the folder where the fit was started" in call("diagnose", "run", code=1).stderr
    shutil.rmtree(folder / "run" / "draws.zarr")
    assert "has no draws.zarr" in call("diagnose", "run", code=1).stderr


def test_a_missing_chunk_never_gives_predictions(folder):
    (folder / "run" / "draws.zarr" / "positions" / "c.1.0.0").unlink()
    found = call("predict", "run", "table.csv", "--out", "p.csv", code=1)
    assert "with positions of draws 0 to 4 of chain 1 (counted from 0) is missing. Restore" in found.stderr
    assert not (folder / "p.csv").exists()


def test_intact_runs_are_verified_kind_by_kind(finished):
    lines = call("verify", "run").stdout.splitlines()
    assert "draws by chain            8, 9" in lines
    kinds = {line.rpartition(" intact")[0].rstrip() for line in lines[:-1] if "intact" in line}
    files = {"manifest.json", "settings.toml", "preprocessing.json", "metrics.json", "evaluation.npz", "stats.npz"}
    assert kinds == files | {"draws.zarr/manifest.json", "draws.zarr positions", "draws.zarr statistics"}
    assert "draws.zarr positions      intact: 4 chunks" in lines
    assert lines[-1] == "run: No damage was found."


def test_a_killed_fit_is_intact_but_unfinished(folder):
    lines = call("verify", "run").stdout.splitlines()
    assert "settings.toml             intact" in lines
    assert "metrics.json              missing: the fit did not finish" in lines
    assert lines[-1].startswith("run: No damage was found, but the fit did not finish")
    assert "no run directory" in call("verify", "nowhere", code=1).stderr


def test_every_kind_of_damage_is_found_by_verify(finished):
    run = finished / "run"
    for file in [path for path in run.rglob("*") if path.is_file() and path.name != "zarr.json"]:
        whole = file.read_bytes()
        at = len(whole) // 2
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        found = call("verify", "run", code=1).stdout
        assert file.name in found
        assert found.endswith("run: Files are damaged. Restore them from a backup, or fit again.\n")
        file.write_bytes(whole)
    for name in ("settings.toml", "stats.npz", "draws.zarr/lp/zarr.json", "draws.zarr/manifest.json"):
        (run / name).rename(run / "aside")
        assert name in call("verify", "run", code=1).stdout
        (run / "aside").rename(run / name)
    call("verify", "run")


@pytest.mark.parametrize("name", ["preprocessing.json", "metrics.json", "evaluation.npz"])
def test_files_of_results_that_are_torn_in_an_unfinished_run_are_found(finished, name):
    (finished / "run" / "manifest.json").unlink()
    file = finished / "run" / name
    file.write_bytes(file.read_bytes()[:-10])
    assert f"{name}' cannot be read" in call("verify", "run", code=1).stdout
