"""The benchmark on tables: splits are read, scores are right, and the page is made of kept results."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.page import describe
from benchmarks.uci import cells, results, tables
from benchmarks.uci.cells import Cell, Kept
from benchmarks.uci.contestants import CONTESTANTS
from benchmarks.uci.forms import learn_noise, learn_softening
from benchmarks.uci.scores import mixture_quantiles, score


def cell(contestant: str, table: str, split: int, nll: float) -> Cell:
    key = next(one for one in CONTESTANTS if one.name == contestant).key()
    scores = {"nll": nll, "rmse": 1.0, "coverage_90": 0.9, "error": 0.1, "calibration": 0.02}
    return Cell(contestant, table, split, key, {}, "2026-01-01", 100, 10.0, 8.0, scores)


def test_a_standard_split_is_read_by_its_indices(tmp_path: Path) -> None:
    folder = tmp_path / "uci" / "yacht"
    folder.mkdir(parents=True)
    files = {"data": "1 2 3\n4 5 6\n7 8 9\n", "index_features": "0\n2\n", "index_target": "1\n"}
    files |= {"index_train_3": "2.0\n0.0\n", "index_test_3": "1.0\n"}
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text)
    split = tables.load("yacht", 3, data=tmp_path)
    np.testing.assert_array_equal(split.x_train, [[7, 9], [1, 3]])
    np.testing.assert_array_equal(split.y_train, [8, 2])
    np.testing.assert_array_equal(split.x_test, [[4, 6]])
    with pytest.raises(FileNotFoundError, match="--data"):
        tables.load("energy", 0, data=tmp_path)


def test_scores_of_a_normal_distribution_and_of_the_same_as_a_mixture_agree() -> None:
    rng = np.random.default_rng(0)
    mean, truth = rng.standard_normal((2, 50))
    one = score({"means": mean[None], "sds": np.full((1, 50), 2.0)}, truth)
    two = score({"means": np.stack([mean, mean]), "sds": np.full((2, 50), 2.0)}, truth)
    assert one["nll"] == pytest.approx(np.mean(0.5 * ((truth - mean) / 2) ** 2 + np.log(2 * np.sqrt(2 * np.pi))))
    assert two["nll"] == pytest.approx(one["nll"]) == pytest.approx(two["nll_moments"])


def test_the_median_of_a_symmetric_mixture_is_its_center() -> None:
    found = mixture_quantiles(np.array([[-1.0], [3.0]]), np.ones((2, 1)))
    assert found[9, 0] == pytest.approx(1.0, abs=1e-6)
    assert (np.diff(found[:, 0]) > 0).all()


def test_forms_find_the_noise_and_the_temperature_that_made_the_rows() -> None:
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.5, 2, 4000)
    noise = learn_noise(rng.standard_normal(4000) * np.sqrt(0.5 + 2 * spread**2), spread)
    assert noise.sd(np.array([1.0]))[0] ** 2 == pytest.approx(2.5, rel=0.1)
    logits = rng.standard_normal(4000)
    classes = (rng.uniform(size=4000) < 1 / (1 + np.exp(-logits))).astype(int)
    sharp = 1 / (1 + np.exp(-3 * logits))
    assert learn_softening(np.stack([1 - sharp, sharp], 1), classes).temperature == pytest.approx(3, rel=0.15)


def test_the_page_is_made_of_kept_results_and_says_what_is_missing(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "cells")
    for split in range(5):
        kept.add(cell("linear", "yacht", split, 3.0))
        kept.add(cell("ergonet", "yacht", split, 2.0 + 0.1 * split))
    again = Kept(tmp_path / "cells")
    assert again.has(CONTESTANTS[0], "yacht", 4)
    about = describe("a command", quick=False, settings={})
    goals = results.write(tmp_path, again.newest(CONTESTANTS), CONTESTANTS, about=about)
    ridge = next(goal for goal in goals if "ridge" in goal.what)
    assert ridge.found.startswith("1 of 6")
    assert not ridge.is_met
    text = (tmp_path / "uci.md").read_text(encoding="utf-8")
    assert "0.800 (0.071)" in text
    assert "sklearn-contrib-bde, yacht: splits 0, 1, 2, 3, 4 not measured" in text
    published = Kept(tmp_path / "none", tmp_path / "uci.json")
    assert {one.place for one in published.cells} == {one.place for one in again.cells}


def test_a_result_of_the_present_version_counts_before_another(tmp_path: Path) -> None:
    kept, present = Kept(tmp_path), cell("linear", "yacht", 0, 3.0)
    kept.add(present)
    kept.add(replace(present, key="older", date="2027-01-01"))
    assert kept.newest(CONTESTANTS) == [present]


def test_further_splits_of_small_tables_are_shown_but_not_judged(tmp_path: Path) -> None:
    for_each = [("linear", 0.2), *((name, 0.3) for name in ("boosting", "mlp")), ("ergonet", 0.1)]
    judging = [cell(name, "breast-cancer", split, nll) for name, nll in for_each for split in range(5)]
    further = [cell("ergonet", "breast-cancer", 10, 9.0), cell("linear", "breast-cancer", 10, 0.2)]
    about = describe("a command", quick=False, settings={})
    goals = results.write(tmp_path, judging + further, CONTESTANTS, about=about)
    assert next(goal for goal in goals if goal.what.startswith("classes: log score")).found.startswith("1 of 5")
    judged, _, shown = (tmp_path / "uci.md").read_text(encoding="utf-8").partition("### Small tables")
    assert "| Ergonet | -0.100 (0.000) |" in judged
    assert "| Ergonet | -1.583 (1.483) [6] |" in shown
    assert "| ridge / logistic regression | -1.383 (1.483) [6] |" in shown  # ours minus theirs


def test_the_page_states_whether_our_draws_of_classes_are_sound(tmp_path: Path) -> None:
    found = {"max_rhat_function": 1.0126, "min_ess_bulk_function": 340.0, "divergences": 3}
    wine = [replace(cell("ergonet", "wine", split, 0.1), notes={"diagnostics": found}) for split in range(5)]
    results.write(tmp_path, wine, CONTESTANTS, about=describe("a command", quick=False, settings={}))
    text = (tmp_path / "uci.md").read_text(encoding="utf-8")
    for value in ("1.013 (0.000)", "340 (0)", "3.0 (0.0)"):
        assert f"| Ergonet | - | {value} | - | - | - |" in text


@pytest.mark.parametrize("diagnostics", [{"max_rhat_function": 1.01, "dim": 3}, None])
def test_a_result_of_ours_keeps_the_diagnostics_of_its_draws(tmp_path, monkeypatch, diagnostics) -> None:
    def timed(*_command, cwd: Path, **_settings) -> tuple[float, float, str]:
        (cwd / "run").mkdir()
        metrics = {"test": {"nll": 0.1}, "diagnostics": diagnostics}
        (cwd / "run" / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
        return 1.0, 1.0, ""

    monkeypatch.setattr(cells, "_timed", timed)
    ours = next(one for one in CONTESTANTS if one.is_ours)
    found = cells.measure(ours, "wine", 0, tables.load("wine", 0, data=None))
    assert found.notes["diagnostics"] == ({"max_rhat_function": 1.01} if diagnostics else {})
