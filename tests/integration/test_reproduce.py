"""`ergonet reproduce`: the contract of its files, its refusals, and the rules that verdicts are made by."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import experiments.kept
from ergonet._errors import SettingError
from ergonet._registry import Entry
from ergonet.cli import reproduce
from experiments import comparison, page, runner
from experiments.record import Case, Claim, Experiment, Quantity, Table, ratio_name
from experiments.registry import REPRODUCTIONS
from experiments.sizes import SIZES, Size

COMMAND = str(Path(sys.executable).with_name("ergonet"))
ROOT = Path(__file__).resolve().parents[2]
KEYS = ("name", "mode", "seconds", "rows", "verdict")
ROW_KEYS = ["label", "quantity", "ours", "error", "source"]
ERROR, SECONDS = Quantity("error, %", 2), Quantity("seconds")


@pytest.fixture
def ergonet(tmp_path):
    def run(*arguments, code=0):
        answer = subprocess.run(
            [COMMAND, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert answer.returncode == code, f"{arguments}: {answer.returncode}\n{answer.stdout}\n{answer.stderr}"
        assert "Traceback" not in answer.stderr
        return answer

    return run


def toy(offsets=(0.0, 5.0), sources=None):
    """An experiment that measures nothing: row i errs by i-th offset plus a tenth of the seed."""
    sources = sources or {}

    def case(number, offset):
        def measure(size: Size, seed: int):
            return {ERROR.name: 20.0 + offset + 0.1 * seed, SECONDS.name: 2.0 * (number + 1)}

        return Case(f"row {number}", measure, sources.get(number, {}))

    def judge(table):
        return [Claim("rows differ", comparison.none_differs(comparison.all_pairs(table, table.labels, ERROR)), "x")]

    return Experiment(
        name="toy",
        title="A toy",
        setting="Nothing.",
        cases=lambda size: [case(number, offset) for number, offset in enumerate(offsets)],
        groups={"Errors": (ERROR,), "Cost": (SECONDS,)},
        judge=judge,
        draw=lambda table, folder: {},
        reference="row 0",
        ratios=(SECONDS.name,),
    )


@pytest.fixture
def with_toy(monkeypatch):
    made = toy(sources={0: {ERROR.name: 23.4}, 1: {ERROR.name: 26.0, SECONDS.name: 9.0}})
    monkeypatch.setattr(REPRODUCTIONS, "load", lambda name: made)
    monkeypatch.setitem(REPRODUCTIONS.entries, "toy", Entry("experiments.record:toy", about="a toy"))
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REPRODUCTIONS.names()))
def test_the_smoke_run_of_every_reproduction_fulfils_the_contract(name, tmp_path):
    folder = tmp_path / "out"
    told = reproduce.run(name, mode="smoke", seeds=None, out=str(folder))
    record = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert set(KEYS) <= set(record)
    assert (record["name"], record["mode"]) == (name, "smoke")
    assert record["seconds"] > 0
    for row in record["rows"]:
        assert list(row) == ROW_KEYS
        assert math.isfinite(row["ours"]), row
        assert math.isfinite(row["error"]), row  # a smoke run has two seeds, so every error is known
        assert row["source"] is None or math.isfinite(row["source"])
    experiment, size = REPRODUCTIONS.load(name), SIZES["smoke"]
    found = {(row["label"], row["quantity"]): row["source"] for row in record["rows"]}
    for case in experiment.cases(size):
        for quantity, figure in case.source.items():
            assert found[case.label, quantity] == figure
    text = (folder / f"{name}.md").read_text(encoding="utf-8")
    assert "A smoke run" in text
    assert record["verdict"].endswith(".")
    assert re.search(r"[Ss]urvive|Undecided", record["verdict"])  # tables by width have one width in a smoke run
    shown = " ".join(text.replace("\n- **", "\n").replace("**:", ":").split())
    assert " ".join(record["verdict"].removeprefix(page.SMOKE).split()) in shown
    for case in experiment.cases(size):
        assert f"| {case.label} |" in text
    for quantity in {row["quantity"] for row in record["rows"]}:
        assert f"| {quantity.replace('|', chr(92) + '|')} |" in text
    pictures = sorted(path.name for path in folder.glob("*.png"))
    assert pictures
    assert all(f"]({picture})" in text for picture in pictures)
    assert record["verdict"] in told
    if name.startswith("lau-"):
        assert "single draws" in told


@pytest.mark.slow
def test_the_command_tells_its_progress_and_writes_its_files(ergonet, tmp_path):
    answer = ergonet("reproduce", "sghmc-phase", "--smoke", "--out", "out")
    assert "seed 2 of 2" in answer.stderr
    record = json.loads((tmp_path / "out" / "sghmc-phase.json").read_text(encoding="utf-8"))
    assert record["verdict"] in answer.stdout


def test_without_a_name_all_are_listed(ergonet):
    listed = ergonet("reproduce").stdout
    assert all(name in listed for name in REPRODUCTIONS.names())


def test_an_unknown_name_is_refused_with_the_known_ones(ergonet):
    answer = ergonet("reproduce", "lau-metrik", "--smoke", code=1)
    assert answer.stderr.startswith("Error: ")
    assert answer.stderr.count("\n") == 1
    assert "Did you mean 'lau-metric'" in answer.stderr
    assert all(name in answer.stderr for name in REPRODUCTIONS.names())


def test_an_old_name_of_a_reproduction_is_rejected_with_the_new_one():
    with pytest.raises(SettingError, match="`lau-committee` is `lau-ensemble` now"):
        reproduce.check("lau-committee")


def test_two_sizes_at_once_are_a_usage_error(ergonet):
    assert "at most" in ergonet("reproduce", "lau-metric", "--smoke", "--quick", code=2).stderr


def test_no_seeds_are_refused(ergonet):
    assert "--seeds" in ergonet("reproduce", "lau-metric", "--seeds", "0", code=1).stderr


def test_without_a_checkout_the_command_says_that_it_needs_one(tmp_path):
    with pytest.raises(reproduce.CheckoutError, match="needs a checkout"):
        reproduce.checkout(tmp_path)
    inside = ROOT / "docs" / "results"
    assert reproduce.checkout(tmp_path, inside) == ROOT


def test_figures_are_means_with_their_standard_errors_beside_the_source(with_toy, tmp_path):
    record = runner.reproduce("toy", SIZES["full"], tmp_path, lambda line: None)
    rows = {(row["label"], row["quantity"]): row for row in record["rows"]}
    row = rows["row 1", ERROR.name]
    assert row["ours"] == pytest.approx(25.1)
    assert row["error"] == pytest.approx(0.1 / math.sqrt(3))
    assert row["source"] == 26.0
    ratio = rows["row 1", ratio_name(SECONDS.name, "row 0")]
    assert (ratio["ours"], ratio["source"]) == (2.0, None)  # the document has no seconds of the reference
    text = (tmp_path / "toy.md").read_text(encoding="utf-8")
    assert "| row 1 | 25.10 \N{PLUS-MINUS SIGN} 0.06 | 26 |" in text


def test_one_seed_has_no_error_and_no_verdict(with_toy, tmp_path):
    record = runner.reproduce("toy", SIZES["full"].with_seeds(1), tmp_path, lambda line: None)
    assert {row["error"] for row in record["rows"]} == {None}
    assert "Undecided" in record["verdict"]


def test_what_is_not_finite_becomes_null(with_toy, tmp_path):
    values = {"row 0": {ERROR.name: [math.nan, 1.0]}, "row 1": {ERROR.name: [2.0, 3.0]}}
    about = {"mode": "full", "seconds": 60.0, "num_seeds": 2, "started": "then", "machine": "m", "versions": {}}
    runner.write(with_toy, SIZES["full"], values, about, tmp_path)
    record = json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"))
    assert record["values"]["row 0"][ERROR.name] == [None, 1.0]
    assert runner.rewrite("toy", tmp_path)["rows"][0]["ours"] == 1.0


def test_a_smaller_run_does_not_replace_a_full_result(with_toy, tmp_path):
    runner.reproduce("toy", SIZES["full"], tmp_path, lambda line: None)
    before = (tmp_path / "toy.json").read_text(encoding="utf-8")
    for mode in ("smoke", "quick"):
        with pytest.raises(runner.ResultError, match="must not replace"):
            runner.reproduce("toy", SIZES[mode], tmp_path, lambda line: None)
    assert (tmp_path / "toy.json").read_text(encoding="utf-8") == before


def test_an_interrupted_run_leaves_the_seeds_that_it_finished(with_toy, tmp_path):
    said = []

    def stop_in_the_second_round(line):
        said.append(line)
        if len(said) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("toy", SIZES["full"], tmp_path, stop_in_the_second_round)
    assert json.loads((tmp_path / "toy.json").read_text(encoding="utf-8"))["num_seeds"] == 1


@pytest.fixture
def measured(with_toy, monkeypatch):
    """The rows and seeds that the toy measures."""
    found, measure = [], runner.measured

    def noting(case, size, seed):
        found.append((case.label, seed))
        return measure(case, size, seed)

    monkeypatch.setattr(runner, "measured", noting)
    return found


def test_an_interrupted_run_goes_on_with_what_it_has_measured(measured, tmp_path):
    kept, size, said = tmp_path / "kept", SIZES["full"].with_seeds(2), []

    def stop_after_three(line):
        said.append(line)
        if len(said) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.reproduce("toy", size, tmp_path / "first", stop_after_three, kept=kept)
    continued = runner.reproduce("toy", size, tmp_path / "first", said.append, kept=kept)
    assert measured == [("row 0", 0), ("row 1", 0), ("row 0", 1), ("row 1", 1)]
    assert ["kept" in line for line in said[3:]] == [True, True, True, False]
    assert continued["values"] == runner.reproduce("toy", size, tmp_path / "second", said.append)["values"]


def test_seeds_can_be_added_to_a_run_but_not_to_that_of_another_size(measured, tmp_path):
    for size in (SIZES["full"].with_seeds(1), SIZES["full"].with_seeds(2), SIZES["quick"].with_seeds(1)):
        runner.reproduce("toy", size, tmp_path / size.mode, lambda line: None, kept=tmp_path / "kept")
    assert measured == [(f"row {row}", seed) for seed in (0, 1, 0) for row in (0, 1)]


def test_what_other_code_has_measured_is_measured_again(measured, tmp_path, monkeypatch):
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(experiments.kept, "ROOT", tmp_path)
    for code in ("a = 1", "a = 1", "a = 2"):
        (tmp_path / "src" / "one.py").write_text(code)
        runner.reproduce("toy", SIZES["full"].with_seeds(1), tmp_path, lambda line: None, kept=tmp_path / "kept")
    assert len(measured) == 4


def test_remarks_are_shown_only_for_the_run_that_they_are_about(with_toy, tmp_path, monkeypatch):
    remarks = tmp_path / "toy-remarks.md"
    monkeypatch.setattr(runner, "remarks_file", lambda experiment: remarks)
    record = runner.reproduce("toy", SIZES["full"], tmp_path, lambda line: None)
    remarks.write_text(f"Run of {record['started']}\n\nAll agrees.\n", encoding="utf-8")
    runner.rewrite("toy", tmp_path)
    assert "All agrees." in (tmp_path / "toy.md").read_text(encoding="utf-8")
    remarks.write_text("Run of 2001-01-01 00:00 UTC\n\nAll agrees.\n", encoding="utf-8")
    runner.rewrite("toy", tmp_path)
    text = (tmp_path / "toy.md").read_text(encoding="utf-8")
    assert "All agrees." not in text
    assert "are about another run" in text


def test_there_is_no_page_of_a_run_that_was_not_made(with_toy, tmp_path):
    with pytest.raises(runner.ResultError, match="Run without"):
        runner.rewrite("toy", tmp_path)


def table_of(**values):
    return Table({label: {ERROR.name: found} for label, found in values.items()}, {})


def test_real_differences_are_told_from_noise():
    table = table_of(a=[20.0, 20.2, 20.1], b=[20.1, 20.0, 20.3], c=[25.0, 25.2, 25.1])
    found = comparison.all_pairs(table, table.labels, ERROR)
    real = comparison.significant(found)
    assert real is not None
    assert {frozenset((one.first, one.second)) for one in real} == {frozenset("ac"), frozenset("bc")}
    assert comparison.none_differs(comparison.all_pairs(table, "ab", ERROR)) is True
    assert comparison.none_differs(found) is False


def test_the_rate_of_false_alarms_is_the_stated_one():
    random, alarms = np.random.default_rng(0), 0
    for _ in range(1000):
        table = table_of(**{label: list(random.normal(size=3)) for label in "abcd"})
        alarms += not comparison.none_differs(comparison.all_pairs(table, table.labels, ERROR))
    assert alarms <= 50 + 4 * math.sqrt(50)  # Bonferroni: at most 5 %
    assert alarms >= 10


def test_a_difference_has_its_sign_and_its_pooled_error():
    table = table_of(a=[1.0, 3.0], b=[6.0, 8.0])
    (found,) = comparison.differences(table, [("a", "b")], ERROR)
    assert found.value == -5.0
    assert found.error == pytest.approx(math.sqrt(2.0))
    assert found.show(ERROR) == "a minus b: -5.00 \N{PLUS-MINUS SIGN} 1.41"
    (ratio,) = comparison.differences(table, [("a", "b")], ERROR, math.log)
    assert ratio.value == pytest.approx(0.5 * math.log(3 / 48))


@pytest.mark.parametrize(
    ("answers", "expected"), [((True, True), True), ((True, None), None), ((None, False), False), ((), True)]
)
def test_every_answer_counts(answers, expected):
    assert comparison.every(answers) is expected


@pytest.mark.parametrize(("factor", "expected"), [(1.2, True), (0.75, False), (0.81, True), (math.nan, None)])
def test_about_the_same_is_a_factor_of_five_quarters(factor, expected):
    assert comparison.is_about_the_same(factor) is expected


@pytest.mark.parametrize("figures", [{}, {0: {ERROR.name: 23.4}}])
def test_a_page_has_a_column_of_the_document_where_that_has_a_figure(figures, tmp_path):
    experiment = toy(sources=figures)
    table = experiment.table(SIZES["full"], {"row 0": {ERROR.name: [1.0, 2.0]}})
    about = {"mode": "full", "seconds": 60.0, "num_seeds": 2, "started": "then", "machine": "m", "versions": {}}
    text = page.render(experiment, table, about | {"claims": ["c."], "size": "s"}, {}, tmp_path / "none.md")
    assert ("| document |" in text) == bool(figures)
