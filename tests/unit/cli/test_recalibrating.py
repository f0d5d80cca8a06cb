"""`ergonet recalibrate`: recorded in the run, used by predictions, said by the report."""

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import entropy

from ergonet import MLP, BayesianClassifier, BayesianNetwork, Samples, likelihoods, priors
from ergonet._errors import RunDirectoryError, SettingError
from ergonet.cli import recalibrating
from ergonet.cli.predicting import Columns, _recalibrated
from ergonet.datasets.learning import unscaled
from ergonet.prediction.recalibration import ClassCalibration, Levels, from_table, recalibrate_levels
from ergonet.report import overview
from ergonet.report.opening import paragraph
from ergonet.runs.directory import RunDirectory
from tests.report_records import classification_record
from tests.unit.cli.test_resuming import FIT, call

LEVELS = recalibrate_levels(np.linspace(0.3, 0.7, 60))


@dataclass(frozen=True)
class Predicted:
    mean: np.ndarray
    levels: tuple
    entropy: Any = None
    expected_entropy: Any = None


class Predictor:
    """Predicts two classes, and remembers the levels."""

    def predict(self, x, *, levels):
        return Predicted(np.asarray([[0.9, 0.1]]), tuple(levels), entropy([[0.9, 0.1]], axis=1), np.array([0.2]))


@pytest.mark.parametrize("found", [ClassCalibration(2.0, 0.1, 60, 0.1), LEVELS])
def test_what_is_recorded_is_read_again(found):
    read = from_table(json.loads(json.dumps(found.to_table())))
    assert type(read) is type(found)
    assert str(read) == str(found)
    assert read.rows == 60
    if isinstance(found, Levels) and isinstance(read, Levels):
        np.testing.assert_array_equal(read([0.05, 0.5]), found([0.05, 0.5]))


@pytest.mark.parametrize(
    "table",
    [
        {"rows": 60},
        {"rows": 60, "temperature": -1.0, "gain": 0.0},
        {"rows": None, "temperature": 1.0, "gain": 0.0},
        {"rows": 60, "temperature": 1.0, "label_noise": 1.0, "gain": 0.0},
        {"rows": 60, "stated": [0.0, 0.6, 0.5], "observed": [0.0, 0.5, 1.0]},
        {"rows": 60, "stated": [0.0, 1.0], "observed": [0.0, 0.5, 1.0]},
    ],
)
def test_a_damaged_record_is_named(tmp_path, monkeypatch, table):
    for name in ("check_version", "missing_results", "read_metrics"):
        found = {"check_version": True, "missing_results": [], "read_metrics": {"recalibration": table}}[name]
        monkeypatch.setattr(RunDirectory, name, lambda _, found=found: found)
    with pytest.raises(RunDirectoryError, match=r"The recalibration in .* cannot be read"):
        recalibrating.read(RunDirectory(tmp_path))


def test_predictions_have_its_probabilities_and_levels():
    predictor: Any = Predictor()
    x = np.zeros((1, 1))
    classes = _recalibrated(predictor, x, (0.05, 0.95), ClassCalibration(2.0, 0.1, 60, 0.1))
    np.testing.assert_allclose(classes.mean, [[0.725, 0.275]])  # odds of 9 become odds of 3
    np.testing.assert_allclose(classes.entropy, entropy(classes.mean, axis=1))
    np.testing.assert_allclose(classes.expected_entropy / classes.entropy, 0.2 / entropy([0.9, 0.1]))
    numbers = _recalibrated(predictor, x, (0.05, 0.95), LEVELS)
    assert numbers.levels == (0.05, 0.95)
    plain = _recalibrated(predictor, x, (0.05, 0.95), None)
    np.testing.assert_array_equal(plain.mean, [[0.9, 0.1]])
    assert Columns().recalibration is None


def test_the_report_names_it():
    record = classification_record(chains=1, draws=1)
    test = {**record.metrics["test"], "calibration": 0.3, "overconfidence": 0.3}
    diagnostics = {"max_rhat_function": 1.0}
    done = {"temperature": 2.0, "rows": 60, "gain": 0.1, "file": "more.csv", "sentence": "Recalibrated on 60 rows."}
    metrics = {**record.metrics, "test": test, "diagnostics": diagnostics}
    assert "Recalibration" not in dict(overview.fitted(replace(record, metrics=metrics)))
    assert "recalibrate what it states" in paragraph(metrics)[-1]
    metrics |= {"recalibration": done}
    said = dict(overview.fitted(replace(record, metrics=metrics)))["Recalibration"]
    assert said.startswith("Recalibrated on 60 rows. The rows are those of more.csv.")
    assert "`ergonet predict`, which recalibrates" in paragraph(metrics)[-1]


@pytest.mark.parametrize("temperature", [2, 2.0])
def test_the_report_names_a_temperature_that_was_given(temperature):
    record = classification_record(chains=1, draws=1)
    settings = {**record.settings, "likelihood": {"name": "categorical", "temperature": temperature}}
    said = dict(overview.fitted(replace(record, settings=settings)))["Probabilities"]
    assert said.startswith("averages over the draws to the power 1/2, normalized, which makes them less sure.")


