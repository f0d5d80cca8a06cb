"""`ergonet fit` beside another one, and after one that was killed; `ergonet prior-check` on an existing file."""

import signal
import subprocess
import sys
import time
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

import ergonet
from ergonet._errors import RunDirectoryError, TimeLimitError
from ergonet.assembly.settings import resolve
from ergonet.cli import evaluation, fitting, loading, prior_check
from ergonet.cli.main import app
from ergonet.datasets import registry
from ergonet.draws.store import ZarrStore

MOONS = resolve("two-moons", {}, {})


def fit(path, *, overwrite=False):
    return fitting.run(MOONS, out=str(path), overwrite=overwrite, strict=False, quiet=True, began=time.perf_counter())


def files(folder):
    return {str(one.relative_to(folder)): one.read_bytes() for one in sorted(folder.rglob("*")) if one.is_file()}


def test_a_second_fit_on_a_path_is_refused_before_any_work(tmp_path, monkeypatch):
    class BegunError(Exception):
        pass

    begun = []

    def load(data, *, seed, likelihood):
        begun.append(seed)
        if len(begun) == 1:
            with pytest.raises(RunDirectoryError, match="run` is being written by"):
                fit(tmp_path / "run")
        raise BegunError

    monkeypatch.setattr(loading, "load_data", load)
    with pytest.raises(BegunError):
        fit(tmp_path / "run")
    assert len(begun) == 1
    assert list(tmp_path.iterdir()) == []


def draw_once(target, kernel, *, store, **settings):
    """Stands for `ergonet.sample`: one draw, and an error after it."""
    store = store if isinstance(store, ZarrStore) else ZarrStore(store)
    store.allocate(1, 1, {"positions": ((target.dim,), np.dtype(np.float32))})
    store.write(0, 0, {"positions": np.zeros((1, target.dim), np.float32)})
    raise MemoryError


# A fit that is killed when its warm-up would begin.
KILLED = """
import os, signal, time
import ergonet
from ergonet.assembly.settings import resolve
from ergonet.cli import fitting

ergonet.sample = lambda *arguments, **settings: os.kill(os.getpid(), signal.SIGKILL)
settings = resolve("two-moons", {}, {})
fitting.run(settings, out="run", overwrite=True, strict=False, quiet=True, began=time.perf_counter())
"""


@pytest.mark.slow
def test_a_killed_fit_and_a_failing_one_leave_the_old_run(tmp_path, monkeypatch):
    def stop(*arguments, **settings):
        raise TimeLimitError("too slow")

    monkeypatch.setattr(ergonet, "sample", draw_once, raising=False)
    with pytest.raises(MemoryError):
        fit(tmp_path / "run")
    old = files(tmp_path / "run")
    assert "draws.zarr/manifest.json" in old
    killed = subprocess.run([sys.executable, "-c", KILLED], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    monkeypatch.setattr(ergonet, "sample", stop)
    with pytest.raises(TimeLimitError):
        fit(tmp_path / "run", overwrite=True)
    assert files(tmp_path / "run") == old
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("name", ["settings.toml", "report.html", ".run.previous/settings.toml"])
def test_a_fit_deletes_no_file_of_a_person(tmp_path, monkeypatch, name):
    kept = tmp_path / name if name.startswith(".") else tmp_path / "run" / name
    kept.parent.mkdir()
    kept.write_text("hours of work")

    monkeypatch.setattr(ergonet, "sample", draw_once, raising=False)
    with pytest.raises((RunDirectoryError, MemoryError)):
        fit(tmp_path / "run", overwrite=True)
    assert kept.read_text() == "hours of work"


def test_a_picture_is_not_overwritten_unasked(tmp_path):
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"a cat")
    with pytest.raises(RunDirectoryError, match=r"photo.png' exists already.*--overwrite"):
        prior_check.run(resolve("no-such-file.csv", {}, {}), num_draws=1, out=str(photo), overwrite=False)
    assert photo.read_bytes() == b"a cat"


def test_the_report_names_the_rows_whose_predictions_are_monitored():
    for fraction in (0.5, 0.0):
        dataset = registry.load("diabetes", test_fraction=fraction, seed=0)
        found = evaluation.reference_points(dataset)
        model = ergonet.BayesianNetwork(
            ergonet.MLP([10, 2, 1]), ergonet.priors.Normal(), ergonet.likelihoods.Gaussian()
        )
        monitored = np.asarray(fitting.condition(model, dataset).reference).T
        rows = found["reference_rows"]
        x = dataset.x_test[np.searchsorted(dataset.test_rows, rows)] if fraction else dataset.x_train[rows]
        np.testing.assert_array_equal(x, monitored)
        column = int(np.argmax(np.abs(monitored[3])))
        name = dataset.preprocessing.encoded_names[column]
        assert found["reference_inputs"][3] == f"{name} {monitored[3, column]:+.1f} sd"


def test_a_stop_rule_that_cannot_be_met_is_refused_before_anything_takes_long(tmp_path, monkeypatch):
    monkeypatch.setattr("ergonet.assembly.temperature.settled", None)
    place = str(tmp_path / "run")
    answer = CliRunner().invoke(app, ["fit", "two-moons", "--until-ess", "400", "--draws", "100", "--out", place])
    assert answer.exit_code == 1
    assert "but `num_draws` (`--draws`) allows 100. Raise it" in answer.stderr


def test_explanations_are_no_time_of_the_baselines(monkeypatch):
    monkeypatch.setattr(time, "perf_counter", lambda: 107.0)
    found = fitting._seconds({"setup": 1.0, "total": 5.0}, before=2.0, began=(100.0, 101.0, 103.0))
    stages = {"prediction": 1.0, "baselines": 2.0, "explanation": 4.0}
    assert found == {"setup": 3.0, "total": 5.0 + 2.0 + 7.0, **stages}


@pytest.mark.slow
def test_direct_connections_are_told_and_saved(tmp_path, capsys):
    short = {"num_chains": 1, "num_warmup": 20, "num_draws": 10, "baselines": False}
    chosen = resolve(
        "two-moons", {}, {"network": {"hidden": [3], "direct": True}, "kernel": {"name": "nuts"}, "run": short}
    )
    fitting.run(
        chosen, out=str(tmp_path / "run"), overwrite=False, strict=False, quiet=False, began=time.perf_counter()
    )
    assert "Network 2-3-1 with direct connections" in capsys.readouterr().out
    assert tomllib.loads((tmp_path / "run" / "settings.toml").read_text())["network"]["direct"] is True


@pytest.mark.parametrize("option", ["--log-beyond", "--missing", "--one-hot-limit"])
def test_what_built_in_data_do_not_take_is_refused(tmp_path, option):
    given = {"--log-beyond": "3", "--missing": "refuse", "--one-hot-limit": "5"}[option]
    answer = CliRunner().invoke(app, ["fit", "two-moons", option, given, "--out", str(tmp_path / "run")])
    assert answer.exit_code == 1
    assert f"`{option}` is for tables of your own: 'two-moons' is a built-in data set" in answer.stderr
