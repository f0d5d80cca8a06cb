"""Preprocessing: round trip, new data in any shape, what it refuses, and its scaling as a property."""

import json
import tracemalloc
import warnings

import hypothesis
import hypothesis.extra.numpy as hypothesis_numpy
import numpy as np
import pandas as pd
import pytest
from hypothesis import strategies

from ergonet._errors import CapabilityError, DataError, RunDirectoryError
from ergonet.datasets import Preprocessing, from_table, load
from ergonet.datasets.columns import extreme_row, mean_and_sd
from ergonet.datasets.validation import (
    as_labels,
    as_matrix,
    as_targets,
    check_finite,
    check_same_rows,
    encode_labels,
    label_classes,
)

FRAME = pd.DataFrame(
    {
        "age": np.arange(12.0),
        "city": ["Bern", "Thun", "Visp"] * 4,
        "unit": 1.0,
        "outcome": ["ill", "well"] * 6,
        "cost": np.arange(12.0) ** 2 / 8,
    }
)


def learned(target: str) -> Preprocessing:
    other = "cost" if target == "outcome" else "outcome"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return from_table(FRAME.drop(columns=other), target, test_fraction=0.0).preprocessing


@pytest.mark.parametrize("target", ["outcome", "cost"])
def test_round_trip_through_json_is_exact(target):
    before = learned(target)
    after = Preprocessing.from_dict(json.loads(json.dumps(before.to_dict(), allow_nan=False)))
    assert after.to_dict() == before.to_dict()
    assert after.encoded_names == before.encoded_names
    new = FRAME.filter(["age", "city", target])
    np.testing.assert_array_equal(after.transform(new), before.transform(new))
    np.testing.assert_array_equal(after.transform_target(FRAME[target]), before.transform_target(FRAME[target]))


@pytest.mark.parametrize("name", ["digits", "diabetes", "breast-cancer", "two-moons"])
def test_builtin_sets_survive_the_round_trip(name):
    data = load(name)
    after = Preprocessing.from_dict(json.loads(json.dumps(data.preprocessing.to_dict())))
    assert [type(one) for one in after.classes] == [type(one) for one in data.preprocessing.classes]
    np.testing.assert_array_equal(after.transform(data.raw_test), data.x_test)


def test_other_versions_and_damaged_records_are_refused():
    record = learned("cost").to_dict()
    with pytest.raises(RunDirectoryError, match=r"version 99, but this version of Ergonet reads versions 2 to 4"):
        Preprocessing.from_dict(record | {"version": 99})
    del record["feature_sd"]
    with pytest.raises(RunDirectoryError, match=r"lacks feature_sd"):
        Preprocessing.from_dict(record)


def test_columns_are_found_by_name_in_any_order_and_dropped_ones_are_not_needed():
    preprocessing = learned("cost")
    expected = preprocessing.transform(FRAME[["age", "city", "unit"]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(preprocessing.transform(FRAME[["city", "age"]]), expected)
        np.testing.assert_array_equal(preprocessing.transform(FRAME[["cost", "city", "age"]]), expected)
        broken_unit = FRAME[["age", "city"]].assign(unit=np.nan)
        np.testing.assert_array_equal(preprocessing.transform(broken_unit), expected)


def test_arrays_are_taken_in_the_order_of_the_file():
    preprocessing = learned("cost")
    columns = ["age", "city", "unit"]
    expected = preprocessing.transform(FRAME[columns])
    np.testing.assert_array_equal(preprocessing.transform(FRAME[columns].to_numpy()), expected)


def test_extra_columns_are_ignored_with_a_warning():
    preprocessing = learned("cost")
    with pytest.warns(
        UserWarning, match=r"The new data has 1 column that the training table did not have; ignored: 'height'"
    ):
        preprocessing.transform(FRAME[["age", "city"]].assign(height=1.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="age"), r"The new data lacks 1 column of the training table: 'age'"),
        (
            lambda frame: frame.rename(columns={"city": "citty"}),
            r"lacks 1 column of the training table: 'city'\. Did you mean 'citty'",
        ),
        (
            lambda frame: frame.assign(age=[np.nan] * 2 + [1.0] * 10),
            r"Column 'age' of the new data has a missing value \(NaN\) at data row 1 .*; 2 missing",
        ),
        (
            lambda frame: frame.assign(age=[1.0] * 4 + [np.inf] * 8),
            r"Column 'age' of the new data has an infinite value \(inf\) at data row 5",
        ),
        (
            lambda frame: frame.assign(age=["1"] * 4 + ["old"] * 8),
            r"Column 'age' of the new data holds 8 values that are not .*'old' at data row 5",
        ),
        (
            lambda frame: frame.assign(age=1e300),
            r"Column 'age' of the new data has 1e\+300 at data row 1.*unit",
        ),
        (
            lambda frame: np.ones((3, 2)),
            r"must be an array of shape \[rows, 3\].*got \(3, 2\).*age, city, unit",
        ),
        (lambda frame: np.ones(3), r"must be an array of shape \[rows, 3\]"),
    ],
)
def test_new_data_that_do_not_fit_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        learned("cost").transform(change(FRAME[["age", "city"]]))


