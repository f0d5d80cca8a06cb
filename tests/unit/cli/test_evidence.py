"""What `ergonet evidence` prints: units of the table, and the error."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from ergonet.cli.evidence import _in_words
from ergonet.datasets import from_table
from ergonet.partition import LogMass

FOUND = LogMass(-20.0, 0.034, 812.3, 0.25, (-20.0, -20.0))


def test_a_density_has_the_units_of_the_table():
    rows = np.arange(10.0)
    frame = pd.DataFrame({"x": rows, "y": 2.0 * rows + 0.5, "z": rows**2 + 0.5})
    preprocessing = from_table(frame, ["y", "z"], test_fraction=0.0).preprocessing
    text = _in_words("run", FOUND, np.zeros((10, 2)), preprocessing)
    expected = -20 - 10 * np.log(frame[["y", "z"]].to_numpy().std(axis=0)).sum()
    assert text.startswith(f"Log evidence of run of the 10 training targets in their units: {expected:.2f} ")
    assert "± 0.03\nFrom 812 effective draws; overlap of the proposals 0.25." in text


def test_a_row_of_weight_two_counts_as_two_rows():
    frame = pd.DataFrame({"x": np.arange(10.0), "y": 2.0 * np.arange(10.0) + 0.5})
    preprocessing = from_table(frame, "y", test_fraction=0.0).preprocessing
    once = np.linspace(-1, 1, 10)[:, None]
    twice = np.repeat(once, 2, axis=0)
    text = _in_words("run", FOUND, once, preprocessing, weights=np.full(10, 2.0))
    assert text.split(": ")[1] == _in_words("run", FOUND, twice, preprocessing).split(": ")[1]


def test_probabilities_have_no_units():
    preprocessing: Any = SimpleNamespace(task="classification")
    text = _in_words("run", FOUND, 10, preprocessing)
    assert text.startswith("Log evidence of run: -20.00 ± 0.03\n")
