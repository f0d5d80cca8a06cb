"""Entries of columns: those that are equal are looked at once."""

import math

import numpy as np
import pandas as pd

from ergonet.datasets import from_table, validation
from ergonet.datasets.validation import for_each


def test_equal_entries_of_one_type_share_the_result():
    seen = []

    def name(entry):
        seen.append(entry)
        return f"{type(entry).__name__} {entry}"

    found = for_each([1, True, "1", 1.0, 1, "1", True], name)
    assert found == ["int 1", "bool True", "str 1", "float 1.0", "int 1", "str 1", "bool True"]
    assert seen == [1, True, "1", 1.0]


def test_entries_that_cannot_be_hashed_or_differ_from_themselves_have_results_too():
    assert for_each([[1], [1, 2], [1]], len) == [1, 2, 1]
    assert for_each([math.nan, 2.0, np.array([math.nan]).item()], math.isnan) == [True, False, True]
    assert for_each([], len) == []


def test_the_texts_of_a_long_table_are_looked_at_once(monkeypatch):
    seen, is_infinite = [], validation._is_infinite
    monkeypatch.setattr(validation, "_is_infinite", lambda label: seen.append(label) or is_infinite(label))
    rows = 3000
    city = np.array(["Bern", "Thun", "Visp"])[np.arange(rows) % 3]
    from_table(pd.DataFrame({"city": city, "y": np.sin(np.arange(rows))}), "y")
    assert set(seen) == {"Bern", "Thun", "Visp"}
    assert len(seen) < 60
