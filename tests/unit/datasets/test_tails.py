"""Inputs far out are brought closer, in the same way wherever rows are scaled."""

import dataclasses
import json

import numpy as np
import pytest

from ergonet._errors import RunDirectoryError
from ergonet.datasets.choosing import Choices
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.tables import from_table
from ergonet.datasets.tails import damped, undamped

pd = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "heavy": np.exp(2 * RNG.normal(size=80)),
        "plain": RNG.uniform(-1, 1, size=80),
        "many": [f"c{index % 20}" for index in range(80)],
        "y": RNG.normal(size=80),
    }
)


def table(log_beyond, **choices):
    return from_table(FRAME, "y", log_beyond=log_beyond, choices=Choices(**choices), seed=1)


def test_values_near_the_mean_stay_and_the_others_keep_their_order():
    values = np.linspace(-50, 50, 2001)
    found = damped(values, 2.0)
    np.testing.assert_array_equal(found[np.abs(values) <= 2], values[np.abs(values) <= 2])
    assert (np.diff(found) > 0).all()
    np.testing.assert_allclose(found, -damped(-values, 2.0))
    assert damped(np.array([2 + np.e - 1]), 2.0) == pytest.approx(3)
    np.testing.assert_allclose(undamped(found, 2.0), values, rtol=1e-12)


def test_only_what_is_far_out_changes_and_indices_of_embeddings_never_do():
    plain, near = table(0.0, one_hot_limit=5), table(2.0, one_hot_limit=5)
    assert near.preprocessing.embeddings == (21,)
    scaled = plain.x_train[:, :2].astype(float)
    assert scaled[:, 0].max() > 3
    np.testing.assert_allclose(near.x_train[:, :2], damped(scaled, 2.0), rtol=1e-5)
    np.testing.assert_array_equal(near.x_train[:, 2], plain.x_train[:, 2])
    assert near.x_train.dtype == plain.x_train.dtype


def plain_rows():
    """The training rows."""
    return np.setdiff1d(np.arange(len(FRAME)), table(0.0, drop=("many",)).test_rows)


def test_what_lies_outside_is_the_same():
    plain, near = (table(one, drop=("many",)).preprocessing for one in (0.0, 2.0))
    just_beyond = FRAME["heavy"].iloc[plain_rows()].max() * 1.2
    new = pd.DataFrame({"heavy": [-1e3, 1.0, just_beyond], "plain": [0.0, 5.0, 0.5]})
    expected = [[True, False], [False, True], [True, False]]
    for one in (plain, near):
        np.testing.assert_array_equal(one.outside(one.transform(new)), expected)


def test_inputs_are_turned_back():
    preprocessing = table(2.0, drop=("many",)).preprocessing
    values = FRAME[["heavy", "plain"]].to_numpy()
    inputs = preprocessing.to_inputs(values, [0, 1])
    np.testing.assert_allclose(inputs, preprocessing.transform(FRAME[["heavy", "plain"]]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(preprocessing.from_inputs(inputs, [0, 1]), values, rtol=1e-9)


def test_it_may_depend_on_the_task():
    for task, found in {"regression": None, "classification": 2.0}.items():
        frame = FRAME.assign(y=FRAME["y"] > 0) if task == "classification" else FRAME
        assert from_table(frame, "y", log_beyond={"classification": 2.0}).preprocessing.log_beyond == found


def test_records_keep_it_and_older_ones_have_none():
    preprocessing = table(2.0, drop=("many",)).preprocessing
    record = json.loads(json.dumps(preprocessing.to_dict()))
    restored = Preprocessing.from_dict(record)
    assert (record["version"], restored.log_beyond) == (4, 2.0)
    new = FRAME[["heavy", "plain"]]
    np.testing.assert_array_equal(restored.transform(new), preprocessing.transform(new))
    old = dataclasses.replace(preprocessing, log_beyond=None).to_dict()
    assert old["version"] == 2
    assert Preprocessing.from_dict(old).log_beyond is None
    with pytest.raises(RunDirectoryError, match="log_beyond"):
        Preprocessing.from_dict(record | {"log_beyond": -1})
