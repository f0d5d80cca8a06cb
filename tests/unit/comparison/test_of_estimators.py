"""Comparisons take the tables and the labels that the estimators take."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ergonet import BayesianClassifier, comparison
from ergonet._errors import DataError, SettingError
from ergonet.explanation import permutation_importance

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")]
SETTINGS: dict[str, Any] = {
    "hidden": (),
    "prior": "normal",
    "likelihood": "categorical",
    "kernel": {"name": "hmc", "num_steps": 4},
    "num_chains": 2,
    "num_warmup": 20,
    "num_draws": 20,
    "random_state": 0,
}


@pytest.mark.parametrize("labels", [(0, 2, 3), ("b", "a", "c")], ids=str)
def test_labels_that_are_no_indices_are_scored_as_predicted(labels):
    rng = np.random.default_rng(0)
    x, index = rng.normal(size=(60, 3)), rng.integers(0, 3, 60)
    x[:, 0] += index
    y, frame = np.asarray(labels)[index], pd.DataFrame(x)  # whose names are 0, 1, 2
    model = BayesianClassifier(class_weight="balanced", **SETTINGS).fit(frame, y)
    columns = np.searchsorted(model.classes_, y[30:])
    expected = np.log(model.predict_proba(x[30:]))[np.arange(30), columns]
    for rows in (x[30:], frame[30:]):
        np.testing.assert_allclose(comparison.held_out(model, rows, y[30:]).pointwise, expected, atol=1e-5)
    assert permutation_importance(model, frame, y)
    with pytest.raises(SettingError, match="weights of classes"):
        model.update(x[:4], y[:4])
    model.update(x[:4], y[:4], sample_weight=np.ones(4))
    repeated = pd.DataFrame(x, columns=["x0", "x0", "x1"]).assign(x2=0.0)
    with pytest.raises(DataError, match="more than one column 'x0'"):
        model.preprocessing_.transform(repeated)
