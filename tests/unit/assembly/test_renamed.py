"""Settings of older versions are read as those of today, or rejected with what to do."""

import dataclasses
import json

import numpy as np
import pytest

from ergonet import BayesianRegressor, priors
from ergonet._errors import RunDirectoryError
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.renamed import translate
from ergonet.assembly.settings import resolve
from ergonet.assembly.settings_file import read_settings_file
from ergonet.datasets import from_table
from ergonet.runs.directory import DRAWS, PREPROCESSING, SETTINGS, RunDirectory
from ergonet.samplers.gibbs_hmc import GibbsHMC
from ergonet.samplers.nuts import NUTS
from ergonet.trajectory.criterion import Generalized
from tests.saved import save_as_version_2

OLD = """
[data]
source = "table.csv"

[prior."*.weight"]
name = "normal-gamma"
parametrisation = "centered"

[prior."*.bias"]
name = "normal"

[kernel]
name = "gibbs"
update = {name = "nuts", criterion = "generalised", max_doublings = 6}
"""


def test_a_settings_file_of_an_older_version_is_translated(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text(OLD)
    settings = resolve(None, read_settings_file(file), {})
    task = Task("regression", 3, 1, (1.0,))
    weights = build.prior(settings.prior, task, settings.network)
    assert isinstance(weights, dict)
    assert weights["*.weight"] == priors.NormalGamma(parametrization="centered")
    kernel = build.kernel(settings)
    assert isinstance(kernel, GibbsHMC)
    update = kernel.update
    assert isinstance(update, NUTS)
    assert isinstance(update.trajectory.criterion, Generalized)
    assert update.max_doublings == 6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"data": {"one_hot": True, "source": "a"}}, {"data": {"one_hot_limit": 65536, "source": "a"}}),
        ({"data": {"one_hot": False}}, {"data": {}}),
        ({"criterion": "generalised"}, {"criterion": "generalized"}),
        ({"criterion": {"name": "generalised"}}, {"criterion": {"name": "generalized"}}),
        ({"criterion": "original"}, {"criterion": "original"}),
        ({"below": [{"group": "weight"}], "scale": 2.0}, {"below": [{"group": "weight"}], "scale": 2.0}),
        ({"target": ["generalised", "parametrisation"]}, {"target": ["generalised", "parametrisation"]}),
    ],
)
def test_only_names_of_settings_are_translated(old, new):
    assert translate(old) == new


@pytest.fixture
def run(tmp_path):
    """The settings of a run, without draws."""
    import pandas as pd

    frame = pd.DataFrame({"a": np.arange(10.0), "y": np.arange(10.0) ** 2})
    dataset = from_table(frame, "y", task="regression")
    directory = RunDirectory(tmp_path)
    (tmp_path / DRAWS).mkdir()
    settings = resolve("t.csv", {}, {"kernel": {"name": "nuts"}})
    directory.write_settings(build.complete(settings, dataset.preprocessing), dataset.preprocessing)
    return directory


def test_a_run_of_an_older_version_is_read(run):
    file = run.path / SETTINGS
    settings, preprocessing = run.read_settings()
    (run.path / "manifest.json").unlink()  # that version wrote one at the end only
    file.write_text(file.read_text().replace('"generalized"', '"generalised"'))
    assert "generalised" in file.read_text()
    assert run.read_settings()[0] == settings
    assert (run.path / PREPROCESSING).exists()
    assert dataclasses.asdict(preprocessing)["task"] == "regression"


def test_a_run_with_an_unknown_setting_says_what_to_do(run):
    file = run.path / SETTINGS
    (run.path / "manifest.json").unlink()
    file.write_text(file.read_text().replace("[network]", "[network]\nlayers = 3"))
    with pytest.raises(
        RunDirectoryError, match=r"another version of Ergonet: \[network\] has no setting `layers`.*fit again"
    ):
        run.read_settings()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
def test_a_saved_estimator_of_an_older_version_is_loaded(tmp_path):
    x = np.random.default_rng(0).normal(size=(20, 2))
    prior = {"name": "normal-gamma", "parametrization": "centered"}
    short = {"num_chains": 1, "num_warmup": 2, "num_draws": 4, "random_state": 0}
    kernel = {"name": "hmc", "num_steps": 2}
    fitted = BayesianRegressor(hidden=(3,), prior=prior, likelihood="gaussian", kernel=kernel, **short)
    fitted.fit(x, x[:, 0])
    file = save_as_version_2(fitted, tmp_path / "model")
    file.write_text(file.read_text().replace("parametrization", "parametrisation"))
    assert "parametrisation" in json.loads(file.read_text())["parameters"]["prior"]
    loaded = BayesianRegressor.load(tmp_path / "model")
    assert loaded.prior == prior
    assert np.array_equal(loaded.predict(x), fitted.predict(x))
