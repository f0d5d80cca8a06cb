"""`ergonet fit` and an estimator with a kernel of minibatches: the run directory, its report and what is printed."""

import tomllib

import numpy as np
import pytest

from ergonet import SGHMC, BayesianClassifier
from ergonet.report import RunRecord

pytestmark = pytest.mark.slow  # the whole file
SETTINGS = """
[kernel]
name = "sghmc"
learning_rate = 1e-5
momentum_decay = 0.1
batch_size = 50
noise = {name = "estimated", every = 20}

[network]
hidden = [5]
"""


def test_digits_by_minibatches(run_ergonet, tmp_path):
    (tmp_path / "settings.toml").write_text(SETTINGS)
    arguments = ("--settings", "settings.toml", "--kernel", "sghmc", "--chains", "2", "--warmup", "30", "--draws", "20")
    answer = run_ergonet("fit", "digits", *arguments, "--no-baselines", "--out", "run", timeout=600)
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr
    assert "Kinetic temperature" in answer.stdout
    for word in ("Divergences", "E-BFMI"):
        assert word not in answer.stdout  # of trajectories
    run = tmp_path / "run"
    record = RunRecord.load(run)
    assert record.metrics["test"]["error"] < 0.6
    assert record.metrics["diagnostics"]["mean_kinetic_temperature"] > 0
    assert record.metrics["gradients"] == {"warmup": 600, "sampling": 400}
    assert record.stats["kinetic_temperature"].shape == (2, 20)
    assert (run / "report.html").stat().st_size > 10_000
    settings = tomllib.loads((run / "settings.toml").read_text())
    assert settings["kernel"]["name"] == "sghmc"
    assert settings["kernel"]["noise"] == {"name": "estimated", "every": 20}
    assert (settings["kernel"]["batch_size"], settings["kernel"]["temperature"]) == (50, 1.0)
    again = run_ergonet("fit", "--settings", "run/settings.toml", "--out", "again", timeout=600)
    assert again.returncode == 0, again.stderr
    np.testing.assert_array_equal(RunRecord.load(tmp_path / "again").stats["lp"], record.stats["lp"])
    assert "Kinetic temperature" in run_ergonet("diagnose", "run").stdout


def test_a_bad_setting_is_an_error_without_a_traceback(run_ergonet, tmp_path):
    (tmp_path / "settings.toml").write_text('[kernel]\nname = "sghmc"\nbatch_size = 501\nlearning_rate = 0.001\n')
    answer = run_ergonet("fit", "digits", "--settings", "settings.toml", "--draws", "5", timeout=600)
    assert answer.returncode != 0
    assert "`SGHMC(batch_size=501)` is more than the number of rows, 500" in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr


def test_an_estimator_takes_a_kernel_of_minibatches():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = np.where(x[:, 0] + x[:, 1] > 0, "up", "down")
    settings = {"hidden": (4,), "num_chains": 1, "num_warmup": 40, "num_draws": 30, "random_state": 0}
    table = {"name": "sghmc", "learning_rate": 0.001, "momentum_decay": 0.1, "batch_size": 50}
    by_table = BayesianClassifier(kernel=table, **settings).fit(x, y)
    assert by_table.score(x, y) > 0.85
    kernel = SGHMC(learning_rate=0.001, momentum_decay=0.1, batch_size=50)
    by_kernel = BayesianClassifier(kernel=kernel, **settings).fit(x, y)
    np.testing.assert_array_equal(by_table.predict_proba(x), by_kernel.predict_proba(x))
