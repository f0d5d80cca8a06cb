"""A fit whose time limit ends before the first draw leaves a run directory that predicts and says what it is."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ergonet
from ergonet._errors import RunDirectoryError, TimeLimitError
from ergonet.assembly import build
from ergonet.assembly.settings import resolve
from ergonet.baselines.fallback import fit_linear
from ergonet.baselines.forecast import Forecast, Rows
from ergonet.cli import comparing, evaluation, falling_back, fitting, loading, predicting, resuming, signals, unfinished
from ergonet.datasets.tables import from_table
from ergonet.diagnostics import advise
from ergonet.draws.replacement import Claim, Existing
from ergonet.inference import waiting
from ergonet.report.write import write_report
from ergonet.runs.claiming import run_content
from ergonet.runs.directory import RunDirectory

RNG = np.random.default_rng(2)
TABLE = pd.DataFrame(RNG.normal(size=(60, 2)), columns=["a", "b"]).assign(y=lambda one: 3 * one.a + RNG.normal(size=60))
SETTINGS = resolve("table.csv", {}, {"data": {"target": ["y"]}, "run": {"time_limit": 3600.0}})


@pytest.fixture
def dataset():
    return from_table(TABLE, "y", seed=0)


def fall_back(path, dataset, states=None, began=None, settings=SETTINGS):
    error = TimeLimitError("too slow")
    error.states, error.is_warm_started = states, states is not None
    began = time.perf_counter() if began is None else began
    claim = Claim(path, run_content("add `--overwrite`"))
    settings = fitting_settings(dataset, settings)
    try:
        return falling_back.fall_back(error, settings, dataset, claim, began=began)
    finally:
        claim.close()


def fitting_settings(dataset, settings=SETTINGS):
    return build.complete(settings, dataset.preprocessing)


@pytest.mark.parametrize("times", [1, 2])
def test_copies_of_training_rows_among_the_held_out_rows_are_told(tmp_path, monkeypatch, times):
    monkeypatch.setattr("ergonet.report.write_report", lambda *_: None)
    _, metrics = fall_back(tmp_path / "run", from_table(pd.concat([TABLE] * times), "y", seed=0))
    assert (metrics.get("test_copies", 0) > 0.5 * metrics["num_test"]) == (times == 2)
    assert ("copies of training rows" in " ".join(advise(metrics))) == (times == 2)


def test_the_run_directory_predicts_as_the_linear_baseline_and_says_so(tmp_path, dataset, monkeypatch, capsys):
    reports = []
    monkeypatch.setattr("ergonet.report.write_report", lambda record, path: reports.append((record, path)))
    directory, metrics = fall_back(tmp_path / "run", dataset)
    said = "These are predictions of ridge regression, not of draws from the posterior"
    assert metrics["fallback"]["name"] == "ridge regression"
    assert said in metrics["fallback"]["sentence"]
    assert metrics["test"]["rmse"] == pytest.approx(1.0, abs=0.4)
    assert metrics["diagnostics"] == {}
    assert fitting.conclude(directory, metrics, strict=False, quiet=False) == fitting.FINE
    assert fitting.conclude(directory, metrics, strict=True, quiet=True) == fitting.OFF
    out, err = capsys.readouterr()
    assert f"! {said}" in out
    assert said in err
    assert "R-hat" not in out
    assert "ergonet resume" not in out  # which would have nothing to go on with
    TABLE.to_csv(tmp_path / "new.csv", index=False)
    predicting.run(
        directory, str(tmp_path / "new.csv"), str(tmp_path / "out.csv"), columns=predicting.Columns(), overwrite=False
    )
    assert f"Warning: {said}" in capsys.readouterr().err
    predicted = pd.read_csv(tmp_path / "out.csv")
    scaling = dataset.preprocessing
    forecast = fit_linear(Rows.of(dataset), seconds=1.0).forecast(scaling.transform(TABLE[["a", "b"]]))
    assert isinstance(forecast, Forecast)
    np.testing.assert_allclose(predicted["mean"], scaling.inverse_mean(forecast.mean)[:, 0], atol=1e-4)
    np.testing.assert_allclose(predicted["sd"], scaling.inverse_sd(forecast.sd[None])[0, 0], rtol=1e-4)
    with pytest.raises(RunDirectoryError, match=r"no draws to go on with. These are predictions of ridge regression"):
        resuming.run(str(directory.path), time_limit=None, strict=False, quiet=True, began=time.perf_counter())
    assert len(reports) == 1
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_what_is_in_the_place_stays_and_an_unfinished_run_replaces_the_fallback(tmp_path, dataset, monkeypatch, capsys):
    monkeypatch.setattr("ergonet.report.write_report", lambda *_: None)
    place = tmp_path / "run"
    claim = Claim(place, run_content(""))
    (claim.folder / "draws.zarr").mkdir(parents=True)
    (claim.folder / "draws.zarr" / "fingerprint.json").write_text("{}")
    claim.preserve()
    error = TimeLimitError("too slow")
    directory, metrics = falling_back.fall_back(error, fitting_settings(dataset), dataset, claim, began=0.0)
    claim.close()
    fitting.conclude(directory, metrics, strict=False, quiet=False)
    assert f"The run was stopped: `ergonet resume {place}` continues it." in capsys.readouterr().out
    assert directory.path == place
    assert RunDirectory(place).check_version()
    again = Claim(place, run_content(""), existing=Existing.CONTINUE)
    assert again.folder != place  # what is beside it
    again.close()
    with pytest.raises(TimeLimitError, match=r"too slow '.*' still predicts without draws: give `resume` more time"):
        falling_back.fall_back(TimeLimitError("too slow"), SETTINGS, dataset, claim, began=0.0)
    (place / "metrics.json").write_text("{}")
    with pytest.raises(TimeLimitError, match=r"too slow '.*' stays as it is, .* choose another `--out`"):
        falling_back.fall_back(TimeLimitError("too slow"), SETTINGS, dataset, claim, began=0.0)
    claim.is_there = True  # as in a run that is continued, and had draws after its last checkpoint only
    with pytest.raises(TimeLimitError, match=r"are better than none: give `resume` more time"):
        falling_back.fall_back(TimeLimitError("too slow"), SETTINGS, dataset, claim, began=0.0)


@pytest.mark.slow
def test_the_command_falls_back_and_writes_a_report(tmp_path, monkeypatch, capsys):
    def stop(*arguments, **settings):
        raise TimeLimitError("too slow")

    TABLE.assign(y=np.where(TABLE.y > 0, "up", "down")).to_csv(tmp_path / "table.csv", index=False)
    monkeypatch.setattr(ergonet, "sample", stop, raising=False)
    given = {"data": {"target": ["y"]}, "run": {"time_limit": 3600.0}}
    settings = resolve(str(tmp_path / "table.csv"), {}, given)
    began = time.perf_counter()
    place = tmp_path / "run"
    assert fitting.run(settings, out=str(place), overwrite=False, strict=False, quiet=False, began=began) == 0
    report = (place / "report.html").read_text()
    assert "Not the posterior of the network: logistic regression" in report
    assert "predictions of logistic regression, not of draws" in capsys.readouterr().out
    assert json.loads((place / "metrics.json").read_text())["test"]["error"] < 0.5
    (place / "metrics.json").unlink()  # as after a time limit that ends the process here
    (place / "manifest.json").unlink()
    found = unfinished.record_of(RunDirectory(place))
    assert found.metrics["fallback"]["name"] == "logistic regression"
    write_report(found, place / "again.html")


def test_runs_without_draws_are_compared_by_held_out_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("ergonet.report.write_report", lambda *_: None)
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    given = resolve(str(tmp_path / "table.csv"), {}, {"data": {"target": ["y"]}, "run": {"time_limit": 3600.0}})
    dataset = loading.load_data(given.data, seed=given.run.seed, likelihood=None)
    runs = [str(fall_back(tmp_path / name, dataset, settings=given)[0].path) for name in ("one", "two")]
    comparing.compare(runs, with_evidence=True)
    said = capsys.readouterr().out
    why = "These are predictions of ridge regression, not of draws"
    assert f"LOO is left out, for {runs[0]!r}: {why}" in said
    assert "held-out rows" in said
    assert f"{runs[1]}  {why}" in said


def test_a_process_that_is_ended_while_it_writes_the_report_leaves_a_finished_run(tmp_path, dataset, monkeypatch):
    found = []
    monkeypatch.setattr(signals.Signals, "seconds_left", property(lambda _: 3600.0))
    monkeypatch.setattr(
        "ergonet.report.write_report", lambda _, path: found.append(RunDirectory(path.parent).check_version())
    )
    fall_back(tmp_path / "run", dataset)
    assert found == [True]


def test_a_report_for_which_there_is_no_time_is_left_out(tmp_path, dataset, monkeypatch, capsys):
    monkeypatch.setattr(signals.Signals, "seconds_left", property(lambda _: 0.1))
    directory, metrics = fall_back(tmp_path / "run", dataset)
    assert "no time for the report: `ergonet report" in capsys.readouterr().err
    assert RunDirectory(directory.path).check_version()
    assert metrics["test"]
    fitting.conclude(directory, metrics, strict=False, quiet=False)
    assert "Report:" not in capsys.readouterr().out
    assert not waiting.is_working()
    assert [one.name for one in tmp_path.iterdir()] == ["run"]


def test_a_run_without_time_for_scores_is_finished_and_predicts(tmp_path, dataset, monkeypatch, capsys):
    width = build.model(fitting_settings(dataset), build.Task.of(dataset.preprocessing)).dim
    late = time.perf_counter() - 1e5  # of compiling, say
    directory, metrics = fall_back(tmp_path / "run", dataset, np.zeros((2, width), np.float32), began=late)
    assert metrics["test"] == {}
    fitting.conclude(directory, metrics, strict=False, quiet=False)
    out, err = capsys.readouterr()
    assert f"no time for scores and report: `ergonet report {directory.path}` makes them" in err
    assert "the time limit left no time for them" in out
    assert "networks that the warm start found" in out
    assert directory.check_version()
    assert directory.read_fitted().samples.num_chains == 2
    monkeypatch.setattr(unfinished, "_computed", lambda _: SimpleNamespace(metrics={"test": {"rmse": 1.0}}))
    assert unfinished.metrics_of(directory)["test"]
    assert unfinished.record_of(directory).metrics["test"]


def test_scores_of_counts_without_draws_compile_no_network(tmp_path, monkeypatch):
    monkeypatch.setattr("ergonet.report.write_report", lambda *_: None)
    monkeypatch.setattr(evaluation, "evaluate", None)
    counts = from_table(TABLE.assign(y=RNG.poisson(np.exp(TABLE.a))), "y", seed=0, task="count")
    _, metrics = fall_back(tmp_path / "run", counts)
    assert metrics["fallback"]["name"] == "Poisson regression"
    assert metrics["test"]["deviance"] < 3
