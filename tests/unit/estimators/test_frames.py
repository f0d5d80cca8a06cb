"""Estimators take tables of other libraries, and keep the names of their columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ergonet import BayesianClassifier, BayesianRegressor
from ergonet._errors import DataError
from ergonet.datasets import from_table
from ergonet.estimators import base

FRAME = pd.DataFrame({"a": np.arange(6.0), "b": np.cos(np.arange(6.0))})


class ReachedError(Exception):
    """Everything before sampling is done."""


@pytest.mark.parametrize("kind", [BayesianClassifier, BayesianRegressor])
@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas, pd.DataFrame])
def test_names_of_columns_are_kept(kind, make, monkeypatch):
    found = []

    def catch(target, *_, **__):
        found.append(target)
        raise ReachedError

    monkeypatch.setattr(base, "sample", catch)
    estimator = kind()
    with pytest.raises(ReachedError):
        estimator.fit(make(FRAME), np.arange(6) % 2)
    assert estimator.feature_names_in_.tolist() == ["a", "b"]
    assert estimator.n_features_in_ == 2
    expected = (FRAME - FRAME.mean()) / FRAME.std(ddof=0)
    np.testing.assert_allclose(estimator.preprocessing_.transform(make(FRAME)), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["u", "v"] * 3, r"Column 'b' of `X` holds 6 values that are not numbers: the first is 'u' .*`OneHotEncoder`"),
        (pd.Categorical(["u", "v"] * 3), r"Column 'b' of `X` holds 6 values that are not numbers"),
        (pd.date_range("2020-01-01", periods=6), r"Column 'b' .* the first is '2020-01-01"),
        ([0.0, 1.0, np.nan, 3.0, 4.0, 5.0], r"Column 'b' of `X` has a missing value \(NaN\) at data row 3"),
        ([0.0, np.inf, 2.0, 3.0, 4.0, 5.0], r"Column 'b' of `X` has an infinite value \(inf\) at data row 2"),
    ],
)
@pytest.mark.parametrize("kind", [BayesianClassifier, BayesianRegressor])
def test_an_entry_that_is_no_number_is_named(kind, entries, message):
    with pytest.raises(DataError, match=message):
        kind().fit(FRAME.assign(b=entries), np.arange(6) % 2)


@pytest.mark.parametrize("make", [pd.DataFrame, lambda frame: pa.table(list(frame.to_numpy().T), names=["a", "a"])])
def test_two_columns_of_a_name_are_refused(make):
    message = "Column names appear more than once in `X`: 'a'. Give every column its own name."
    with pytest.raises(DataError, match=message):
        BayesianRegressor().fit(make(FRAME.set_axis(["a", "a"], axis=1)), np.arange(6.0))
    with pytest.raises(DataError, match="more than once in the table: 'a'"):
        from_table(make(FRAME.set_axis(["a", "a"], axis=1)), "a")


def test_other_errors_of_a_table_stay():
    with pytest.raises(ValueError, match="inconsistent numbers"):
        BayesianRegressor().fit(FRAME, np.arange(5.0))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        BayesianRegressor().fit(FRAME, [np.nan, *range(5)])
