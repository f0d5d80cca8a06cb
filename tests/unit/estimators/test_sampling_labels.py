"""Labels that a classifier draws have the probabilities that it states."""

from typing import Any

import numpy as np
import pytest

from ergonet import BayesianClassifier

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")


@pytest.mark.slow
@pytest.mark.parametrize("calibration", [{}, {"temperature": 0.3}, {"label_noise": 0.3}], ids=str)
def test_frequencies_are_the_probabilities(calibration):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 2)), rng.choice(["a", "b", "c"], 40)
    kernel: dict[str, Any] = {"name": "hmc", "num_steps": 4}
    short: dict[str, Any] = {"num_chains": 2, "num_warmup": 20, "num_draws": 20, "random_state": 0}
    model = BayesianClassifier(
        hidden=(), prior="normal", likelihood={"name": "categorical"} | calibration, kernel=kernel, **short
    ).fit(x, y)
    probabilities, count = model.predict_proba(x), 2000
    drawn = model.sample_y(x, n_samples=count, random_state=1)
    assert drawn.shape == (40, count)
    found = np.stack([(drawn == label).mean(axis=1) for label in model.classes_], axis=1)
    error = np.sqrt(np.clip(probabilities * (1 - probabilities), 1e-4, None) / count)
    assert np.abs((found - probabilities) / error).max() < 4.5
