"""From a table to a data set: splits, scaling, labels, and one clear error for each kind of bad table."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from ergonet._errors import DataError, SettingError
from ergonet.datasets import from_table, read_table


def small_table(rows: int = 20) -> pd.DataFrame:
    steps = np.arange(rows)
    return pd.DataFrame(
        {
            "age": 20.0 + steps,
            "dose": np.sin(steps) * 1e3,
            "city": np.where(steps % 3 == 0, "Bern", np.where(steps % 3 == 1, "Thun", "Visp")),
            "outcome": np.where(steps % 2 == 0, "well", "ill"),
            "cost": 3.0 * steps + np.cos(steps),
        }
    )


def numeric_table(rows: int = 20) -> pd.DataFrame:
    return small_table(rows).filter(["age", "dose", "cost"])


def test_regression_targets_are_standardized_and_restored():
    frame = numeric_table()
    data = from_table(frame, "cost", seed=3)
    assert data.task == "regression"
    assert data.name == "table"
    assert (len(data.x_train), len(data.x_test)) == (16, 4)
    np.testing.assert_allclose(data.y_train.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(data.y_train.std(axis=0), 1.0, atol=1e-5)
    truth = frame["cost"].to_numpy()[data.test_rows, None]
    np.testing.assert_allclose(data.preprocessing.inverse_mean(data.y_test), truth, rtol=1e-5)


def test_scaling_is_learned_on_the_training_rows_only():
    frame = numeric_table()
    data = from_table(frame, "cost", seed=1)
    train = np.setdiff1d(np.arange(20), data.test_rows)
    ages = frame["age"].to_numpy()
    np.testing.assert_allclose(data.preprocessing.feature_mean[0], ages[train].mean())
    np.testing.assert_allclose(data.preprocessing.feature_sd[0], ages[train].std())
    expected = (ages[data.test_rows] - ages[train].mean()) / ages[train].std()
    np.testing.assert_allclose(data.x_test[:, 0], expected, rtol=1e-5)
    np.testing.assert_array_equal(data.raw_test, frame[["age", "dose"]].to_numpy()[data.test_rows])


def test_split_depends_on_the_seed_alone():
    frame = numeric_table(50)
    first, again, other = (from_table(frame, "cost", seed=seed).test_rows.tolist() for seed in (0, 0, 1))
    assert first == again == sorted(first)
    assert first != other


def test_classification_is_stratified_and_labels_come_back_as_strings():
    frame = small_table(40).filter(["age", "outcome"])
    frame["outcome"] = ["well"] * 30 + ["ill"] * 10
    data = from_table(frame, "outcome", test_fraction=0.2)
    assert data.preprocessing.classes == ("ill", "well")
    assert np.bincount(data.y_test).tolist() == [2, 6]
    assert data.preprocessing.labels(data.y_test).tolist() == frame["outcome"].iloc[data.test_rows].tolist()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([3, 7], (3, 7)),
        ([True, False], (False, True)),
        (["b", "a"], ("a", "b")),
        (pd.Categorical(["b", "a"] * 10), ("a", "b")),
        (pd.array([5, 2] * 10, dtype="Int64"), (2, 5)),
    ],
)
def test_labels_keep_their_type(labels, classes):
    frame = numeric_table()
    frame["cost"] = labels if len(labels) == 20 else labels * 10
    data = from_table(frame, "cost")
    assert data.preprocessing.classes == classes
    assert [type(one) for one in data.preprocessing.classes] == [type(one) for one in classes]
    assert data.preprocessing.labels(data.y_test).tolist() == frame["cost"].iloc[data.test_rows].tolist()


def test_everything_can_train():
    data = from_table(numeric_table(), "cost", test_fraction=0.0)
    assert data.x_train.shape == (20, 2)
    assert data.x_test.shape == (0, 2)
    assert data.y_test.shape == (0, 1)
    assert data.raw_test.shape == (0, 2)
    labels = from_table(small_table().filter(["age", "outcome"]), "outcome", test_fraction=0.0)
    assert labels.y_test.shape == (0,)


def test_test_table_of_its_own():
    data = from_table(numeric_table(20), "cost", test_frame=numeric_table(30).tail(10))
    assert len(data.x_train) == 20
    assert data.test_rows.tolist() == list(range(10))
    np.testing.assert_array_equal(data.raw_test[:, 0], np.arange(40.0, 50.0))


def test_several_targets():
    data = from_table(numeric_table(), ["cost", "dose"])
    assert data.y_train.shape == (16, 2)
    assert data.preprocessing.target_names == ("cost", "dose")
    assert data.preprocessing.feature_names == ("age",)
    with pytest.raises(
        DataError, match=r"classification needs .* got 2.* `--task regression` \(`task='regression'` in P"
    ):
        from_table(numeric_table(), ["cost", "dose"], task="classification")


def test_categories_become_columns_of_0_and_1():
    data = from_table(small_table().filter(["age", "city", "cost"]), "cost")
    assert data.preprocessing.encoded_names == ("age", "city=Bern", "city=Thun", "city=Visp", "city=(other)")
    np.testing.assert_allclose(data.x_train.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(data.x_train.std(axis=0), [1.0] * 4 + [0.0], atol=1e-5)
    assert data.raw_test.shape == (4, 1)


def test_declared_categories_of_numbers_are_categories():
    frame = numeric_table()
    frame["age"] = pd.Categorical([1, 2] * 10)
    assert from_table(frame, "cost").preprocessing.encoded_names == ("age=1", "age=2", "age=(other)", "dose")


def test_booleans_and_nullable_numbers_are_numbers():
    frame = numeric_table()
    frame["age"] = pd.array([True, False] * 10, dtype="boolean")
    frame["dose"] = pd.array(range(20), dtype="Int64")
    assert from_table(frame, "cost").preprocessing.encoded_names == ("age", "dose")


@pytest.mark.parametrize("seed", range(5))
def test_rows_with_a_class_of_their_own_always_train(seed):
    frame = small_table().filter(["age", "city", "outcome"])
    frame.loc[4, "city"] = "Genf"
    frame.loc[9, "outcome"] = "dead"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        data = from_table(frame, "outcome", test_fraction=0.5, seed=seed)
    assert 9 not in data.test_rows
    assert ("city=Genf" in data.preprocessing.encoded_names) == (4 not in data.test_rows)
    assert data.preprocessing.classes == ("dead", "ill", "well")


def test_moved_rows_are_reported():
    frame = numeric_table(4)
    frame["cost"] = ["a", "a", "b", "c"]
    with pytest.warns(
        UserWarning, match=r"Moved 1 held-out row to the training rows because .*'c' in column 'cost' at data row 4"
    ):
        data = from_table(frame, "cost", test_fraction=0.25, seed=_seed_that_holds_out(3, rows=4))
    assert len(data.x_test) == 0


def _seed_that_holds_out(row: int, *, rows: int) -> int:
    frame = numeric_table(rows)
    return next(
        seed
        for seed in range(100)
        if from_table(frame, "cost", test_fraction=0.25, seed=seed).test_rows.tolist() == [row]
    )


def test_constant_columns_are_dropped_with_a_warning_that_names_them():
    frame = numeric_table()
    frame.insert(0, "unit", 7.0)
    frame["almost"] = 1.0 + np.arange(20) * 1e-15
    with pytest.warns(UserWarning, match=r"Dropped 2 constant columns: 'unit' \(always 7\.0\), 'almost'"):
        data = from_table(frame, "cost")
    assert data.preprocessing.dropped == ("unit", "almost")
    assert data.preprocessing.feature_names == ("unit", "age", "dose", "almost")
    assert data.preprocessing.encoded_names == ("age", "dose")
    assert data.x_train.shape[1] == data.raw_test.shape[1] == 2


def test_constant_category_is_dropped():
    frame = numeric_table().assign(city="Bern")
    with pytest.warns(UserWarning, match=r"Dropped 1 constant column: 'city' \(always Bern\)"):
        data = from_table(frame, "cost")
    assert data.preprocessing.encoders == {}


def with_entry(column: str, row: int, value: object) -> pd.DataFrame:
    frame = numeric_table().astype(object)
    frame.loc[row, column] = value
    return frame


def labeled(labels: list) -> pd.DataFrame:
    frame = numeric_table(len(labels))
    frame["cost"] = pd.Series(labels, dtype=object)
    return frame


@pytest.mark.parametrize(
    ("frame", "target", "message"),
    [
        (numeric_table(), "csot", r"the table has no column 'csot'\. Did you mean 'cost'"),
        (numeric_table(), "cost, dose", r"no column 'cost, dose'\. Give `--target` \(a list in Python\) for each"),
        (numeric_table(), "COST", r"the table has no column 'COST'\. Did you mean 'cost'"),
        (numeric_table(), "price", r"the table has no column 'price'\..*Known: age, cost, dose"),
        (numeric_table(), [], r"`target` must name at least one column"),
        (numeric_table(), ["cost", "cost"], r"`target` must name at least one column, each only once"),
        (numeric_table().filter(["cost"]), "cost", r"no input columns besides the target: cost"),
        (numeric_table(0), "cost", r"The table has no data rows"),
        (numeric_table(1), "cost", r"The table has only 1 data row; at least 2 are needed"),
        (
            with_entry("dose", 6, np.inf),
            "cost",
            r"Column 'dose' of the table has an infinite value \(inf\) at data row 7",
        ),
        (
            with_entry("cost", 2, np.nan),
            "cost",
            r"Column 'cost' of the table has a missing value \(NaN\) at data row 3",
        ),
        (
            with_entry("cost", 2, -np.inf),
            "cost",
            r"Column 'cost' of the table has an infinite value \(-inf\)",
        ),
        (
            with_entry("dose", 3, "12.O"),
            "cost",
            r"Column 'dose' of the table holds 1 value that is not a number: the first is '12\.O' at",
        ),
        (
            numeric_table().astype({"age": str}),
            "cost",
            r"Column 'age' of the table holds numbers written as text",
        ),
        (
            numeric_table().assign(age=[f"{step},5" for step in range(20)]),
            "cost",
            r"Column 'age' of the table is not numeric: '0,5'.*decimal point",
        ),
        (
            numeric_table().assign(age=pd.date_range("2020-01-01", periods=20)),
            "cost",
            r"Column 'age' of the table holds dates or times, the first is 2020-01-01.*`--types age=date`",
        ),
        (
            numeric_table().assign(age=1.0, dose=2.0),
            "cost",
            r"All 2 input columns are constant.*'age' \(always 1\.0\)",
        ),
        (numeric_table().assign(cost=3.0), "cost", r"(only one class|is constant)"),
        (
            labeled(["a"] * 20),
            "cost",
            r"[Tt]arget column 'cost' of the table has only one class: every row is 'a'",
        ),
        (
            labeled([f"id {row}" for row in range(20)]),
            "cost",
            r"as many classes as rows \(20\): every label is different, the first is 'id 0'",
        ),
        (
            labeled(["a", "b", None] * 5),
            "cost",
            r"Column 'cost' of the table has a missing value \(NaN\) at data row 3",
        ),
        (
            labeled(["a", "b", 3] * 5),
            "cost",
            r"mixes labels of several types: 'a' at data row 1.*3 at data row 3",
        ),
        (labeled(["a", "b", ("c",)] * 5), "cost", r"holds a tuple at data row 3"),
        (
            pd.DataFrame(np.ones((4, 3)), columns=["a", "b", "a"]),
            "b",
            r"Column names appear more than once in the table: 'a'",
        ),
    ],
)
def test_bad_tables_are_refused_with_one_clear_error(frame, target, message):
    with pytest.raises(DataError, match=message):
        from_table(frame, target)


def test_missing_values_are_counted():
    frame = numeric_table()
    frame.loc[[3, 8, 9], "cost"] = np.nan
    with pytest.raises(DataError, match=r"at data row 4 \(counting from 1\); 3 missing or infinite values"):
        from_table(frame, "cost")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (
            ["a", "b"] * 10,
            r"Column 'cost' of the table holds 20 values that are not numbers: the first is 'a'",
        ),
        ([2.5] * 20, r"Target column 'cost' is constant: every training row has 2\.5"),
    ],
)
def test_regression_needs_numbers_that_vary(labels, message):
    with pytest.raises(DataError, match=message):
        from_table(labeled(labels), "cost", task="regression")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test_fraction": 1.0}, r"`test_fraction` must be at least 0 and below 1, got 1\.0"),
        ({"test_fraction": -0.5}, r"`test_fraction`"),
        ({"test_fraction": float("nan")}, r"`test_fraction`"),
        ({"log_beyond": -1.0}, r"`log_beyond` must be a number of at least 0, got -1\.0"),
        ({"log_beyond": {"regression": float("nan")}}, r"`log_beyond` must be .* got nan"),
        ({"seed": -3}, r"`seed` must be an integer from 0"),
        ({"task": "regresion"}, r"`task`: there is no task 'regresion'\. Did you mean 'regression'"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(SettingError, match=message):
        from_table(numeric_table(), "cost", **settings)


def test_fewer_than_two_training_rows_are_refused():
    with pytest.raises(DataError, match=r"holds out 19 of 20 rows and leaves 1 for training"):
        from_table(numeric_table(), "cost", test_fraction=0.95)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="cost"), r"the test table has no column 'cost'"),
        (
            lambda frame: frame.drop(columns="dose"),
            r"The test table lacks 1 column of the training table: 'dose'",
        ),
        (lambda frame: frame.iloc[:0], r"The test table has no data rows"),
        (lambda frame: frame.assign(dose=np.nan), r"Column 'dose' of the test table has a missing value"),
        (lambda frame: frame.assign(cost=np.nan), r"Column 'cost' of the test table has a missing value"),
        (lambda frame: frame.assign(cost=1e300), r"^Column 'cost' of the test table has 1e\+300 at data row 1"),
        (lambda frame: frame.rename(columns={"dose": "age"}), r"more than once in the test table: 'age'"),
    ],
)
def test_bad_test_tables_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        from_table(numeric_table(), "cost", test_frame=change(numeric_table()))


def test_test_table_with_an_unknown_class_is_refused():
    frame = small_table().filter(["age", "outcome"])
    other = frame.assign(outcome=["well"] * 19 + ["cured"])
    with pytest.raises(
        DataError,
        match=r"^Column 'outcome' of the test table has the label 'cured' at data row 20.*Known: 'ill', 'well'",
    ):
        from_table(frame, "outcome", test_frame=other)


def test_columns_named_by_numbers_are_found_by_their_text():
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(10, 3)))
    data = from_table(frame, "2")
    assert data.preprocessing.feature_names == ("0", "1")


def test_target_column_from_npz_with_two_dimensions(tmp_path):
    file = tmp_path / "table.npz"
    generator = np.random.default_rng(1)
    np.savez(file, x=generator.normal(size=(10, 2)), y=generator.normal(size=(10, 1)))
    assert from_table(read_table(file), "y").y_train.shape == (8, 1)


def test_decimals_are_numbers():
    frame = pd.DataFrame({"price": [Decimal(f"{index}.50") for index in range(12)], "y": np.arange(12.0) ** 1.5})
    data = from_table(frame, "y", test_fraction=0.0)
    np.testing.assert_array_equal(data.preprocessing.transform(frame.assign(price=np.arange(12) + 0.5)), data.x_train)
