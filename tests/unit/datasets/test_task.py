"""Which task a target asks for."""

import numpy as np
import pandas as pd
import pytest

from ergonet._errors import DataError
from ergonet.datasets import from_table, infer_task, read_table


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
        (np.arange(10), "regression"),
        (np.repeat(np.arange(20), 2), "classification"),
        (np.repeat(np.arange(21), 2), "regression"),
        (np.array([0.5, 1.5, 0.5, 1.5]), "regression"),
        (np.ones((4, 2)), "regression"),
        ([str(value / 2) for value in range(30)] + ["n. a."], "regression"),
        (["1", "2", "K"] * 10, "classification"),
    ],
)
def test_task_is_inferred_by_the_documented_rule(values, task):
    assert infer_task(values) == task


def test_a_target_of_mostly_numbers_is_not_taken_for_classes(tmp_path):
    file = tmp_path / "prices.csv"
    lines = ["area,price", *(f"{row},{row * 1.5}" for row in range(40)), "41,unknown"]
    file.write_text("\n".join(lines))
    with pytest.raises(DataError, match=r"Column 'price'.*'unknown' at data row 41"):
        from_table(read_table(file), "price")
