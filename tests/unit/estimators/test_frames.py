"""Estimators take tables of other libraries, and keep the names of their columns."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ergonet import BayesianClassifier, BayesianRegressor
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
