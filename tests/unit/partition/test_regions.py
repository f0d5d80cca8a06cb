"""Partitions: boxes that tile the space, their numbers and words, and cuts that are refused."""

import jax.numpy as jnp
import numpy as np
import pytest

from ergonet import Target, partition
from ergonet._errors import SettingError

TARGET = Target.from_logdensity(lambda q: -jnp.sum(q**2), jnp.zeros(5))
RNG = np.random.default_rng(0)


def test_the_parts_tile_the_space_and_are_numbered_in_order():
    parts = partition.split(TARGET, {3: [1.0, -1.0], 0: 0.1})
    points = np.concatenate([2 * RNG.normal(size=(200, 5)), [[0.1, 0, 0, -1.0, 0], [0.1, 0, 0, 1.0, 0]]])
    for positions in (points, points.astype(np.float32)):
        inside = np.stack([box.contains(positions) for box in parts.boxes])
        np.testing.assert_array_equal(inside.sum(axis=0), 1)
        np.testing.assert_array_equal(np.argmax(inside, axis=0), parts.part_of(positions))
    assert len(parts) == len(parts.boxes) == 6
    assert [parts.describe(one) for one in (0, 4)] == ["q[0] < 0.1, q[3] < -1", "q[0] >= 0.1, -1 <= q[3] < 1"]
    assert str(parts) == "6 parts: q[0] at 0.1, q[3] at -1 and 1"
    assert parts.part_of(points[None, :7]).shape == (1, 7)
    whole = np.zeros((1, 5), int)
    assert parts.part_of(whole) == parts.part_of(whole.astype(float)) == 1
    assert bool(parts.boxes[1].contains(whole)[0])
    assert parts.shares is None


def test_coordinates_without_points_are_cut_at_zero_and_none_leaves_the_space_whole():
    assert partition.split(TARGET, [4, 1]).cuts == {1: (0.0,), 4: (0.0,)}
    whole = partition.split(TARGET, {})
    assert len(whole) == 1
    np.testing.assert_array_equal(whole.shares, [1])
    assert whole.describe(0) == "everywhere"


def test_random_coordinates_follow_the_seed_and_are_cut_at_zero_or_at_medians():
    chosen = [tuple(partition.split_at_random(TARGET, 2, seed=seed).cuts) for seed in range(20)]
    assert chosen == [tuple(partition.split_at_random(TARGET, 2, seed=seed).cuts) for seed in range(20)]
    assert set().union(*chosen) == set(range(5))
    pilot = RNG.normal(size=(2, 101, 5))
    cuts = partition.split_at_random(TARGET, 3, seed=1, pilot=pilot).cuts
    assert cuts == {one: (np.median(pilot[..., one]),) for one in cuts}


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({5: 0.0}, "from 0 to 4, got 5"),
        ({"0": 0.0}, "got '0'"),
        ({0: np.inf}, "cuts of coordinate 0, got inf"),
        ({0: []}, r"cuts of coordinate 0, got \[\]"),
        ({0: "middle"}, "got 'middle'"),
        ({one: np.arange(7) for one in range(5)}, "at most 4096"),
    ],
)
def test_cuts_that_make_no_parts_are_refused(at, message):
    with pytest.raises(SettingError, match=message):
        partition.split(TARGET, at)


@pytest.mark.parametrize("number", [0, 6])
def test_as_many_random_coordinates_as_there_are(number):
    with pytest.raises(SettingError, match="from 1 to 5"):
        partition.split_at_random(TARGET, number, seed=1)


def test_a_pilot_of_another_shape_is_refused():
    with pytest.raises(SettingError, match=r"`pilot` must be draws \[..., 5\]"):
        partition.split_at_random(TARGET, 1, seed=1, pilot=np.zeros((10, 3)))
    with pytest.raises(SettingError, match="not finite"):
        partition.split_at_random(TARGET, 1, seed=1, pilot=np.full((10, 5), np.nan))
