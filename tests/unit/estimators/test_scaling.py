"""Estimators scale as the command does: units do not matter, and what cannot be scaled is said."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ergonet import HMC, BayesianClassifier, BayesianRegressor
from ergonet._errors import DataError
from tests.saved import save_as_version_2

pytestmark = pytest.mark.filterwarnings("ignore::ergonet._errors.SamplingWarning")
SHORT: dict[str, Any] = {
    "hidden": (3,),
    "kernel": HMC(num_steps=8, metric="identity"),
    "num_chains": 1,
    "num_warmup": 40,
    "num_draws": 40,
    "random_state": 0,
}
X = np.random.default_rng(0).normal(size=(40, 2))
Y = np.tanh(X[:, 0]) + 0.1 * X[:, 1]


def regressor(**changed: Any) -> Any:
    return BayesianRegressor(**(SHORT | changed))


@pytest.fixture(scope="module")
def plain():
    return regressor().fit(X, Y)


@pytest.mark.parametrize(("x_exponent", "y_exponent"), [(-37, 0), (664, 0), (0, 664), (-900, -900)])
def test_units_that_are_powers_of_two_change_nothing(plain, x_exponent, y_exponent):
    x, y_unit = np.ldexp(X, x_exponent), np.ldexp(1.0, y_exponent)
    fitted = regressor().fit(x, Y * y_unit)
    np.testing.assert_array_equal(fitted.samples_.positions, plain.samples_.positions)
    for found, expected in zip(fitted.predict(x, return_std=True), plain.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(found, expected * y_unit)
    np.testing.assert_array_equal(fitted.predict_interval(x), plain.predict_interval(X) * y_unit)


@pytest.mark.parametrize(("x_unit", "y_unit"), [(1e-11, 1.0), (1e200, 1.0), (1.0, 1e200), (1e-200, 1e-200)])
def test_any_unit_gives_the_same_predictions(plain, x_unit, y_unit):
    found = regressor().fit(X * x_unit, Y * y_unit).predict(X * x_unit) / y_unit
    assert np.abs(found - plain.predict(X)).max() < 0.3 * Y.std()  # the rounding differs, and so in time do the draws
    assert np.corrcoef(found, Y)[0, 1] > 0.9


def test_classes_do_not_depend_on_units():
    labels = np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)]
    plain, tiny = (BayesianClassifier(**SHORT).fit(x, labels) for x in (X, np.ldexp(X, -40)))
    np.testing.assert_array_equal(tiny.predict_proba(np.ldexp(X, -40)), plain.predict_proba(X))


def test_a_small_variation_of_large_values_counts(plain):
    x = X.copy()
    x[:, 0] = 1e9 + 1e-3 * X[:, 0]
    found = regressor().fit(x, Y).predict(x)
    assert np.abs(found - plain.predict(X)).max() < 0.3 * Y.std()


def test_constant_columns_are_left_out_with_a_warning(plain):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "unit": 3.0})
    with pytest.warns(UserWarning, match=r"Dropped 1 constant column: 'unit' \(always 3.0\)"):
        fitted = regressor().fit(frame, Y)
    np.testing.assert_array_equal(fitted.predict(frame), plain.predict(X))
    assert fitted.n_features_in_ == 3


@pytest.mark.parametrize(
    ("changed", "x", "y", "message"),
    [
        ({}, np.ones((40, 2)), Y, "All 2 input columns are constant over the training rows: 'x0'"),
        ({}, X, np.ones(40), "Target column 'y' is constant"),
        ({"standardize": False}, X * [1.0, 1e200], Y, "Column 'x1' of `X` has .*e\\+.* too far"),
        ({"standardize": False}, X, Y * 1e200, "^`y` has .*e\\+.* too far"),
        ({"standardize": False}, X * [1.0, 1e-60], Y, "Column 'x1' has values from .* all .*0 in single precision"),
        ({"standardize": False}, X, 1e9 + 1e-3 * Y, "Column 'y' has values from .* all 1e\\+09 in single precision"),
    ],
)
def test_what_cannot_be_scaled_is_said(changed, x, y, message):
    with pytest.raises(DataError, match=message):
        regressor(**changed).fit(x, y)


def test_new_rows_that_are_too_far_are_an_error(plain):
    with pytest.raises(DataError, match=r"Column 'x1' of `X` has 1e\+200 at data row 1"):
        plain.predict([[0.0, 1e200]])


def test_an_extreme_value_is_named():
    x = X.copy()
    x[6, 1] = 1e12
    with pytest.warns(UserWarning, match=r"Column 'x1' has 1e\+12 at data row 7 \(counting from 1\), but half of its"):
        regressor().fit(x, Y)


def test_estimators_saved_as_means_and_standard_deviations_are_read(plain, tmp_path):
    named = {"name": "hmc", "num_steps": 8, "metric": "identity"}
    fitted = regressor(kernel=named, likelihood="gaussian").fit(X, Y)  # the default of that version
    file = save_as_version_2(fitted, tmp_path / "model")
    content = json.loads(file.read_text())
    scaling = content["fitted"].pop("preprocessing")
    content["fitted"] |= {
        "input_mean_": scaling["feature_mean"],
        "input_sd_": scaling["feature_sd"],
        "target_mean_": scaling["target_mean"],
        "target_sd_": scaling["target_sd"],
    }
    file.write_text(json.dumps(content | {"format_version": 1}))
    np.testing.assert_array_equal(BayesianRegressor.load(tmp_path / "model").predict(X), fitted.predict(X))