class Plain:
    """Inputs and targets are those of the network."""

    target_names = ("y",)
    classes = ()

    def transform(self, x, *, argument):
        return x.to_numpy(np.float32)

    def transform_target(self, y, *, argument):
        return y[:, None].astype(np.float32)


def test_intervals_around_grades_are_judged_by_their_steps(tmp_path):
    """A model that knows how targets were made before they were rounded needs no other levels."""
    model = BayesianNetwork(MLP((1, 1)), priors.Normal(1.0), likelihoods.Gaussian(noise=0.25))
    samples = Samples(np.array([[[1.0, 0.0]]], np.float32), {}, {}, {}, {}, {}, {})  # the output is the input
    random = np.random.default_rng(5)
    x = random.normal(5, 1, 4000)
    table = pd.DataFrame({"x": x, "y": np.round(x + 0.25 * random.normal(size=x.size))})
    table.to_csv(tmp_path / "grades.csv", index=False)
    settings = SimpleNamespace(data=SimpleNamespace(weights=None))
    units = unscaled({"x": x}, table[["y"]].to_numpy(), task="regression", target_names=("y",))
    fitted: Any = SimpleNamespace(samples=samples, preprocessing=units, model=model, settings=settings)
    found: Any = recalibrating._found(fitted, *recalibrating._rows(fitted, str(tmp_path / "grades.csv")))
    wanted = np.arange(1, 10) / 10
    np.testing.assert_allclose(found(wanted), wanted, atol=0.03)


def test_training_rows_among_those_for_recalibration_are_named(monkeypatch):
    fitted: Any = SimpleNamespace(settings=None, preprocessing=None)
    x, y = np.random.default_rng(0).normal(size=(2, 9, 1)).astype(np.float32)
    dataset = SimpleNamespace(x_train=x[:5], y_train=y[:5])
    monkeypatch.setattr("ergonet.cli.loading.reload_data", lambda *_, **__: dataset)
    assert recalibrating._seen(fitted, x[3:], y[3:]).startswith("But 2 of these rows are training rows")
    assert not recalibrating._seen(fitted, x[5:], y[5:])
    assert not recalibrating._seen(fitted, x[:5], -y[:5])  # other targets

    def gone(*_, **__):
        raise RunDirectoryError("the data are gone")

    monkeypatch.setattr("ergonet.cli.loading.reload_data", gone)
    assert not recalibrating._seen(fitted, x, y)


@pytest.mark.slow
def test_a_run_is_recalibrated_and_restored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call(*FIT, "--out", "run")
    _, units = RunDirectory(tmp_path / "run").read_settings()
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(80, len(units.feature_names))), columns=list(units.feature_names))
    table.to_csv("new.csv", index=False)
    table[units.target_names[0]] = random.choice(np.asarray(units.classes), 80)  # nothing can be predicted
    table.to_csv("rows.csv", index=False)
    call("predict", "run", "new.csv", "--out", "plain.csv")
    said = call("recalibrate", "run", "rows.csv").output
    assert "Recalibrated on 80 held-out rows: probabilities to the power 1/" in said
    found = recalibrating.read(RunDirectory(tmp_path / "run"))
    assert isinstance(found, ClassCalibration)
    assert found(np.array([[0.98, 0.02]])).max() < 0.875  # odds of 49 become odds below 7
    said = call("predict", "run", "new.csv", "--out", "changed.csv").output
    assert said.startswith("Recalibrated on 80 held-out rows")
    plain, changed = pd.read_csv("plain.csv"), pd.read_csv("changed.csv")
    names = [name for name in plain if name.startswith("probability_")]
    np.testing.assert_allclose(changed[names], found(plain[names].to_numpy()), atol=1e-5)
    assert set(changed["recalibrated"]) == {"on 80 rows"}
    assert "recalibrated" not in plain
    assert "The rows are those of rows.csv." in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    call("verify", "run")
    with pytest.warns(UserWarning, match="'run' was recalibrated, but an estimator states what the model states"):
        BayesianClassifier.load("run")
    call("recalibrate", "run", "--remove")
    call("predict", "run", "new.csv", "--out", "again.csv")
    pd.testing.assert_frame_equal(pd.read_csv("again.csv"), plain)
    assert "no column" in call("recalibrate", "run", "new.csv", code=1).output
    assert "either a FILE" in call("recalibrate", "run", code=1).output


def test_a_saved_estimator_is_named_as_such(tmp_path):
    (tmp_path / "estimator.json").write_text("{}")
    with pytest.raises(SettingError, match="is a saved estimator, and `ergonet recalibrate` is for runs of"):
        recalibrating._recorded(RunDirectory(tmp_path), "new.csv")


def test_columns_may_have_whole_numbers_as_names(tmp_path):
    pd.DataFrame({0: [1.0, 2.0], 1: [3.0, 4.0]}).to_parquet(tmp_path / "new.parquet")
    units: Any = Plain()
    units.target_names = ("1",)
    settings = SimpleNamespace(data=SimpleNamespace(weights=None))
    samples = SimpleNamespace(about={})
    fitted: Any = SimpleNamespace(samples=samples, preprocessing=units, settings=settings)
    x, y = recalibrating._rows(fitted, str(tmp_path / "new.parquet"))
    assert (x.ravel().tolist(), y.ravel().tolist()) == ([1.0, 2.0], [3.0, 4.0])
