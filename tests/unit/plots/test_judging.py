"""Pictures of the transform, of risk by coverage, and of named quantities hold what they are drawn from."""

import numpy as np
import pytest

from ergonet import plots
from ergonet._errors import SettingError
from ergonet.plots import canvas
from ergonet.prediction.ecdf import transform_curve
from ergonet.prediction.selective import risk_coverage


def test_the_transform_is_red_where_the_model_is_wrong():
    values = (np.arange(200) + 0.5) / 200
    for transform, color in ((values, canvas.SERIES[0]), (values**2, canvas.BAD)):
        curve = transform_curve(transform)
        line, zero = plots.transform_curve_plot(curve).lines
        assert line.get_color() == color
        np.testing.assert_allclose(np.asarray(line.get_ydata()), curve.fraction - curve.points)
        assert set(np.asarray(zero.get_ydata()).tolist()) == {0}


def test_risk_is_drawn_against_the_share_of_rows():
    curve = risk_coverage(np.array([1.0, 2.0, 3.0]), np.array([0.0, 1.0, 1.0]))
    axes = plots.risk_plot(curve)
    np.testing.assert_allclose(np.asarray(axes.lines[0].get_ydata()), [0, 1 / 2, 2 / 3])


@pytest.mark.slow
def test_named_quantities_are_drawn_without_a_window():
    pytest.importorskip("arviz_plots")
    from matplotlib import pyplot as plt

    rng = np.random.default_rng(0)
    draws = {"noise": rng.normal(size=(2, 30)), "scale": rng.normal(size=(2, 30, 2))}
    assert len(plots.trace_plot(draws)) >= 3
    assert plots.forest_plot(draws)
    assert len(plots.pair_plot(draws)) >= 3
    assert plots.predictive_plot(rng.normal(size=(2, 30, 12)), rng.normal(size=12))
    assert not plt.get_fignums()


def test_too_many_quantities_and_wrong_shapes_are_refused():
    with pytest.raises(SettingError, match="41 numbers"):
        plots.trace_plot({"a": np.zeros((2, 3, 41))})
    with pytest.raises(SettingError, match=r"\[chain, draw, ...\]"):
        plots.forest_plot({"a": np.zeros(3)})
    with pytest.raises(SettingError, match=r"`observed` \[row\]"):
        plots.predictive_plot(np.zeros((2, 3, 4)), np.zeros(5))
