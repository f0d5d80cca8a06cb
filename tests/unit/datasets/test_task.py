"""Which task a target asks for."""

import re

import numpy as np
import pandas as pd
import pytest

from ergonet._errors import DataError
from ergonet.datasets import Choices, from_table, infer_task, read_table


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (["a", "b", "a", "b"], "classification"),
        ([True, False, True, False], "classification"),
        (pd.Series([1.5, 2.5, 1.5], dtype="category"), "classification"),
        (pd.Series(["a", None, "b"]), "classification"),
        (np.array([0, 1, 0, 1]), "classification"),
        (np.array([[0], [1], [0], [1]]), "classification"),
        (np.array([0.0, 1.0, 0.0, 1.0]), "classification"),
        (np.array([0.0, 1.0, np.nan, 0.0, 1.0]), "classification"),
        (np.arange(-10, 11), "regression"),
        (np.array([0.5, 1.5, 0.5, 1.5]), "regression"),
        (np.ones((4, 2)), "regression"),
        ([str(value / 2) for value in range(30)] + ["n. a."], "regression"),
        (["1", "2", "K"] * 10, "classification"),
        (["2D", "3D"] * 10, "classification"),
        (["S01", "S02", "S03"] * 10, "classification"),
        (["12a", "12b", "13c"] * 10, "classification"),
        (["18-24", "25-30", "65+"] * 10, "classification"),
    ],
)
def test_task_is_inferred_by_the_documented_rule(values, task):
    assert infer_task(values) == task


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.arange(10), r"10 different ones from 0 to 9.*`--task`.*classification.*regression.*, or count"),
        (np.repeat([0.0, 1.0, 2.0], 5), "3 different ones from 0 to 2"),
        (np.repeat(np.arange(300, 700), 2), "400 different ones from 300 to 699"),
        (np.repeat([-1, 0, 1], 5), r"regression \(a quantity\)\.$"),
    ],
)
def test_whole_numbers_ask_for_the_task(values, said):
    with pytest.raises(DataError, match=said):
        infer_task(values)


def test_counts_are_not_scaled_and_must_be_counts():
    frame = pd.DataFrame({"a": np.arange(20.0) ** 0.5, "y": np.arange(20) % 7})
    data = from_table(frame, "y", task="count")
    np.testing.assert_array_equal(data.y_test[:, 0], frame["y"].to_numpy()[data.test_rows])
    assert data.preprocessing.inverse_mean(data.y_test).tolist() == data.y_test.tolist()
    with pytest.raises(DataError, match=r"Column 'y' of the table has -1 at data row 1 .*not counts"):
        from_table(frame.assign(y=frame["y"] - 1), "y", task="count")


def test_a_target_of_mostly_numbers_is_not_taken_for_classes(tmp_path):
    file = tmp_path / "prices.csv"
    lines = ["area,price", *(f"{row},{row * 1.5}" for row in range(40)), "41,unknown"]
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"Column 'price'.*'unknown' at data row 41"):
        from_table(read_table(file), "price")


@pytest.mark.parametrize("form", ["${:,}", "{}%", "{} €", "CHF {}", "{}\u00a0km/h", "{},5", "{}'075.50"])
def test_numbers_with_units_are_no_classes_and_no_categories(form):
    texts = [form.format(row) for row in range(999, 1019)]
    frame = pd.DataFrame({"age": np.arange(20.0) ** 1.5, "price": texts})
    said = rf"olumn 'price'.* is not numeric: {re.escape(repr(texts[0]))} at data row 1 .*Write plain numbers"
    with pytest.raises(DataError, match=rf"Target c{said}.*`--task classification`"):
        from_table(frame.assign(price=frame["price"].repeat(2).to_numpy()[:20]), "price")
    with pytest.raises(DataError, match=rf"C{said}.*`--types price=categorical`"):
        from_table(frame, "age")
    classes = frame.assign(price=[texts[row % 4] for row in range(20)])
    assert from_table(classes, "price", task="classification").task == "classification"
    assert "price" in from_table(frame, "age", choices=Choices(types={"price": "categorical"})).preprocessing.encoders


@pytest.mark.parametrize(
    "texts",
    [
        ["9th", "10th", "11th", "12th"],
        [f"{day}th" for day in range(4, 31)],
        [f"{number} stars" for number in range(1, 6)],
        ["2XL", "3XL", "4XL", "M"],
        ["+" + " " * 20_000 + "x", "y"],
    ],
)
def test_names_that_hold_numbers_stay_categories(texts):
    frame = pd.DataFrame({"age": np.arange(60.0) ** 1.5, "kind": (texts * 30)[:60]})
    assert from_table(frame, "kind").task == "classification"
    assert "kind" in from_table(frame, "age").preprocessing.encoders


def test_numbers_that_all_end_in_one_letter_are_identifiers():
    frame = pd.DataFrame({"age": np.arange(60.0) ** 1.5, "b": np.cos(np.arange(60)), "house": range(1000, 1060)})
    with pytest.warns(UserWarning, match="house"):
        found = from_table(frame.assign(house=frame["house"].map("{}N".format)), "age")
    assert "house" not in found.preprocessing.kept
    with pytest.raises(DataError, match=r"'house' .* is not numeric: '1000 kg'"):
        from_table(frame.assign(house=frame["house"].map("{} kg".format)), "age")
