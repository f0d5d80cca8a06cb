"""`ergonet temper`: what it writes, and what it refuses before anything is sampled."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from ergonet._errors import SettingError
from ergonet.cli.main import app

FIT = ("--hidden", "2", "--kernel", "mala", "--chains", "2", "--warmup", "20", "--draws", "20", "--seed", "3")


def call(*arguments, code=0):
    answer = CliRunner().invoke(app, ["temper", *arguments])
    assert answer.exit_code == code, answer.output + answer.stderr
    return answer


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    frame = pd.DataFrame({"x": x, "y": 100 * np.sin(x) + 10 * rng.normal(size=80), "z": (x > 0).astype(int)})
    frame.to_csv("table.csv", index=False)
    return tmp_path


@pytest.mark.slow
def test_the_sweep_is_printed_and_written_in_units_of_the_table(table):
    more = ("--target", "y", "--drop", "z", "--likelihood", "gaussian", "--form", "likelihood", "--temperatures", "0.1")
    answer = call("table.csv", *more, *FIT, "--out", "page.html", "--table", "sweep.json")
    assert "16 held-out rows" in answer.stdout
    assert "With 16 rows the standard errors are rough." in answer.stdout
    assert "T = 0.1 (1 of 2): log score" in answer.stderr
    found = json.loads((table / "sweep.json").read_text(encoding="utf-8"))
    assert (found["form"], found["rows"]) == ("likelihood", 16)
    cold, one = found["temperatures"]
    assert (cold["temperature"], one["temperature"]) == (0.1, 1.0)
    assert cold["log_score_difference"] == pytest.approx(cold["log_score"] - one["log_score"])
    assert one["log_score_difference"] == one["log_score_difference_error"] == 0
    assert 5 < one["error"] < 150  # in units of y, whose sd is about 65
    assert -7 < one["log_score"] < -3.5
    page = (table / "page.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 3
    body = page.partition("</style>")[2]
    assert "var(--ink)" in body  # colors are those of the page, light or dark
    assert "#1f2430" not in body
    assert "RMSE" in page
    assert "the prior times the likelihood raised to 1 / T" in page


@pytest.mark.slow
def test_a_picture_and_a_csv_file_of_classes(table):
    more = ("--target", "z", "--drop", "y", "--temperatures", "0.3,3")
    call("table.csv", *more, *FIT, "--out", "sweep.png", "--table", "sweep.csv")
    found = pd.read_csv(table / "sweep.csv")
    assert found["temperature"].tolist() == [0.3, 1.0, 3.0]
    assert found["error"].between(0, 1).all()
    assert (table / "sweep.png").stat().st_size > 10_000
    call("table.csv", *more, *FIT, "--out", "sweep.png", code=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--form", "prior"), "`--form` must be 'posterior' or 'likelihood', got 'prior'"),
        (("--temperatures", "a"), "`--temperatures` must be numbers with commas, got 'a'"),
        (("--temperatures", "0.1,0"), "`temperature` must be a number above 0"),
        (("--out", "sweep.txt"), "must be a picture"),
        (("--table", "sweep.txt"), "`--table` must be a .csv or .json file"),
        (("--target", "y", "--test-fraction", "0"), "needs held-out rows"),
        (("--target", "y", "--out", "no/such/page.html"), "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(table, options, message):
    answer = call("table.csv", *options, code=1)
    assert message in answer.stderr
    assert answer.stderr.startswith("Error: ")
    assert answer.stderr.count("\n") == 1


def test_a_sweep_is_of_the_posterior_and_its_rule_judges_held_out_rows(table, monkeypatch):
    begun = []

    def sweep(jobs, **_):
        begun.extend(jobs.values())
        raise SettingError("begun")

    monkeypatch.setattr("ergonet.comparison.temperatures.sweep_of", sweep)
    rule = ("--until-score-mcse", "0.1", "--until-minimum", "4")
    answer = call("table.csv", "--target", "z", "--drop", "y", *rule, "--out", "page.html", code=1)
    assert "begun" in answer.stderr
    assert begun[0].arguments["until"].held_out.num_rows == 16
    assert begun[0].target.model.likelihood.temperature == 1.0
