"""Cuts from a pilot run go between the modes, in the coordinates that tell them apart."""

import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import Target, partition
from ergonet._errors import SettingError

TARGET = Target.from_logdensity(lambda q: -jnp.sum(q**2), jnp.zeros(4))
SCALES = np.array([1.0, 100.0, 0.01, 1.0])


def modes(*centers):
    rng = np.random.default_rng(3)
    return np.stack([SCALES * (rng.normal(size=(90, 4)) + np.asarray(center)) for center in centers])


def test_two_modes_are_cut_apart_in_the_coordinate_in_which_they_differ():
    pilot = modes([0, 0, -5, 0], [0, 0, 5, 1])
    parts = partition.split_by_clusters(TARGET, pilot, seed=1)
    ((coordinate, (cut,)),) = parts.cuts.items()
    assert coordinate == 2
    assert pilot[0, :, 2].max() < cut < pilot[1, :, 2].min()
    assert parts.cuts == partition.split_by_clusters(TARGET, pilot, seed=1).cuts


@pytest.mark.slow
def test_four_modes_take_two_coordinates():
    pilot = modes([-5, 0, 0, -5], [-5, 0, 0, 5], [5, 0, 0, -5], [5, 0, 0, 5])
    parts = partition.split_by_clusters(TARGET, pilot, 2, seed=1)
    assert set(parts.cuts) == {0, 3}
    assert [set(parts.part_of(mode)) for mode in pilot] == [{0}, {1}, {2}, {3}]


@pytest.mark.slow
def test_a_second_cut_adds_to_the_first():
    """Three modes in a triangle: no single coordinate tells them apart, and the best two are chosen."""
    pilot = modes([-5, 0, 0, 0], [5, 0, 0, -5], [5, 0, 0, 5])
    parts = partition.split_by_clusters(TARGET, pilot, 2, num_clusters=3, seed=1)
    assert set(parts.cuts) == {0, 3}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_coordinates": 5}, "from 1 to 4"),
        ({"num_coordinates": 4}, "too few for 16 clusters"),
        ({"num_clusters": 1}, "at least 2"),
    ],
)
def test_more_parts_than_draws_can_tell_apart_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        partition.split_by_clusters(TARGET, modes([0, 0, 0, 0]), seed=1, **settings)
