"""The picture of a temperature sweep."""

import math
from typing import Any

import numpy as np
import pytest

from ergonet import plots
from ergonet.comparison.scored import QUANTITIES, Figure, HeldOutScores
from ergonet.comparison.temperatures import TemperatureSweep
from ergonet.plots import canvas


def sweep(*shifts):
    """Scores of 400 rows that differ by these from the first, whose temperature is 1; at 1, 2, ..."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=400)
    scores = []
    for shift in shifts:
        rows = base + shift + 0.1 * rng.normal(size=400)
        figure = Figure(float(rows.mean()), rows)
        figures: dict[str, Figure] = dict.fromkeys(QUANTITIES, figure)
        scores.append(HeldOutScores(figures, "RMSE", 0.01, 400, 4, math.nan, 0))
    return TemperatureSweep(tuple(float(one) for one in range(1, len(shifts) + 1)), tuple(scores))


@pytest.mark.parametrize(("quantity", "better"), [("log_score", 0.5), ("error", -0.5)])
def test_noise_is_gray_and_the_direction_of_a_score_is_known(quantity, better):
    axes = plots.temperature_plot(sweep(0.0, better, -better, 0.0), quantity)
    _, labels = axes.get_legend_handles_labels()
    assert labels == ["the posterior", "noise", "better", "worse"]
    drawn: Any = {one.get_label(): one for one in axes.containers}
    assert drawn["better"].lines[0].get_color() == canvas.GOOD
    assert drawn["noise"].lines[0].get_color() == canvas.MUTED
    assert list(drawn["better"].lines[0].get_xdata()) == [2.0]
    assert "minus T = 1" in axes.get_ylabel()


def test_one_temperature_is_a_picture_too():
    axes = plots.temperature_plot(sweep(0.0))
    assert axes.get_legend_handles_labels()[1] == ["the posterior"]
