"""The stand-in for an expensive program: its formula, its division, and its place among the built-in data sets."""

import numpy as np
import pytest

from ergonet import datasets
from ergonet._errors import SettingError
from ergonet.assembly.settings import resolve
from ergonet.cli.loading import load_data
from ergonet.datasets.physics import RANGES, sigma


def test_the_formula_is_that_of_the_docstring():
    m1, m2, mq, t1, t2 = 150.0, 420.0, 1100.0, 0.3, 0.9
    total = m1 + m2
    s, r = (1.1 * total) ** 2, total / 13000
    a, b = np.cos(t1) * np.cos(t2) / (s - 91.19**2), np.sin(t1) * np.sin(t2) / (s / 2 + mq**2)
    flux, beta = (1 - r) ** 10 * r**-2, np.sqrt(1 - total**2 / s)
    expected = 3.894e8 * 0.42**2 / (16 * np.pi) * beta * s * (a**2 + a * b + b**2) * flux * 1e-6
    assert sigma(np.array([[m1, m2, mq, t1, t2]]))[0] == pytest.approx(expected, rel=1e-12)


def test_rows_are_smooth_positive_and_cover_several_orders_of_magnitude():
    data = datasets.cross_section(5000, seed=3)
    low, high = np.array(list(RANGES.values())).T
    assert ((data.x >= low) & (data.x <= high)).all()
    assert (data.y > 0).all()
    assert np.ptp(np.log10(data.y)) > 4
    steps = 1e-4 * (high - low)
    for column, step in enumerate(steps):  # second differences of the logarithm are those of a smooth function
        beside = [np.log10(sigma(data.x[:100] + side * step * np.eye(5)[column])) for side in (-1, 0, 1)]
        assert np.abs(beside[0] - 2 * beside[1] + beside[2]).max() < 1e-5


def test_parts_are_80_5_and_15_percent_of_the_rows():
    data = datasets.cross_section(1000, seed=1)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [800, 50, 150]
    assert sorted(np.concatenate([data.train, data.validation, data.test]).tolist()) == list(range(1000))
    assert list(data.frame) == [*data.names, "sigma_pb"]
    np.testing.assert_array_equal(datasets.cross_section(1000, seed=1).x, data.x)
    assert (datasets.cross_section(1000, seed=2).x != data.x).any()
    assert all(len(part) for part in vars(datasets.cross_section(20)).values())


@pytest.mark.parametrize("settings", [{"n": 19}, {"n": True}, {"seed": -1}])
def test_numbers_out_of_range_are_refused(settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        datasets.cross_section(**{"n": 100, "seed": 0} | settings)


def test_the_command_learns_its_logarithm_unless_told_otherwise():
    by_default = resolve("cross-section", {}, {}).data
    assert by_default.target_transform == "log10"
    data = load_data(by_default, seed=0)
    assert (len(data.x_train), len(data.x_test)) == (3200, 600)
    points = datasets.cross_section(4000, 0)
    np.testing.assert_allclose(data.preprocessing.inverse_target(data.y_test)[:, 0], points.y[points.test], rtol=1e-5)
    plain = load_data(resolve("cross-section", {}, {"data": {"target_transform": "none"}}).data, seed=0)
    assert plain.preprocessing.target_transform is None