def test_targets_in_any_shape():
    preprocessing = learned("cost")
    flat = preprocessing.transform_target(FRAME["cost"])
    assert flat.shape == (12, 1)
    assert flat.dtype == np.float32
    np.testing.assert_array_equal(preprocessing.transform_target(FRAME[["cost"]].to_numpy()), flat)
    np.testing.assert_array_equal(preprocessing.transform_target(FRAME["cost"].tolist()), flat)
    labels = learned("outcome")
    index = labels.transform_target(FRAME[["outcome"]].to_numpy())
    assert index.tolist() == [0, 1] * 6
    assert index.dtype == np.int32


@pytest.mark.parametrize(
    ("target", "values", "message"),
    [
        ("cost", np.ones((3, 2)), r"The target has 2 columns, training had 1: cost"),
        (
            "cost",
            np.array([1.0, np.nan]),
            r"Column 'cost' of the target has a missing value \(NaN\) at data row 2",
        ),
        ("cost", ["1", "x"], r"the first is 'x' at data row 2"),
        ("outcome", ["ill", "dead"], r"The target has the label 'dead' at data row 2"),
        ("outcome", ["ill", None], r"The target has a missing value \(NaN\) at data row 2"),
        ("outcome", np.array([["ill", "well"]]), r"must hold one label per row, got shape \(1, 2\)"),
    ],
)
def test_targets_that_do_not_fit_are_refused(target, values, message):
    with pytest.raises(DataError, match=message):
        learned(target).transform_target(values)


def test_predictions_return_in_the_users_units():
    preprocessing = learned("cost")
    standardized = preprocessing.transform_target(FRAME["cost"])
    draws = np.stack([standardized, standardized])
    np.testing.assert_allclose(preprocessing.inverse_mean(draws)[1, :, 0], FRAME["cost"], atol=1e-4)
    np.testing.assert_allclose(preprocessing.inverse_sd(np.ones((12, 1))), FRAME["cost"].std(ddof=0))


def test_labels_have_the_shape_of_their_index():
    labels = learned("outcome").labels(np.array([[0, 1], [1, 1]]))
    assert labels.tolist() == [["ill", "well"], ["well", "well"]]


def test_the_other_task_is_refused():
    with pytest.raises(CapabilityError, match=r"`inverse_mean` needs a regression task"):
        learned("outcome").inverse_mean(np.zeros((1, 1)))
    with pytest.raises(CapabilityError, match=r"`inverse_sd` needs a regression task"):
        learned("outcome").inverse_sd(np.zeros((1, 1)))
    with pytest.raises(CapabilityError, match=r"`labels` needs a classification task"):
        learned("cost").labels([0])


def test_text_labels_that_are_read_as_numbers_are_recognized():
    frame = pd.DataFrame({"a": np.arange(6.0), "grade": ["1", "2", "K"] * 2})
    preprocessing = from_table(frame, "grade", test_fraction=0.0).preprocessing
    assert preprocessing.transform_target(np.array([1, 2, 1])).tolist() == [0, 1, 0]
    assert preprocessing.transform_target(np.array([1.0, 2.0])).tolist() == [0, 1]


