"""Figures of trust against what normal numbers must give, and the report's block on them."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from ergonet import plots
from ergonet._errors import DataError, SettingError
from ergonet.datasets.domain import Domain
from ergonet.prediction.trust import (
    coverages,
    relative_errors,
    residual_figures,
    standardized_residuals,
    trust_figures,
)
from ergonet.report.predictions import section
from ergonet.report.record import RunRecord

LEVELS = (0.005, 0.05, 0.25, 0.5, 0.75, 0.95, 0.995)


def forecast(rows, spread=1.0, seed=0):
    """Normal predictions whose stated sd is that of the truth divided by `spread`."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(rows, 1)) + 20
    truth = mean + spread * 0.5 * rng.normal(size=(rows, 1))
    quantiles = mean + 0.5 * stats.norm.ppf(np.array(LEVELS))[:, None, None]
    return {"mean": mean, "sd": np.full((rows, 1), 0.5), "truth": truth, "quantiles": quantiles, "levels": LEVELS}


def test_errors_are_those_of_the_thesis():
    mean, sd, truth = np.array([[1.0], [3.0]]), np.array([[0.5], [2.0]]), np.array([[2.0], [-1.0]])
    np.testing.assert_array_equal(relative_errors(mean, truth), [[0.5], [4.0]])
    np.testing.assert_array_equal(standardized_residuals(mean, sd, truth), [[2.0], [-2.0]])


def test_residuals_of_a_right_model_are_within_chance_and_others_are_not():
    right, proud = (residual_figures(_residuals(forecast(4000, spread))) for spread in (1.0, 2.0))
    assert right.mean == pytest.approx(0, abs=4 / np.sqrt(4000))
    assert right.sd == pytest.approx(1, abs=4 / np.sqrt(8000))
    assert right.beyond_two == pytest.approx(0.0455, abs=0.014)
    assert right.distance < 3 * right.by_chance
    assert proud.sd == pytest.approx(2, abs=0.1)
    assert proud.beyond_three == pytest.approx(2 * stats.norm.sf(1.5), abs=0.03)
    assert proud.distance > 10 * proud.by_chance


def _residuals(one):
    return standardized_residuals(one["mean"], one["sd"], one["truth"])


def test_the_distance_is_that_of_kolmogorov_and_smirnov():
    rng = np.random.default_rng(1)
    samples = rng.normal(size=(400, 100))
    found = [residual_figures(one) for one in samples]
    for values, figures in zip(samples[:5], found, strict=False):
        assert figures.distance == pytest.approx(stats.kstest(values, "norm").statistic)
    assert np.mean([one.distance for one in found]) == pytest.approx(found[0].by_chance, rel=0.1)


def test_coverage_is_the_share_inside_with_its_interval():
    one = forecast(3000)
    found = {each.nominal: each for each in coverages(one["quantiles"], LEVELS, one["truth"])}
    assert list(found) == [0.5, 0.9, 0.99]
    for nominal, each in found.items():
        assert each.lower < nominal < each.upper
    few = coverages(one["quantiles"][1:-1], LEVELS[1:-1], one["truth"])
    assert [each.nominal for each in few] == [0.5, 0.9]


def test_figures_say_what_is_there():
    one = forecast(500) | {"usual": np.linspace(0, 1, 500)}
    found = trust_figures(one)
    assert found["coverage_99"] == pytest.approx(0.99, abs=0.02)
    assert found["outside"] == pytest.approx(0.01)
    assert found["relative_error"] < found["relative_error_90"] < 0.1
    at_zero = trust_figures(one | {"truth": np.zeros((500, 1)), "sd": np.zeros((500, 1))})
    assert not {"relative_error", "residual_sd"} & set(at_zero)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: relative_errors(np.ones((2, 1)), np.array([[1.0], [0.0]])), "row 1"),
        (lambda: relative_errors(np.ones((2, 1)), np.ones((3, 1))), "same shape"),
        (lambda: standardized_residuals(np.ones((2, 1)), np.zeros((2, 1)), np.ones((2, 1))), "above 0"),
        (lambda: residual_figures([1.0]), "at least two"),
        (lambda: coverages(np.ones((2, 3, 1)), LEVELS, np.ones((3, 1))), "quantiles"),
        (lambda: Domain.of(np.ones((4, 2))), "at least 6"),
        (lambda: Domain.of(np.full((9, 2), np.nan)), "finite"),
        (lambda: Domain.of(np.random.default_rng(0).normal(size=(9, 2))).score(np.ones((1, 3))), "has 3 inputs"),
    ],
)
def test_what_cannot_be_judged_is_refused(call, said):
    with pytest.raises(DataError, match=said):
        call()


def test_neighbors_are_counted_from_one():
    with pytest.raises(SettingError, match="neighbors"):
        Domain.of(np.ones((9, 2)), neighbors=0)


def test_rows_from_the_same_place_are_usual_and_joint_outliers_are_not():
    rng = np.random.default_rng(2)
    angle = rng.uniform(0, 2 * np.pi, 2000)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(2000, 2))
    domain = Domain.of(ring[:1000])
    scores = domain.score(ring[1000:])
    assert stats.kstest(scores, "uniform").statistic < 0.08
    middle = domain.score(np.array([[0.0, 0.0], [0.9, 0.9], [1.0, 0.0]]))  # each input alone is within its range
    assert (middle[:2] == 1 / 1001).all()
    assert middle[2] > 0.05


def test_many_rows_are_thinned_to_bounded_numbers():
    rng = np.random.default_rng(3)
    assert len(Domain.of(rng.normal(size=(4000, 20))).own) == 3000
    assert len(Domain.of(rng.normal(size=(4000, 2))).own) == 4000


def test_the_report_has_the_picture_and_the_table():
    one = forecast(60) | {"usual": np.linspace(0, 1, 60)}
    found = section(RunRecord(settings={}, metrics={}, evaluation=one))
    (target,) = found["targets"]
    picture = next(entry for entry in target["pictures"] if "normal distribution" in entry.title)
    assert "4.6 %" in picture.caption
    names = [line["name"] for line in found["trust"]]
    assert [name for name in names if "interval" in name] == [
        f"true values inside the {nominal} % interval" for nominal in (50, 90, 99)
    ]
    assert {"relative error", "rows unlike the training rows"} < set(names)
    assert not any("rounded" in line["meaning"] for line in found["trust"])
    whole = one | {"truth": np.round(one["truth"])}
    (fifty, *_) = section(RunRecord(settings={}, metrics={}, evaluation=whole))["trust"]
    assert fifty["meaning"].endswith("; for whole or rounded numbers, even correct intervals contain more")


def test_the_picture_contains_every_row():
    axes = plots.residual_histogram(np.concatenate([np.zeros(50), [40.0, -40.0]]))
    patches: Any = axes.patches
    bars = [patch.get_height() * patch.get_width() for patch in patches]
    assert sum(bars) == pytest.approx(1)
    assert bars[0] == bars[-1] == pytest.approx(1 / 52)
    assert plots.residual_histogram([]).texts
