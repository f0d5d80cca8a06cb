"""Built-in data sets: P1 to the bit, splits, names, and a listing that imports nothing heavy."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ergonet import datasets
from ergonet._errors import SettingError


@pytest.mark.parametrize(
    ("name", "task", "features", "rows"),
    [
        ("breast-cancer", "classification", 30, 569),
        ("cross-section", "regression", 5, 3800),
        ("diabetes", "regression", 10, 442),
        ("digits", "classification", 64, 1000),
        ("two-moons", "classification", 2, 1000),
    ],
)
def test_every_builtin_set_is_scaled_and_split(name, task, features, rows):
    data = datasets.load(name)
    assert (data.name, data.task) == (name, task)
    assert data.x_train.dtype == data.x_test.dtype == np.float32
    assert data.x_train.shape[1] == data.x_test.shape[1] == features
    assert len(data.x_train) + len(data.x_test) == rows
    assert len(data.y_train) == len(data.x_train)
    assert len(data.y_test) == len(data.x_test) == len(data.raw_test) == len(data.test_rows)
    assert np.isfinite(data.x_train).all()
    assert np.isfinite(data.x_test).all()
    if task == "classification":
        assert data.y_train.dtype == np.int32
        assert set(data.y_train.tolist()) == set(range(len(data.preprocessing.classes)))
    else:
        assert data.y_train.dtype == np.float32
        assert data.y_train.shape == (len(data.x_train), 1)


def test_names_and_registry_agree():
    listed = datasets.names()
    of_files = ["cifar10", "fashion-mnist", "mnist"]
    assert list(listed) == sorted(["breast-cancer", "cross-section", "diabetes", "digits", "two-moons", *of_files])
    assert all(description and "\n" not in description for description in listed.values())


def test_digits_is_p1():
    data = datasets.load("digits")
    bunch: Any = load_digits()
    pixels = bunch.data / 16.0
    centered = pixels - pixels[:500].mean(axis=0)
    expected = (centered / centered[:500].std()).astype(np.float32)
    np.testing.assert_array_equal(data.x_train, expected[:500])
    np.testing.assert_array_equal(data.x_test, expected[-500:])
    np.testing.assert_array_equal(data.y_train, bunch.target[:500])
    np.testing.assert_array_equal(data.y_test, bunch.target[-500:])
    np.testing.assert_array_equal(data.raw_test, bunch.data[-500:])
    np.testing.assert_array_equal(data.test_rows, np.arange(1297, 1797))
    assert data.image_shape == (8, 8)
    assert data.preprocessing.classes == tuple(range(10))


def test_digits_has_one_global_sd_zero_means_and_keeps_constant_pixels():
    data = datasets.load("digits")
    inputs = data.x_train.astype(np.float64)
    assert inputs.std() == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-6)
    constant = inputs.std(axis=0) == 0.0
    assert constant.sum() > 0
    assert inputs.shape == (500, 64)
    assert data.preprocessing.dropped == ()
    assert np.unique(data.preprocessing.feature_sd).size == 1


def test_digits_transforms_raw_pixels_and_restores_labels():
    data = datasets.load("digits")
    bunch: Any = load_digits()
    np.testing.assert_array_equal(data.preprocessing.transform(data.raw_test), data.x_test)
    np.testing.assert_array_equal(data.preprocessing.labels(data.y_test), bunch.target[-500:])


@pytest.mark.parametrize("name", ["cross-section", "digits", "two-moons"])
def test_sets_with_their_own_split_ignore_fraction_and_seed(name):
    first, second = datasets.load(name), datasets.load(name, test_fraction=0.5, seed=7)
    np.testing.assert_array_equal(first.x_train, second.x_train)
    np.testing.assert_array_equal(first.test_rows, second.test_rows)


def test_two_moons_has_500_and_500_rows():
    data = datasets.load("two-moons")
    assert data.x_train.shape == data.x_test.shape == (500, 2)
    np.testing.assert_allclose(data.x_train.mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(data.x_train.std(axis=0), 1.0, atol=1e-5)


def test_other_sets_split_by_fraction_and_seed():
    first = datasets.load("diabetes", test_fraction=0.25, seed=1)
    again = datasets.load("diabetes", test_fraction=0.25, seed=1)
    other = datasets.load("diabetes", test_fraction=0.25, seed=2)
    assert len(first.test_rows) == 111
    np.testing.assert_array_equal(first.test_rows, again.test_rows)
    assert first.test_rows.tolist() != other.test_rows.tolist()
    assert len(datasets.load("diabetes", test_fraction=0.0).x_test) == 0


def test_breast_cancer_keeps_class_names_and_proportions():
    data = datasets.load("breast-cancer")
    assert data.preprocessing.classes == ("benign", "malignant")
    assert data.preprocessing.labels([1, 0]).tolist() == ["malignant", "benign"]
    assert data.y_train.mean() == pytest.approx(data.y_test.mean(), abs=0.01)


def test_unknown_name_offers_the_nearest():
    with pytest.raises(SettingError, match=r"`dataset='digit'` is not known.*Did you mean 'digits'"):
        datasets.load("digit")


@pytest.mark.parametrize("name", ["digits", "two-moons", "diabetes", "breast-cancer"])
@pytest.mark.parametrize("settings", [{"test_fraction": 1.0}, {"test_fraction": -0.1}, {"seed": -1}, {"seed": True}])
def test_settings_out_of_range_are_refused(name, settings):
    with pytest.raises(SettingError, match=next(iter(settings))):
        datasets.load(name, **settings)


def test_listing_imports_nothing_heavy():
    code = (
        "import sys; from ergonet import datasets; datasets.names(); "
        "print([name for name in ('pandas', 'sklearn', 'jax', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    # jaxtyping's test plugin is absent in the child, as it is for users.
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'tabel'"):
        datasets.tabel  # noqa: B018
