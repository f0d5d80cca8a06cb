"""What a fitted estimator prints, half precision, and fewer networks."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import zarr

from ergonet import BayesianRegressor
from ergonet._errors import CapabilityError, SettingError
from ergonet.draws.stored import StoredArray
from ergonet.runs.directory import RunDirectory
from tests.runs import finish, write_killed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        finish(write_killed(folder))
    return folder


@pytest.fixture
def rows(folder):
    return pd.read_csv(folder / "table.csv")[["x", "y"]]


@pytest.fixture
def model(folder):
    return BayesianRegressor.load(folder / "run")


def facts_of(text):
    """The lines of a printed table by name, folded lines joined."""
    joined = re.sub(r"\n {5,}", " ", text)
    return dict(line.strip().split("  ", 1) for line in re.sub(r" {3,}", "  ", joined).split("\n")[1:])


def test_a_fitted_model_is_printed_as_a_table(model, folder):
    found = facts_of(str(model))
    assert found["network"] == "2-2-2, tanh, with biases, 12 weights"
    assert found["inputs"] == "2: x, y"
    assert found["target"] == "z"
    assert "divided by its training standard deviation" in found["preprocessing"]
    assert found["likelihood"].startswith("heteroscedastic-gaussian(")
    assert found["kernel"].startswith("nuts(")
    assert found["draws"] == "2 x 8 (chains x draws)"
    assert "versions" in found
    assert all(len(line) <= 100 for line in str(model).splitlines())
    assert facts_of(str(RunDirectory(folder / "run").read_fitted())) == found
    assert str(BayesianRegressor()) == repr(BayesianRegressor())


def test_half_precision_takes_half_the_room_and_states_its_loss(model, rows, tmp_path):
    half = BayesianRegressor.load(model.save(tmp_path / "half", precision="float16", X=rows))
    stored = zarr.open_array(str(tmp_path / "half" / "draws.zarr" / "positions"), mode="r")
    assert stored.dtype == np.float16
    assert half.samples_.positions.dtype == np.float32
    exact = np.asarray(model.samples_.positions[...])
    np.testing.assert_array_equal(half.samples_.positions[...], exact.astype(np.float16).astype(np.float32))
    loss = half.samples_.about["rounded"]
    (mean, sd), (new, _) = (one.predict(rows, return_std=True) for one in (model, half))
    assert loss["largest_mean"] == pytest.approx(np.max(np.abs(new - mean) / sd), rel=0.02)
    assert 0 < loss["largest_mean"] < 0.01
    assert facts_of(str(half))["precision"].startswith("float16: on 30 rows, means change by")
    assert BayesianRegressor.load(model.save(tmp_path / "whole")).samples_.about.get("rounded") is None


def test_what_half_precision_cannot_hold_is_refused(model, rows, tmp_path):
    large = np.asarray(model.samples_.positions[...]).copy()
    large[0, 0, 0] = 1e5
    model.samples_ = replace(model.samples_, positions=large)
    with pytest.raises(SettingError, match=r"has numbers up to 65504, but a draw has 100000"):
        model.save(tmp_path / "half", precision="float16", X=rows)
    with pytest.raises(SettingError, match=r"`precision` must be None or 'float16', got 'int8'"):
        model.save(tmp_path / "half", precision="int8", X=rows)
    assert not (tmp_path / "half").exists()


def test_a_loaded_model_needs_rows_to_measure_a_loss(model, tmp_path):
    with pytest.raises(CapabilityError, match=r"Pass rows like those that it will predict: `compress\(k, X=...\)`"):
        model.compress(3)
    with pytest.raises(CapabilityError, match=r"precision='float16', X=...\)`"):
        model.save(tmp_path / "half", precision="float16")


def test_a_compressed_model_is_saved_and_loaded_as_any_other(model, rows, tmp_path):
    few = model.compress(5, X=rows)
    assert few.samples_.num_draws <= 5
    assert model.samples_.num_draws == 8
    np.testing.assert_allclose(few.predict(rows), model.predict(rows), atol=0.2 * np.std(rows["x"] - rows["y"]))
    loaded = BayesianRegressor.load(few.save(tmp_path / "few"))
    for one, other in zip(few.predict(rows, return_std=True), loaded.predict(rows, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(few.predict_interval(rows), loaded.predict_interval(rows))
    assert facts_of(str(loaded))["draws"] == f"{few.samples_.num_draws} weighted ones of 2 x 8"


def test_draws_are_read_when_they_are_used_and_once(model, rows, tmp_path, monkeypatch):
    model.save(tmp_path / "saved")
    reads, read = [], StoredArray.__getitem__

    def watched(array, index):
        reads.append(array.name)
        return read(array, index)

    monkeypatch.setattr(StoredArray, "__getitem__", watched)
    model = BayesianRegressor.load(tmp_path / "saved")
    assert reads == []
    model.predict(rows)
    model.predict(rows[:3])
    assert reads == ["positions"]
