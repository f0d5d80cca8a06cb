"""The report names the points where chains agree least, and says what lies between the chains."""

from dataclasses import replace

import numpy as np
import pytest

from ergonet.report import function_space, mixing
from tests.report_records import classification_record, regression_record


def with_points(record, *, apart=0.0, **more):
    """Ten rows of two outputs, of which chain 0 predicts the second output of the fourth row differently."""
    values = np.random.default_rng(0).normal(size=(4, 200, 20))
    values[0, :, 13] += apart
    named = {"function_draws": values, "reference_rows": np.arange(10) * 7 + 300} | more
    return replace(record, evaluation={**record.evaluation, **named})


def test_the_worst_point_is_named_with_its_row_and_its_farthest_input():
    inputs = np.array([f"age +{row}.0 sd" for row in range(10)])
    record = with_points(regression_record(targets=2), apart=3.0, reference_inputs=inputs)
    found = function_space.table(record)
    assert found is not None
    worst = dict(zip(found["names"], found["rows"][0], strict=True))
    assert worst["prediction"] == "row 321, weight (scaled)"
    assert worst["farthest input"] == "age +3.0 sd"
    assert float(worst["R-hat"]) > 1.2
    assert float(worst["bulk ESS"]) < 20
    between = 9 * 3 / 16  # of one chain of four that is 3 away
    assert int(worst["variance between chains"].split()[0]) == pytest.approx(100 * between / (1 + between), abs=3)
    assert len({row[0].partition(",")[0] for row in found["rows"]}) == len(found["rows"]) == 8  # of each row the worst


def test_names_are_those_of_the_outputs():
    monitored = function_space.Monitored.of(with_points(classification_record()))
    assert monitored is not None
    assert monitored.names[13] == "row 321, log probability of 1"
    noisy = with_points(regression_record())
    noisy = replace(noisy, settings={"likelihood": {"name": "heteroscedastic-gaussian"}})
    monitored = function_space.Monitored.of(noisy)
    assert monitored is not None
    assert monitored.names[3] == "row 321, progression (scaled)"
    assert monitored.names[13] == "row 321, log precision of progression"
    untested = replace(noisy, metrics={**noisy.metrics, "num_test": 0})
    monitored = function_space.Monitored.of(untested)
    assert monitored is not None
    assert monitored.names[3].startswith("training row 321,")
    unknown = function_space.Monitored.of(with_points(regression_record(), reference_rows=np.arange(7)))
    assert unknown is not None
    assert unknown.names[13] == "prediction 13"


def test_the_map_says_how_much_lies_between_the_chains():
    record, values = regression_record(), np.random.default_rng(0).normal(size=(4, 200, 12))
    shifts = np.array([0.0, 0.0, 3.0, 3.0])[:, None, None]
    for draws, share, said in (
        (values, "below 1 %", "Monte Carlo errors explain how much their means differ"),
        (values + shifts, f"{100 * 9 / 13:.0f} %", "they are in different parts of the posterior"),
    ):
        monitored = function_space.Monitored.of(replace(record, evaluation={"function_draws": draws}))
        assert monitored is not None
        caption = function_space.pictures(monitored)[-1].caption
        assert said in caption
        assert f"Between the chains lies {share} of the variance of a typical prediction." in caption
    constant = function_space.Monitored.of(
        replace(record, evaluation={"function_draws": np.ones_like(values) * shifts})
    )
    assert constant is not None
    caption = function_space.pictures(constant)[-1].caption  # chains that stand still have no Monte Carlo errors
    assert "Between the chains lies 100 % of" in caption
    assert "Monte Carlo errors" not in caption
    alone = function_space.Monitored.of(replace(record, evaluation={"function_draws": values[:1]}))
    assert alone is not None
    assert [one.title for one in function_space.pictures(alone)][1:] == ["Where do the chains agree least?"]


def test_what_is_left_out_may_be_constant_or_not_finite():
    values = np.random.default_rng(0).normal(size=(4, 200, 12))
    values[0, 0, 3], values[:, :, 4] = np.nan, 1.0
    monitored = function_space.Monitored.of(replace(regression_record(), evaluation={"function_draws": values}))
    assert monitored is not None
    assert "2 predictions left out (constant or not finite)." in function_space.pictures(monitored)[0].caption


def test_pictures_leave_chains_of_weight_0_out():
    record, values = regression_record(), np.random.default_rng(0).normal(size=(4, 200, 12))
    weights = np.array([0.0, 1.0, 2.0, 1.0])[:, None].repeat(200, axis=1)
    weighted = replace(record, evaluation={"function_draws": values}, stats={"lp": values[..., 0], "weight": weights})
    ranks = [one for one in mixing.pictures(weighted) if "Ranks" in one.title]
    assert len(ranks) == 2
    assert all(one.alternative.endswith("one strip for each of 3 chains.") for one in ranks)
