"""From a person's table to the report, by the command; test_cli_counts.py tells the story of counts."""

import json

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.slow
SHORT = ["--hidden", "4", "--chains", "2", "--warmup", "60", "--draws", "60", "--kernel", "hmc"]


def test_a_clinical_table_with_missing_values(run_ergonet, tmp_path):
    """Semicolons, decimal commas, an identifier, and gaps that tell something themselves."""
    rng = np.random.default_rng(3)
    count = 200
    age, severity = rng.integers(20, 90, count), rng.normal(size=count)
    marker = np.where(rng.random(count) < 0.3, np.nan, (5 + 2 * severity + rng.normal(size=count)).round(2))
    smoker = np.where(rng.random(count) < 0.1, None, rng.choice(["yes", "no"], count))
    days = (10 + 0.1 * age + 3 * severity + 2 * (smoker == "yes") + rng.normal(size=count)).round(1)
    patients = pd.DataFrame(
        {
            "patient": [f"P{number:04}" for number in range(count)],
            "age": age,
            "marker": marker,
            "smoker": smoker,
            "days": days,
        }
    )
    patients.to_csv(tmp_path / "patients.csv.gz", index=False, sep=";", decimal=",")
    answer = run_ergonet(
        "fit",
        "patients.csv.gz",
        "--target",
        "days",
        "--types",
        "patient=identifier",
        *SHORT,
        "--no-baselines",
        "--out",
        "run",
    )
    assert answer.returncode == 0, answer.stderr
    assert "gzip, semicolons, decimal commas" in answer.stdout
    assert "missing entries become the median, and are marked" in answer.stdout
    test = json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]
    assert test["rmse"] < 0.9 * days.std()
    report = (tmp_path / "run" / "report.html").read_text()
    assert "marker" in report
    assert "missing entries become the median" in report
    new = pd.DataFrame({"patient": ["X1", "X2"], "age": [50, 70], "marker": [None, 5.0], "smoker": [None, "sometimes"]})
    new.to_csv(tmp_path / "new.csv", index=False)
    answer = run_ergonet("predict", "run", "new.csv", "--out", "predicted.csv")
    assert answer.returncode == 0, answer.stderr
    found = pd.read_csv(tmp_path / "predicted.csv")
    assert np.isfinite(found["mean"]).all()
    assert np.all(found["sd"] > 0)
    answer = run_ergonet(
        "fit", "patients.csv.gz", "--target", "days", "--types", "patient=identifier", "--missing", "refuse", *SHORT
    )
    assert answer.returncode == 1
    assert "'marker'" in answer.stderr


def test_an_imbalanced_classification(run_ergonet, tmp_path):
    """One row in ten is of the rare class, which the mean accuracy of a constant would hide."""
    rng = np.random.default_rng(5)
    count = 300
    amount, night = rng.lognormal(3, 1, count).round(2), rng.random(count) < 0.3
    log_odds = -4.5 + 2.2 * (np.log(amount) - 3) + 1.5 * night
    fraud = np.where(rng.random(count) < 1 / (1 + np.exp(-log_odds)), "fraud", "fine")
    table = pd.DataFrame({"amount": amount, "night": np.where(night, "yes", "no"), "label": fraud})
    assert 0.05 < np.mean(fraud == "fraud") < 0.2
    table.to_parquet(tmp_path / "payments.parquet")
    answer = run_ergonet("fit", "payments.parquet", "--target", "label", *SHORT, "--out", "run")
    assert answer.returncode == 0, answer.stderr
    assert "classification" in answer.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert "logistic regression" in json.dumps(metrics["baselines"])
    share = np.mean(fraud == "fraud")
    nll_of_a_constant = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert metrics["test"]["nll"] < nll_of_a_constant
    answer = run_ergonet("predict", "run", "payments.parquet", "--out", "predicted.parquet")
    assert answer.returncode == 0, answer.stderr
    found = pd.read_parquet(tmp_path / "predicted.parquet")
    assert "probability_fraud" in found
