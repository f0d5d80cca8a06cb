"""Held-out rows that are copies of training rows are counted, and rows that agree by chance are not."""

import numpy as np
import pandas as pd
import pytest

from ergonet.datasets.copies import count_copies, row_keys
from ergonet.datasets.tables import from_table

RNG = np.random.default_rng(0)
ROWS = 300
NUMBERS = pd.DataFrame(RNG.normal(size=(ROWS, 3)), columns=["a", "b", "y"])
MIXED = NUMBERS.assign(city=RNG.choice(["Bern", "Oslo"], ROWS), y=np.where(NUMBERS["y"] > 0, "up", "down"))
DOSE, AGE, ZEROS = RNG.choice([0.1, 0.3, 1, 3, 10], ROWS), RNG.integers(18, 80, ROWS), RNG.random(ROWS) < 0.8


def split(frame):
    return from_table(frame.sample(frac=1, random_state=1), "y", task="classification", test_fraction=0.25, seed=0)


@pytest.mark.parametrize("frame", [MIXED, MIXED.drop(columns="b")])
@pytest.mark.parametrize("times", [2, 5])
def test_a_table_that_is_there_several_times(frame, times):
    data = split(pd.concat([frame] * times))
    known = {row.tobytes() for row in np.column_stack([data.x_train, data.y_train])}
    expected = sum(row.tobytes() in known for row in np.column_stack([data.x_test, data.y_test]))
    assert count_copies(data) == expected > 0.7 * len(data.x_test)


def test_the_target_counts_and_numbers_may_be_targets():
    twice = pd.concat([NUMBERS, NUMBERS])
    other = pd.concat([NUMBERS, NUMBERS.assign(y=RNG.normal(size=ROWS))])
    numbers = [from_table(one, "y", test_fraction=0.25, seed=0) for one in (twice, other, NUMBERS)]
    assert [count_copies(one) > 0 for one in numbers] == [True, False, False]
    doses = pd.DataFrame({"dose": np.tile(DOSE, 2), "y": np.tile(RNG.normal(size=ROWS), 2)})
    assert count_copies(from_table(doses, "y", test_fraction=0.25, seed=0)) > 0


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_a_few_copies_are_not_told(share):
    frame = pd.DataFrame(RNG.normal(size=(2000, 3)), columns=["a", "b", "y"])
    data = from_table(pd.concat([frame, frame[: round(share * 2000)]]), "y", test_fraction=0.25, seed=0)
    known = set(row_keys(data.x_train, data.y_train))
    copies = sum(key in known for key in row_keys(data.x_test, data.y_test))
    assert count_copies(data) == (0 if share < 0.05 else copies)
    assert copies > 0.5 * share * len(data.x_test)


@pytest.mark.parametrize(
    "columns",
    [
        {"dose": DOSE, "log": np.log(DOSE), "y": DOSE > 0.5},
        {"age": AGE, "y": AGE > 50},
        {"age": AGE, "square": AGE**2, "city": MIXED["city"], "y": AGE > 50},
        {"rounded": np.round(NUMBERS["a"], 2), "y": NUMBERS["a"] > 0},
        {"gain": np.where(ZEROS, 0, NUMBERS["a"]), "city": MIXED["city"], "y": ZEROS},
        {"one": AGE % 2 == 0, "two": DOSE > 0.5, "three": ZEROS, "y": MIXED["y"]},
    ],
)
def test_discrete_rows_that_agree_by_chance_are_no_copies(columns):
    data = split(pd.DataFrame(columns).astype({"y": str}))
    known = set(row_keys(data.x_train, data.y_train))
    assert np.mean([key in known for key in row_keys(data.x_test, data.y_test)]) > 0.3
    assert count_copies(data) == 0


def test_without_held_out_rows_there_are_none():
    assert count_copies(from_table(pd.concat([NUMBERS, NUMBERS]), "y", test_fraction=0.0)) == 0
