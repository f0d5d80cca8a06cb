"""Boxes: what they contain, and which walls they refuse."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import ConstrainedHMC
from ergonet._errors import SettingError
from ergonet.hamiltonian.box import Box


def test_a_box_is_half_open_and_walls_may_be_infinite():
    box = Box([0.0, -np.inf], [1.0, 0.0])
    positions = np.array([[0.0, -1e9], [1.0, -1.0], [0.5, 0.0], [0.5, -1e-9], [-0.1, -1.0]])
    expected = [True, False, False, True, False]
    for found in (box.contains(positions), eqx.filter_jit(box.contains)(jnp.asarray(positions))):
        np.testing.assert_array_equal(found, expected)
    assert isinstance(box.contains(positions), np.ndarray)  # so nothing is compiled for another number of positions
    assert box.dim == 2


def test_a_number_is_the_wall_of_all_coordinates():
    np.testing.assert_array_equal(Box(-1, [1.0, np.inf]).lower, [-1.0, -1.0])
    assert bool(Box(-1, 1).contains(np.zeros(5)))
    assert "lower=-1.0" in repr(ConstrainedHMC(-1, 1))


@pytest.mark.parametrize(
    ("lower", "upper", "message"),
    [
        ([0.0, 2.0], [1.0, 2.0], "lower 2 and upper 2 in coordinate 1"),
        (3, 1, "lower 3 and upper 1"),
        ([0.0, np.nan], 1.0, "without NaN"),
        (np.zeros((2, 2)), 1.0, "Flatten"),
        ("low", 1.0, "must be a number"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], "got 2 and 3 walls"),
    ],
)
def test_walls_that_make_no_box_are_refused(lower, upper, message):
    with pytest.raises(SettingError, match=message):
        Box(lower, upper)
