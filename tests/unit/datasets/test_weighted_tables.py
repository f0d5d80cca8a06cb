"""Weights of the rows of a table: rows of weight 0, and their column in test tables."""

import warnings

import numpy as np
import pandas as pd
import pytest

from ergonet._errors import DataError
from ergonet.datasets import from_table
from tests.unit.datasets.test_tables import numeric_table


@pytest.mark.filterwarnings("error:.*ignored")
def test_a_test_table_may_have_the_column_of_weights():
    table = numeric_table(20).assign(weight=1.0)
    data = from_table(table, "cost", weights="weight", test_frame=table)
    np.testing.assert_array_equal(data.x_test, data.x_train)


def test_rows_of_weight_0_count_for_nothing():
    table = numeric_table(30).assign(weight=np.tile([1.0, 2.0, 0.0], 10))
    table.loc[table["weight"] == 0, ["age", "cost"]] = 1e9
    left = table[table["weight"] > 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the columns of this table explain each other
        found, expected = (from_table(one, "cost", weights="weight", seed=1) for one in (table, left))
    for name in ("x_train", "y_train", "x_test", "y_test", "weights"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.test_rows, left.index[expected.test_rows])
    with pytest.raises(DataError, match="The table without rows of weight 0 has only 1 data row"):
        from_table(table.assign(weight=[1.0] + [0.0] * 29), "cost", weights="weight")


def test_rows_in_messages_are_those_of_the_table_without_rows_of_weight_0_too():
    steps, settings = np.arange(50.0), {"weights": "weight", "seed": 0}
    table = pd.DataFrame({"weight": steps > 9, "dose": np.sin(steps), "cost": np.cos(steps**2) + 2})
    assert 30 in from_table(table, "cost", **settings).test_rows
    with pytest.warns(UserWarning, match=r"'dose' of the table has 1e\+09 at data row 31 "):
        from_table(table.assign(dose=table["dose"].where(table.index != 30, 1e9)), "cost", **settings)
    city = np.where(table.index == 30, "Genf", np.where(table.index % 2, "Bern", "Thun"))
    with pytest.warns(UserWarning, match=r"'city' of the table has 1 entry .*the first is 'Genf' at data row 31 "):
        from_table(table.assign(city=city), "cost", **settings)
    with pytest.warns(UserWarning, match=r"'Genf' in column 'cost' at data row 31 "):
        from_table(table.assign(cost=city), "cost", **settings)
    for row in (30, 40):  # held out, and not
        frame = table.assign(cost=table["cost"].where(table.index != row, -1.0))
        with pytest.raises(DataError, match=f"must be above 0 .*data row {row + 1} "):
            from_table(frame, "cost", target_transform="log", **settings)
    with pytest.warns(UserWarning, match="'dose' has 1e[+]09 at data row 41 "):
        from_table(table.assign(dose=table["dose"].where(table.index != 40, 1e9)), "cost", **settings)
