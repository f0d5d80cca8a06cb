"""`ergonet resume`, `ergonet extend` and `ergonet verify --replay`."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import ergonet
from ergonet.assembly.settings import RunSettings
from ergonet.cli import resuming, signals
from ergonet.cli.main import app
from ergonet.draws import checkpoint
from ergonet.inference.trajectory_jobs import TrajectoryJob

pytestmark = pytest.mark.usefixtures("optimized")  # a killed fit is a long one

FIT = [
    "fit",
    "two-moons",
    "--hidden",
    "3",
    "--kernel",
    "nuts",
    "--chains",
    "2",
    "--warmup",
    "60",
    "--draws",
    "20",
    "--seed",
    "3",
    "--no-baselines",
]

COMMAND = """
from ergonet.cli.main import main
from ergonet.draws import checkpoint

checkpoint.EVERY_SECONDS = 0.0
main()
"""


def call(*arguments, code=0):
    found = CliRunner().invoke(app, list(arguments))
    assert found.exit_code == code, found.output
    return found


def press_once():
    """A tick that is Ctrl-C, the first time."""
    left = [KeyboardInterrupt()]

    def tick(self, tick):
        if left:
            raise left.pop()

    return tick


def metrics_of(folder):
    return {
        name: value for name, value in json.loads((folder / "metrics.json").read_text()).items() if name != "seconds"
    }


def assert_same_run(one: Path, other: Path):
    mine, theirs = ergonet.load(one / "draws.zarr"), ergonet.load(other / "draws.zarr")
    np.testing.assert_array_equal(mine.positions[...], theirs.positions[...])
    for name, values in theirs.stats.items():
        np.testing.assert_array_equal(mine.stats[name], values)
    assert metrics_of(one) == metrics_of(other)


@pytest.mark.slow
def test_fits_are_resumed_extended_and_replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TrajectoryJob, "_chunk_size", lambda self: 10)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    call(*FIT, "--out", "whole")
    with monkeypatch.context() as patch:
        patch.setattr(signals.BetweenChunks, "tick", press_once())
        stopped = call(*FIT, "--out", "run", code=130)
    assert "`ergonet resume run` continues it" in stopped.stderr
    assert "it can be resumed" in call("predict", "run", "new.csv", "--out", "p.csv", code=1).stderr
    shutil.copytree(".run.ergonet", "kept")
    assert "Report: run/report.html" in call("resume", "run").stdout
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    assert not (tmp_path / ".run.ergonet").exists()
    assert "run is complete: 20 draws of each of 2 chains. There is nothing to do" in call("resume", "run").stdout
    call("extend", "run", "--draws", "10")
    call(*FIT, "--draws", "30", "--out", "longer")
    assert_same_run(tmp_path / "run", tmp_path / "longer")
    found = call("verify", "run", "--replay").stdout
    assert "No damage was found.\nReplay: the first 30 draws of chain 0 of run are made again equal" in found
    assert "`--draws` must be at least 1" in call("extend", "run", "--draws", "0", code=1).stderr
    (tmp_path / "run" / "manifest.json").unlink()  # which has the checksum of what is changed
    settings = tmp_path / "run" / "settings.toml"
    settings.write_text(settings.read_text().replace("seed = 3", "seed = 4"))
    assert "`seed` was 3, and is 4" in call("extend", "run", "--draws", "1", code=1).stderr
    assert "is made again with other values" in call("verify", "run", "--replay", code=1).stdout
    assert "`ergonet resume run` continues it" in call(*FIT, "--out", "run", code=1).stderr


@pytest.mark.slow
def test_a_fit_with_a_stop_rule_is_resumed_and_extended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    ruled = [*FIT, "--draws", "900", "--until-ess", "40", "--until-minimum", "20", "--until-score-mcse", "0.05"]
    assert "The stop rule is met after" in call(*ruled, "--out", "whole").stdout
    with monkeypatch.context() as patch:
        patch.setattr(signals.BetweenChunks, "tick", press_once())
        call(*ruled, "--out", "run", code=130)
    call("resume", "run")
    assert_same_run(tmp_path / "run", tmp_path / "whole")
    drawn = metrics_of(tmp_path / "run")["num_draws"]
    assert 20 <= drawn < 900
    assert "(at most 0.05) of the mean log score of held-out rows" in metrics_of(tmp_path / "run")["until"]["sentence"]
    assert f"run is complete: {drawn} draws of each of 2 chains" in call("resume", "run").stdout
    call("extend", "run", "--draws", "10")
    found = metrics_of(tmp_path / "run")
    assert found["num_draws"] == drawn + 10
    assert "until" not in found
    assert "Give `--draws`, or a stop rule such as `--until-ess 400`" in call("extend", "run", code=1).stderr
    assert "`--until-rhat`" in call("extend", "run", "--until-rhat", "1", code=1).stderr


def test_a_stop_rule_with_another_minimum_extends_a_run(monkeypatch):
    given = {}
    monkeypatch.setattr(resuming, "run", lambda path, **settings: given.update(settings) or 0)
    call("extend", "run", "--until-ess", "300", "--until-minimum", "50")
    assert given["until"] == {"until_ess": 300.0, "until_minimum": 50}


@pytest.mark.slow
def test_a_fit_with_a_warm_start_is_extended_and_replayed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warm = ["--warm-start", "adam"]
    assert "Warm start" in call(*FIT, *warm, "--out", "run").stdout
    assert metrics_of(tmp_path / "run")["gradients"]["warm_start"] > 0
    call("extend", "run", "--draws", "10")
    (tmp_path / "table.toml").write_text('[run]\nwarm_start = {name = "adam", patience = 100}\n')  # the default
    call(*FIT, "--settings", "table.toml", "--draws", "30", "--out", "longer")
    assert_same_run(tmp_path / "run", tmp_path / "longer")
    found = call("verify", "run", "--replay").stdout
    assert "Replay: the first 30 draws of chain 0 of run are made again equal" in found
    assert "`warm_start='adma'` is not known" in call(*FIT, "--warm-start", "adma", code=1).stderr


@pytest.mark.slow
def test_a_killed_fit_is_resumed(tmp_path, monkeypatch):
    """Killed by `kill -9` as soon as its first checkpoint is on the disk, and again while it samples."""
    monkeypatch.chdir(tmp_path)
    longer = ["--warmup", "2000", "--draws", "500", "--quiet"]
    subprocess.run([sys.executable, "-c", COMMAND, *FIT, *longer, "--out", "whole"], check=True)
    fit = [*FIT, *longer, "--out", "run"]
    for sign in (".run.ergonet/new/draws.zarr/checkpoint.npz", "run/draws.zarr/positions/c.1.0.0"):
        process = subprocess.Popen([sys.executable, "-c", COMMAND, *fit])
        while process.poll() is None and not (tmp_path / sign).exists():
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        fit = ["resume", "run", "--quiet"]
    assert "`ergonet resume run` continues it" in call(*FIT, "--out", "run", code=1).stderr
    subprocess.run([sys.executable, "-c", COMMAND, *fit], check=True)
    assert_same_run(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
def test_chains_that_share_their_length_are_replayed_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call(*FIT, "--kernel", "hmc", "--out", "run")
    assert "the first 20 draws of all 2 chains of run are made again" in call("verify", "run", "--replay").stdout


@pytest.mark.parametrize(
    ("drawn", "is_met", "until", "expected"),
    [
        (0, False, {}, (120, 40)),  # stopped before its draws
        (100, False, {}, (120, 40)),  # all that it was to make
        (60, True, {}, (80, None)),
        (100, True, {}, (120, None)),  # met at the last look
        (60, True, {"until_ess": 80.0}, (120, 80)),
    ],
)
def test_draws_are_added_without_a_rule_that_is_met(drawn, is_met, until, expected):
    run = RunSettings(num_draws=100, until_ess=40.0)
    found = resuming._changed(run, drawn=drawn, draws=20, until=until, is_met=is_met)
    assert (found.num_draws, found.until_ess) == expected
