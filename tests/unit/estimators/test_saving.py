"""A saved estimator is a run directory, and the record of a run is an estimator; pickles hold the same parts."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ergonet import BayesianClassifier, BayesianRegressor
from ergonet._errors import CapabilityError, RunDirectoryError
from ergonet.cli.main import app
from ergonet.runs.directory import RunDirectory
from tests.runs import finish, write_killed
from tests.saved import save_as_version_2

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
SHORT: dict[str, Any] = {
    "hidden": (3,),
    "kernel": {"name": "hmc", "num_steps": 8, "metric": "identity"},
    "num_chains": 1,
    "num_warmup": 40,
    "num_draws": 40,
    "random_state": 0,
}
X = np.random.default_rng(0).normal(size=(40, 2))
Y = 30 * np.tanh(X[:, 0]) + X[:, 1]
CITIES = np.array(["Bern", "Rome"])[(X[:, 0] > 0).astype(int)]


@pytest.fixture(scope="module")
def regressor():
    return BayesianRegressor(**SHORT, likelihood="gaussian").fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return BayesianClassifier(**SHORT).fit(pd.DataFrame(X, columns=["a", "b"]), CITIES)


@pytest.fixture(scope="module")
def with_noise():
    return BayesianRegressor(**SHORT, likelihood={"name": "gaussian", "noise": 0.3}).fit(X, Y)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*arguments, code=0):
    found = CliRunner().invoke(app, list(arguments))
    assert found.exit_code == code, found.output
    return found


@pytest.mark.slow
def test_the_command_takes_a_saved_estimator(with_noise, classifier, folder):
    pd.DataFrame(X, columns=["x0", "x1"]).to_csv("new.csv", index=False)
    with_noise.save("model")
    call("predict", "model", "new.csv", "--out", "p.csv")
    mean, sd = with_noise.predict(X, return_std=True)
    found = pd.read_csv("p.csv")
    np.testing.assert_allclose(found[["mean", "sd"]], np.column_stack([mean, sd]), rtol=1e-12)
    classifier.save("classes")
    pd.DataFrame(X, columns=["a", "b"]).to_csv("new.csv", index=False)
    call("predict", "classes", "new.csv", "--out", "q.csv")
    assert list(pd.read_csv("q.csv")["predicted"]) == list(classifier.predict(pd.DataFrame(X, columns=["a", "b"])))
    assert "R-hat of predictions" in call("diagnose", "classes").stdout
    assert "is a saved estimator" in call("report", "classes", code=1).stderr
    assert call("verify", "classes").stdout.endswith("classes: No damage was found.\n")
    (folder / "classes" / "estimator.json").unlink()
    assert "estimator.json" in call("verify", "classes", code=1).stdout


def test_a_saved_estimator_is_that_of_the_fit(regressor, folder):
    changed = pickle.loads(pickle.dumps(regressor)).set_params(hidden=(7,), likelihood=None)  # after the fit
    changed.save("model")
    loaded = BayesianRegressor.load("model")
    assert loaded.hidden == (7,)
    np.testing.assert_array_equal(loaded.predict(X), regressor.predict(X))
    assert loaded.diagnostics_["min_ess_bulk_function"] == regressor.diagnostics_["min_ess_bulk_function"]
    np.testing.assert_array_equal(loaded.samples_.stats["lp"], regressor.samples_.stats["lp"])
    loaded.save("model", overwrite=True)  # onto the folder that its draws are read from
    np.testing.assert_array_equal(loaded.predict(X), regressor.predict(X))


@pytest.mark.slow
def test_the_start_of_an_estimator_is_the_warm_start_of_its_run(folder):
    model = BayesianRegressor(**SHORT, start={"name": "adam", "most_epochs": 20}).fit(X, Y)
    assert model.samples_.about["warm_start"]["most_epochs"] == 20
    model.save("model")
    assert RunDirectory(folder / "model").read_settings()[0].run.warm_start == model.start
    assert BayesianRegressor.load("model").start == model.start


@pytest.mark.slow
def test_a_run_of_the_command_is_an_estimator(folder):
    directory = write_killed(folder)
    finish(directory)
    settings = folder / "run" / "settings.toml"
    settings.write_text(settings.read_text().replace("[run]\n", "[run]\nuntil_ess = 40.0\nuntil_minimum = 20\n"))
    (folder / "run" / "manifest.json").unlink()  # it has the checksum of the settings
    call("predict", "run", "table.csv", "--out", "p.csv")
    loaded = BayesianRegressor.load("run")
    assert loaded.until == {"ess": 40.0, "minimum": 20}
    table = pd.read_csv("table.csv")
    np.testing.assert_array_equal(loaded.predict(table[["x", "y"]]), pd.read_csv("p.csv")["mean"])
    assert (loaded.hidden, loaded.num_chains, loaded.n_features_in_) == ((2,), 2, 2)
    with pytest.raises(RunDirectoryError, match=r"is a regression, .* Use `BayesianRegressor\.load`"):
        BayesianClassifier.load("run")
    loaded.save("again")
    again = BayesianRegressor.load("again")
    np.testing.assert_array_equal(again.predict(table[["x", "y"]]), loaded.predict(table[["x", "y"]]))


def test_a_pickle_holds_the_record(classifier):
    data = pickle.dumps(classifier)
    state = classifier.__getstate__()
    assert state["format_version"] == 3
    assert isinstance(state["samples"]["positions"], np.ndarray)
    assert b"NetworkPosterior" not in data  # nor the training data
    again = pickle.loads(data)
    assert list(again.classes_) == ["Bern", "Rome"]
    np.testing.assert_array_equal(again.samples_.positions, classifier.samples_.positions)
    with pytest.raises(RunDirectoryError, match="was pickled by Ergonet 9 in format 4"):
        BayesianClassifier().__setstate__({**state, "format_version": 4, "ergonet": "9"})


def test_foreign_files_are_never_replaced(regressor, folder):
    for names in (["thesis.txt"], ["estimator.json"], ["draws.zarr/photo.jpg", "estimator.json"]):
        for name in names:
            (Path("mine") / name).parent.mkdir(parents=True, exist_ok=True)
            (Path("mine") / name).write_text("hours of work")
        for overwrite in (False, True):
            with pytest.raises(RunDirectoryError, match=r"mine.* (exists already|was not written by Ergonet)"):
                regressor.save("mine", overwrite=overwrite)
        assert all((Path("mine") / name).read_text() == "hours of work" for name in names)
        shutil.rmtree("mine")
    regressor.save("model")
    Path("model/thesis.txt").write_text("hours of work")
    with pytest.raises(RunDirectoryError, match=r"thesis\.txt` was not written by Ergonet"):
        regressor.save("model", overwrite=True)


def test_a_failed_save_leaves_nothing_or_the_previous_one(regressor, folder):
    regressor.save("model")
    before = sorted(Path("model").rglob("*"))
    broken = pickle.loads(pickle.dumps(regressor)).set_params(prior=np)
    for path in ("model", "other"):
        with pytest.raises(CapabilityError, match="`prior="):
            broken.save(path, overwrite=True)
    assert sorted(Path("model").rglob("*")) == before
    assert [one.name for one in folder.iterdir()] == ["model"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["regressor", "classifier"])
def test_the_format_before_is_read_and_replaced(kind, request, folder):
    fitted = request.getfixturevalue(kind)
    save_as_version_2(fitted, folder / "model")
    loaded = type(fitted).load("model")
    new = pd.DataFrame(X, columns=["a", "b"]) if kind == "classifier" else X
    loaded.feature_names_in_ = np.array(["a", "b"], dtype=object) if kind == "classifier" else None
    if kind == "regressor":
        del loaded.feature_names_in_
    assert np.array_equal(loaded.predict(new), fitted.predict(new))
    loaded.save("model", overwrite=True)
    assert np.array_equal(type(fitted).load("model").predict(new), fitted.predict(new))


@pytest.mark.slow
def test_damaged_files_of_a_saved_estimator_are_named(regressor, folder):
    file = save_as_version_2(regressor, folder / "older")
    whole = json.loads(file.read_text())
    for table in ("parameters", "fitted"):
        for name in whole[table]:
            for value in (None, -1, 1e300, "x", [[]], {"name": []}):
                content = {**whole, table: {**whole[table], name: value}}
                file.write_text(json.dumps(content))
                message = "older"
                try:
                    BayesianRegressor.load("older")
                except RunDirectoryError as error:
                    message = str(error)
                assert "older" in message, (name, value)
    regressor.save("model")
    for file in (one for one in Path("model").iterdir() if one.is_file()):
        data = file.read_bytes()
        file.write_bytes(data[:-9] + b" " + data[-8:])
        with pytest.raises(RunDirectoryError, match=file.name):
            BayesianRegressor.load("model")
        file.write_bytes(data)
