"""From a table of counts with categories to a report, by the command; and weights of rows."""

import json
import re

import numpy as np
import pandas as pd
import pytest

pytestmark = pytest.mark.slow
SHORT = ["--hidden", "4", "--chains", "2", "--warmup", "60", "--draws", "60", "--kernel", "hmc", "--no-baselines"]


def bikes(path, count=240):
    """Rides by time, weather and kind of day, more variable than Poisson."""
    rng = np.random.default_rng(7)
    hour, weather = rng.integers(0, 24, count), rng.choice(["clear", "mist", "rain"], count)
    day = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90, count), unit="D")
    time = day + pd.to_timedelta(hour, unit="h")
    is_holiday, quality = rng.random(count) < 0.2, rng.choice([0.0, 1.0, 2.0], count)
    level = 3 + np.sin((hour - 8) / 24 * 2 * np.pi) - 0.8 * (weather == "rain") - 0.4 * is_holiday
    rides = rng.negative_binomial(4, 4 / (4 + np.exp(level)))
    table = {
        "time": time.astype(str),
        "weather": weather,
        "holiday": is_holiday.astype(int),
        "quality": quality,
        "rides": rides,
    }
    pd.DataFrame(table).to_csv(path, index=False)


def test_counts_go_from_a_table_to_a_report(run_ergonet, tmp_path):
    bikes(tmp_path / "bikes.csv")
    data = ["bikes.csv", "--target", "rides", "--weights", "quality", "--types", "time=date"]
    answer = run_ergonet("fit", *data, "--task", "count", *SHORT, "--out", "run")
    assert answer.returncode == 0, answer.stderr
    assert "count, 129 training rows" in answer.stdout
    assert re.search(r"^  weight +quality$", answer.stdout, re.MULTILINE)
    assert "Test deviance" in answer.stdout
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    test = metrics["test"]
    assert metrics["task"] == "count"
    assert {"rmse", "mae", "deviance", "crps", "nll", "calibration", "coverage_90"} <= set(test)
    assert 0.7 < test["coverage_90"] <= 1
    assert test["crps"] < test["mae"] * 1.05
    assert 'name = "negative-binomial"' in (tmp_path / "run" / "settings.toml").read_text()
    report = (tmp_path / "run" / "report.html").read_text()
    assert "Are the stated distributions right?" in report
    assert "Poisson deviance" in report
    answer = run_ergonet("predict", "run", "bikes.csv", "--out", "new.csv")
    assert answer.returncode == 0, answer.stderr
    found = pd.read_csv(tmp_path / "new.csv")
    assert np.all(found["q05"] == np.floor(found["q05"]))
    assert np.all(found["q05"] <= found["q95"])
    assert np.corrcoef(found["mean"], pd.read_csv(tmp_path / "bikes.csv")["rides"])[0, 1] > 0.4


def test_what_is_no_count_or_no_weight_is_named(run_ergonet, tmp_path):
    bikes(tmp_path / "bikes.csv")
    table = pd.read_csv(tmp_path / "bikes.csv")
    table["rides"] = table["rides"].astype(float)
    table.loc[5, "rides"] = 2.5
    table.loc[8, "quality"] = -1.0
    table.to_csv(tmp_path / "bad.csv", index=False)
    data = ["bad.csv", "--target", "rides", "--types", "time=date"]
    answer = run_ergonet("fit", *data, "--likelihood", "poisson", *SHORT)
    assert answer.returncode == 1
    assert "Column 'rides' of the table has 2.5 at data row 6" in answer.stderr
    answer = run_ergonet("fit", *data, "--weights", "quality", *SHORT)
    assert answer.returncode == 1
    assert "Column 'quality' of weights has -1 at data row 9" in answer.stderr