@hypothesis.given(
    hypothesis_numpy.arrays(
        np.float64,
        strategies.tuples(strategies.integers(2, 30), strategies.integers(1, 4)),
        elements=strategies.floats(-1e150, 1e150, allow_nan=False),
    )
)
def test_kept_columns_of_the_training_rows_have_mean_zero_and_sd_one(values):
    names = [f"x{i}" for i in range(values.shape[1])]
    frame = pd.DataFrame(values, columns=names).assign(target=np.arange(len(values)) / 3.0)
    constant = mean_and_sd(values)[2]
    hypothesis.assume(not constant.all())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        data = from_table(frame, "target", test_fraction=0.0)
    assert data.preprocessing.dropped == tuple(np.array(names)[constant].tolist())
    np.testing.assert_allclose(data.x_train.mean(axis=0, dtype=np.float64), 0.0, atol=1e-5)
    np.testing.assert_allclose(data.x_train.std(axis=0, dtype=np.float64), 1.0, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-290, 1e-3, 1e9, 1e307])
def test_mean_and_sd_neither_overflow_nor_vanish(scale):
    values = np.array([[1.0], [2.0], [4.0]]) * scale
    mean, sd, constant = mean_and_sd(values)
    np.testing.assert_allclose(mean, 7.0 / 3.0 * scale)
    np.testing.assert_allclose(sd, np.sqrt(14.0) / 3.0 * scale)
    assert not constant.any()


def test_a_small_variation_of_large_values_is_kept():
    z = np.random.default_rng(0).normal(size=50)
    frame = pd.DataFrame({"a": 1e9 + 1e-3 * z, "b": -z, "y": z[::-1] / 3.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = from_table(frame, "y", test_fraction=0.0)
    np.testing.assert_allclose(data.x_train[:, 0], (z - z.mean()) / z.std(), atol=1e-3)
    new = data.preprocessing.transform(frame.iloc[:3])
    np.testing.assert_array_equal(new, data.x_train[:3])


def test_an_extreme_value_is_named_with_its_row_in_the_file():
    z = np.random.default_rng(1).normal(size=(60, 2))
    frame = pd.DataFrame(z, columns=["a", "b"]).assign(y=z[:, 0] * z[:, 1])
    frame.loc[17, "b"] = -1e12
    with pytest.warns(UserWarning, match=r"Column 'b' has -1e\+12 at data row 18 \(counting from 1\).*half of its"):
        from_table(frame, "y", test_fraction=0.2, seed=next(seed for seed in range(9) if _is_trained(frame, 17, seed)))


def test_a_held_out_or_new_value_far_from_the_training_rows_is_named():
    z = np.random.default_rng(1).normal(size=(60, 2))
    frame = pd.DataFrame(z, columns=["a", "b"]).assign(y=z[:, 0] * z[:, 1])
    frame.loc[17, "b"] = 1e12
    seed = next(seed for seed in range(50) if not _is_trained(frame, 17, seed))
    with pytest.warns(UserWarning, match=r"Column 'b' of the table has 1e\+12 at data row 18 .* 1e\+12 standard"):
        data = from_table(frame, "y", test_fraction=0.2, seed=seed)
    with pytest.warns(UserWarning, match=r"Column 'b' of the new data has 1e\+12 at data row 1 "):
        data.preprocessing.transform(frame.iloc[17:20])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.preprocessing.transform(frame.iloc[:17])


def test_what_warnings_show_of_the_data_commands_no_terminal():
    frame = pd.DataFrame({"a": np.arange(9.0), "b": "\x1b[2J", "y": np.arange(9.0) / 2})
    with pytest.warns(UserWarning, match=r"'b' \(always \\x1b\[2J\)"):
        from_table(frame, "y", test_fraction=0.0)


def _is_trained(frame, row, seed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return row not in from_table(frame, "y", test_fraction=0.2, seed=seed).test_rows


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(2).normal(size=200),
        np.random.default_rng(3).standard_cauchy(size=2000),
        np.exp(4 * np.random.default_rng(4).normal(size=1000)),
        np.eye(1, 300).reshape(-1),  # a rare category
        np.where(np.arange(300) < 200, 0.0, 1e6),
        np.array([1.0, 2.0]),
        np.full(5, 3.0),
        np.zeros(5),
    ],
)
def test_heavy_tails_and_rare_categories_are_not_extreme(values):
    assert extreme_row(values) is None


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_a_value_beside_which_the_others_look_alike_is_extreme(unit):
    values = np.random.default_rng(5).normal(size=500)
    values[123] = -1e8
    assert extreme_row(values * unit) == 123


def test_rounding_is_no_variation():
    values = 0.1 + np.array([[0.0], [1e-17], [2e-17], [1e-16]])
    mean, sd, constant = mean_and_sd(values)
    assert constant.all()
    assert sd.tolist() == [1.0]
    np.testing.assert_allclose(mean, 0.1)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: check_finite(np.array([1.0, np.nan]), argument="`y`"),
            r"`y` has a missing value \(NaN\) at data row 2",
        ),
        (
            lambda: check_finite(np.array([[1.0, 2.0], [1.0, np.inf]]), argument="`x`"),
            r"Column 2 \(counting from 1\) of `x` has an infinite value \(inf\) at data row 2",
        ),
        (
            lambda: as_matrix([1.0, 2.0], argument="`x`"),
            r"`x` must have two dimensions.*got shape \(2,\).*reshape",
        ),
        (lambda: as_matrix(np.ones((3, 0)), argument="`x`"), r"`x` has no columns"),
        (
            lambda: as_matrix([["1", "a"]], argument="`x`"),
            r"Column '2' of `x` holds 1 value that is not a number.*'a'",
        ),
        (lambda: as_matrix(np.array([[1j]]), argument="`x`"), r"not a number: the first is 1j"),
        (lambda: as_targets(np.ones((2, 2, 2)), argument="`y`"), r"`y` must have two dimensions"),
        (
            lambda: as_labels(np.array(["2020-01-01"], dtype="M8[D]"), argument="`y`"),
            r"`y` holds dates or times",
        ),
        (
            lambda: as_labels([1.0, np.inf], argument="`y`"),
            r"`y` has an infinite value \(inf\) at data row 2",
        ),
        (lambda: label_classes([1, 1], argument="`y`"), r"`y` has only one class: every row is 1"),
        (lambda: label_classes([1, 2, 3], argument="`y`"), r"`y` has as many classes as rows \(3\)"),
        (lambda: encode_labels(["a"], ["b", "c"], argument="`y`"), r"`y` has the label 'a' at data row 1"),
        (lambda: check_same_rows(3, 4, inputs="`x`", targets="`y`"), r"`x` has 3 rows, but `y` has 4"),
    ],
)
def test_checks_on_plain_arrays(check, message):
    with pytest.raises(DataError, match=message):
        check()


