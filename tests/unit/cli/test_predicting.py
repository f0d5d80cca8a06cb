"""`ergonet predict`: columns by choice, inputs outside what was seen, files in blocks, runs with similar names."""

import json
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from ergonet._errors import SettingError
from ergonet.cli import predicting
from ergonet.cli.main import app
from ergonet.cli.predicting import Columns, level_names, numbers
from ergonet.datasets import from_table
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.prediction.predictive import Prediction
from ergonet.runs.directory import RunDirectory
from tests.runs import finish, write_killed
from tests.stages import cases


def call(*arguments, code=0):
    found = CliRunner().invoke(app, list(arguments))
    assert found.exit_code == code, found.output
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_killed(folder)
        finish(RunDirectory(folder / "run"))
    return folder


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def predicted(*options, name="p.csv", table="table.csv"):
    call("predict", "run", table, "--out", name, "--overwrite", *options)
    return pd.read_parquet(name) if name.endswith("parquet") else pd.read_csv(name, keep_default_na=False)


def test_the_variance_is_that_of_noise_and_knowledge(here):
    found = predicted("--quantiles", "0.05,0.5,0.975")
    assert [*found] == ["mean", "sd", "sd_aleatoric", "sd_epistemic", "q05", "q50", "q97.5", "outside"]
    np.testing.assert_allclose(found["sd_aleatoric"] ** 2 + found["sd_epistemic"] ** 2, found["sd"] ** 2, rtol=1e-5)
    assert (found[["sd_aleatoric", "sd_epistemic"]] > 0).to_numpy().all()
    assert (np.diff(found[["q05", "q50", "q97.5"]], axis=1) > 0).all()


def test_noise_is_aleatoric_and_what_the_draws_disagree_about_is_epistemic():
    frame = pd.DataFrame({"x": np.arange(9.0), "y": 10 * np.arange(9.0) ** 2 + 0.5})
    preprocessing = from_table(frame, "y", test_fraction=0.0).preprocessing
    one = np.ones((2, 1))
    none = dict.fromkeys(("quantiles", "log_density", "entropy", "expected_entropy"))
    found = numbers(Prediction(one, 5 * one, 3 * one, 4 * one, levels=(), **none), preprocessing)
    np.testing.assert_array_equal(found[["sd", "sd_aleatoric", "sd_epistemic"]], np.array([[5.0, 3.0, 4.0]] * 2))


def test_inputs_outside_the_range_of_the_training_rows_are_named(here):
    known = RunDirectory(here / "run").read_settings()[1].feature_range
    assert known is not None
    low, high = known
    rows = {"x": [low[0], high[0], high[0] + 0.1, 0.0], "y": [low[1], high[1], low[1] - 0.1, high[1] + 0.1]}
    pd.DataFrame(rows).to_parquet("few.parquet")
    assert predicted(table="few.parquet")["outside"].tolist() == ["", "", "x; y", "y"]


def test_a_run_that_recorded_no_range_has_no_such_column(here):
    preprocessing = RunDirectory(here / "run").read_settings()[1]
    record = preprocessing.to_dict()
    del record["feature_range"]
    older = Preprocessing.from_dict(json.loads(json.dumps(record)))
    assert older.outside(np.full((3, 2), 1e3, np.float32)) is None
    assert older.to_dict() == record


@pytest.mark.parametrize("kind", cases(["csv", "parquet"], quick=["csv"]))
def test_files_in_blocks_have_the_predictions_of_the_whole_file(here, monkeypatch, kind):
    rng = np.random.default_rng(1)
    large = pd.DataFrame({"x": rng.normal(size=400), "y": rng.normal(size=400), "more": 'a "b"\n,c'})
    large.to_csv("large.csv", index=False) if kind == "csv" else large.to_parquet("large.parquet")
    whole = predicted("--draws", "2", name=f"whole.{kind}", table=f"large.{kind}")
    monkeypatch.setattr(predicting, "BLOCK_ROWS", 256)
    said = call("predict", "run", f"large.{kind}", "--out", f"blocks.{kind}", "--overwrite", "--draws", "2")
    assert said.stderr.count("ignored: 'more'") == 1
    found = pd.read_csv("blocks.csv", keep_default_na=False) if kind == "csv" else pd.read_parquet("blocks.parquet")
    pd.testing.assert_frame_equal(found, whole, rtol=1e-5)
    assert [*found][-3:] == ["outside", "draw_1", "draw_2"]
    assert np.corrcoef(found["draw_1"][:144], found["draw_1"][256:])[0, 1] < 0.9  # each block has its own noise
    if kind == "parquet":
        assert pq.ParquetFile("blocks.parquet").num_row_groups == 2


def test_errors_in_blocks_name_the_rows_of_the_file(here, monkeypatch):
    monkeypatch.setattr(predicting, "BLOCK_ROWS", 2)
    lines = ["x,y", "1,2", "1,2", "1,2", "1,old", "1,2"]
    (here / "bad.csv").write_text("\n".join(lines))
    found = call("predict", "run", "bad.csv", "--out", "bad-p.csv", code=1)
    assert "Column 'y' of the block of data rows 3 to 4 of the file bad.csv holds" in found.stderr
    (here / "bad.csv").write_text("\n".join([*lines[:4], "1,2,3"]))
    found = call("predict", "run", "bad.csv", "--out", "bad-p.csv", code=1)
    assert "bad.csv is not a regular table" in found.stderr
    assert "line 5 holds 3" in found.stderr
    assert not [*here.glob(".bad-p*"), *here.glob("bad-p*")]


@pytest.mark.parametrize("levels", ["", "0.5,", "0,0.5", "5", "half", "0.1,0.1"])
def test_invalid_levels_and_counts_are_errors(levels):
    with pytest.raises(SettingError, match=r"`--quantiles` takes different probabilities"):
        Columns.parse(levels, 0)
    with pytest.raises(SettingError, match=r"`--draws` must be at least 0, got -1"):
        Columns.parse(None, -1)


def test_levels_have_names_of_their_own():
    assert level_names((0.001, 0.025, 0.05, 0.5, 0.975)) == ["q00.1", "q02.5", "q05", "q50", "q97.5"]


def test_runs_with_similar_names_are_suggested_with_their_folder(here):
    (here / "2026").mkdir(exist_ok=True)
    (here / "run").rename(here / "2026" / "houses-run")
    try:
        for missing in ("hoses-run", "houses-run", "elsewhere/houses-run"):
            said = call("predict", missing, "table.csv", "--out", "n.csv", code=1).stderr
            assert said.endswith("creates one. Did you mean '2026/houses-run'?\n")
        assert "Did you mean" not in call("diagnose", "bikes", code=1).stderr
    finally:
        (here / "2026" / "houses-run").rename(here / "run")


def test_the_column_of_weights_is_expected_in_new_rows(tmp_path):
    frame = pd.DataFrame({"a": np.arange(20.0), "y": np.arange(20.0) ** 1.5, "w": np.tile([1.0, 2.0], 10)})
    preprocessing = from_table(frame, "y", weights="w", test_fraction=0.0).preprocessing
    frame.to_csv(tmp_path / "new.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = predicting._inputs(tmp_path / "new.csv", preprocessing, weights="w")
    assert found.shape == (20, 1)
    with pytest.warns(UserWarning, match="ignored: 'w'"):
        list(predicting._inputs(tmp_path / "new.csv", preprocessing, weights=None))
