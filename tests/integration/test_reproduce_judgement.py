"""The parts of `lau-waic` and `cold-posteriors` that figures rest on: pairs of rows, labels, verdicts."""

import numpy as np
import pytest

from ergonet import datasets
from experiments.lau2018 import digits, waic
from experiments.record import Table
from experiments.sizes import SIZES
from experiments.wenzel2020 import cold


def waic_table(of_units, *, held=None, other_labels=1.0):
    """WAIC by units as given; all else is that of widths that predict alike, unless `held` says otherwise."""
    values = {}
    for units in waic.WIDTHS:
        printed, error = waic.PRINTED.get(units, (2e4, 25.0))
        score = -0.3 if held is None else held(units)
        found = {
            waic.RIGHT: of_units(units),
            waic.OTHER_LABELS: other_labels * printed,
            waic.OTHER_INPUTS: printed,
            waic.PRIOR: printed,
            waic.LOO: score - 1e-3 * units,
            waic.WAIC: score - 1e-3 * units,
            waic.HELD: score,
            digits.SINGLE: error,
            digits.SINGLE_SD: 2.5,
            digits.PREDICTIVE: 9.0,
        }
        if units == waic.REFERENCE:
            found |= {waic.CROSS: score, waic.CROSS_APART: -0.035, waic.CROSS_ERROR: 0.01}
        for one in waic.CRITERIA if units != waic.REFERENCE else ():
            found |= {waic.APART[one]: found[one] - (-0.3 if held is None else held(35)), waic.APART_ERROR[one]: 0.01}
        values[waic.label(units)] = {quantity.name: [value] * 2 for quantity, value in found.items()}
    sources = {waic.label(units): {digits.SINGLE.name: error} for units, (_, error) in waic.PRINTED.items()}
    return Table(values, sources)


def verdicts(experiment, table):
    return [claim.survives for claim in experiment.judge(table)]


def test_the_printed_waic_makes_the_conclusion_survive_and_a_constant_one_does_not():
    assert verdicts(waic, waic_table(lambda units: 871.0 * units))[0] is True
    assert verdicts(waic, waic_table(lambda units: 150.0))[0] is False


def test_figures_of_other_labels_are_those_of_the_thesis_within_a_quarter():
    assert [verdicts(waic, waic_table(lambda units: 1.0, other_labels=one))[1] for one in (1, 0.9, 0.7)] == [
        True, True, False,
    ]  # fmt: skip


def test_a_choice_is_good_within_the_noise_of_held_out_rows():
    alike = verdicts(waic, waic_table(lambda units: 1.0))
    assert alike[2:7] == [None, True, True, False, False]  # LOO falls with the units, and held-out rows do not
    apart = verdicts(waic, waic_table(lambda units: 1.0, held=lambda units: -0.3 + 9e-4 * units))
    assert apart[2:5] == [True, False, False]  # 35 or 5 units are chosen, and 90 predict better than the noise


def test_differences_from_the_reference_are_paired(monkeypatch):
    rng, base = np.random.default_rng(0), np.random.default_rng(1).normal(size=200)
    rows = {units: base + 0.1 * rng.normal(size=200) + 0.01 * units for units in waic.WIDTHS}
    made = {units: waic.Scored({}, dict.fromkeys(waic.CRITERIA, one)) for units, one in rows.items()}
    monkeypatch.setattr(waic, "scored", lambda units, size, seed: made[units])
    found = waic.measure(90, SIZES["smoke"], 0)
    assert found[waic.APART[waic.LOO].name] == pytest.approx(np.mean(rows[90] - rows[35]))
    assert found[waic.APART_ERROR[waic.LOO].name] == pytest.approx(np.std(rows[90] - rows[35], ddof=1) / np.sqrt(200))
    assert waic.measure(35, SIZES["smoke"], 0) == {}


@pytest.mark.slow
def test_other_labels_are_scored_with_the_draws_as_they_are():
    samples = digits.Run("", waic.NUTS(target_acceptance=0.8), hidden=(2,)).sample(SIZES["smoke"], 0)
    held = digits.data()
    x = np.asarray(held.x_train, np.float32)
    right, wrong = (waic.deviance(samples, x, y) for y in (held.y_train, held.y_test))
    assert right == pytest.approx(-2 * waic.comparison.waic(samples).value)
    assert wrong > right + 500
    prior = waic.from_prior(samples, (2,), 0)
    assert prior.positions.shape == samples.positions.shape
    assert np.std(prior.positions) == pytest.approx(1, abs=0.05)


def cold_table(gain, error):
    values = {}
    for problem, temperature, form in cold.rows(SIZES["full"]):
        found = {cold.SCORE: -1.0}
        if temperature != 1:
            found |= {cold.APART["log_score"]: gain if temperature < 1 else -0.1, cold.APART_ERROR["log_score"]: error}
        values[cold.label(problem, temperature, form)] = {one.name: [value] * 2 for one, value in found.items()}
    return Table(values, {})


@pytest.mark.parametrize(
    ("gain", "error", "expected"), [(0.1, 0.01, True), (-0.1, 0.01, False), (0.01, 0.02, None), (0.001, 1e-4, False)]
)
def test_a_cold_posterior_is_better_worse_or_undecided(gain, error, expected):
    assert set(verdicts(cold, cold_table(gain, error))) == {expected}


def test_every_problem_has_one_row_at_temperature_one_and_the_stated_rows():
    labels = [case.label for case in cold.cases(SIZES["full"])]
    assert len(set(labels)) == len(labels) == 36
    assert sum("T = 1" in one for one in labels) == 4
    for problem in cold.PROBLEMS:
        data = datasets.load(problem.name, test_fraction=cold.TEST_SHARE, seed=0)
        assert len(data.y_test) == problem.num_rows