def test_plain_arrays_that_are_fine_pass():
    assert as_matrix([[1, 2], [3, 4]], argument="`x`").dtype == np.float64
    assert as_matrix([["1", "2"]], argument="`x`").tolist() == [[1.0, 2.0]]
    assert as_targets([1, 2], argument="`y`").shape == (2, 1)
    assert as_labels(np.array([[1], [2]]), argument="`y`") == [1, 2]
    assert as_labels(np.array([True, False]), argument="`y`") == [True, False]
    check_finite(np.array([1.0]), argument="`y`")
    check_same_rows(3, 3, inputs="`x`", targets="`y`")


def test_a_table_is_copied_less_than_three_times_on_its_way_to_the_network():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(20_000, 5)), columns=[*"abcde"])
    size, found = frame.to_numpy().nbytes, from_table(frame.head(100), "a")  # which imports what it needs
    tracemalloc.start()
    try:
        inputs = found.preprocessing.transform(frame)
        assert tracemalloc.get_traced_memory()[1] - inputs.nbytes < 0.6 * size
        del inputs
        tracemalloc.reset_peak()
        data = from_table(frame, "a")
        assert tracemalloc.get_traced_memory()[1] < 3 * size
    finally:
        tracemalloc.stop()
    assert data.x_train.nbytes + data.x_test.nbytes < 0.5 * size


def test_the_first_row_far_out_is_named_whatever_its_column():
    frame = pd.DataFrame({"a": np.sin(np.arange(9.0)), "b": np.cos(np.arange(9.0)), "y": np.arange(9.0) ** 1.5})
    preprocessing = from_table(frame, "y").preprocessing
    far = frame.assign(a=frame["a"].mask(frame.index == 7, 1e9), b=frame["b"].mask(frame.index == 3, 1e9))
    with pytest.warns(UserWarning, match=r"'b' of the new data has 1e\+09 at data row 4 ") as caught:
        preprocessing.transform(far)
    assert len(caught) == 1
