"""Columns that look wrong are named before a fit, and others are not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from ergonet.datasets import from_table

RNG = np.random.default_rng(3)
ROWS = 120
PLAIN = pd.DataFrame({"a": RNG.normal(size=ROWS), "b": RNG.integers(0, 9, ROWS), "city": RNG.choice(["p", "q"], ROWS)})
PLAIN["y"] = PLAIN["a"] + 0.3 * RNG.normal(size=ROWS)
PLAIN["label"] = np.where(PLAIN["y"] > 0, "up", "down")


def said(frame: pd.DataFrame, target: str = "y") -> list[str]:
    other = "label" if target == "y" else "y"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from_table(frame.drop(columns=other, errors="ignore"), target)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("target", ["y", "label"])
def test_plain_columns_are_not_named(target):
    assert said(PLAIN, target) == []


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("patient_id", RNG.permutation(5000)[:ROWS]),
        ("Unnamed: 0", np.arange(ROWS) * 7),
        ("n", np.arange(ROWS) + 17),
        ("n", np.arange(ROWS)[::-1]),
    ],
)
def test_row_numbers_are_named(name, column):
    (found,) = said(PLAIN.assign(**{name: column}))
    assert found.startswith(f"Column {name!r} numbers its rows like an identifier")
    assert "`--drop`" in found


@pytest.mark.parametrize("missing", [[], [3, 7]])
def test_a_copy_of_another_column_is_named(missing):
    column = PLAIN["a"].astype(float)
    column.iloc[missing] = np.nan
    (found,) = said(PLAIN.assign(a=column, again=column))
    assert found.startswith("Column 'again' holds the same as column 'a'")


@pytest.mark.parametrize(
    "leak",
    [
        PLAIN["y"] * 1.8 + 32,  # another unit
        np.exp(PLAIN["y"]),
        PLAIN["y"].round(2),
        -(PLAIN["y"] ** 3),
    ],
)
def test_a_leak_of_a_number_is_named(leak):
    (found,) = said(PLAIN.assign(leak=leak))
    assert found.startswith("Column 'leak' alone explains 99.9 % of the target 'y'")


@pytest.mark.parametrize(
    "leak",
    [
        PLAIN["label"].str.upper(),
        np.where(PLAIN["label"] == "up", 1, 0) + 2 * RNG.integers(0, 2, ROWS),  # 0, 2 and 1, 3
        PLAIN["y"],
    ],
)
def test_a_leak_of_a_class_is_named(leak):
    (found,) = said(PLAIN.assign(leak=leak), "label")
    assert found.startswith("Column 'leak' alone explains 99.9 % of the target 'label'")


def test_a_good_input_is_no_leak():
    assert said(PLAIN.assign(good=PLAIN["y"] + 0.1 * RNG.normal(size=ROWS))) == []


def test_the_first_three_are_described():
    found = said(PLAIN.assign(**{f"id_{one}": np.arange(ROWS) * one for one in range(1, 6)}))
    assert len([one for one in found if "identifier" in one]) == 3
    assert found[2].endswith("So do 'id_4', 'id_5'.")


def test_a_rare_class_is_not_explained_by_columns_of_noise():
    random, found = np.random.default_rng(0), []
    for _ in range(12):
        frame = pd.DataFrame(random.normal(size=(2000, 3)), columns=["a", "b", "c"])
        found += said(frame.assign(y=np.where(random.permutation(2000) < 4, "rare", "usual")))
    assert found == []


def test_a_leak_with_a_missing_entry_is_named():
    column = np.where(np.arange(ROWS) == 5, np.nan, np.exp(3 * PLAIN["y"]))
    assert any(one.startswith("Column 'leak' alone explains") for one in said(PLAIN.assign(leak=column)))


@pytest.mark.parametrize("other", ["Up", " up", "up "])
def test_categories_that_differ_only_in_blanks_or_case_are_named(other):
    spelled = PLAIN["label"].where(np.arange(ROWS) % 7 > 0, PLAIN["label"].replace("up", other))
    one, two = sorted(("up", other))
    expected = f"has {one!r} and {two!r}, which differ only in blanks or case, as two categories."
    (found,) = said(PLAIN.assign(label=spelled), "label")
    assert found.startswith(f"Column 'label' {expected}")
    (found,) = said(PLAIN.assign(trend=spelled.to_numpy()[::-1]))
    assert found.startswith(f"Column 'trend' {expected}")
