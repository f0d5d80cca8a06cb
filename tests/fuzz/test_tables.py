"""Tables of any content: a sound data set, or one error."""

import gzip
import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ergonet.datasets import Preprocessing, from_table, overview, read_table
from ergonet.datasets.choosing import Choices
from ergonet.datasets.kinds import KINDS
from tests.fuzz import strategies
from tests.fuzz.outcomes import outcome

FILES = {
    ".csv": strategies.delimited(),
    ".txt": strategies.delimited(),
    ".npz": strategies.archives(),
    ".parquet": strategies.parquets(),
    ".csv.gz": strategies.delimited().map(partial(gzip.compress, mtime=0)).flatmap(strategies.altered),
    ".feather": strategies.parquets("feather"),
    ".xlsx": strategies.workbooks(),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.mark.parametrize("suffix", FILES)
@given(data=st.data())
def test_files(suffix: str, folder: Path, data: st.DataObject):
    file = folder / f"table{suffix}"
    file.write_bytes(data.draw(FILES[suffix]))
    table = outcome(lambda: read_table(file))
    if table is None:
        return
    assert isinstance(table, pd.DataFrame)
    assert len(table) >= 1
    target = data.draw(st.sampled_from([*map(str, table.columns), "missing"]))
    check_dataset(table, target, data)


def check_dataset(table: pd.DataFrame, target: str, data: st.DataObject) -> None:
    """The network sees numbers of order 1, or the person an error."""
    share, kinds = data.draw(st.sampled_from([0.0, 0.2, 0.5])), st.sampled_from([*KINDS, "ordinal:p,q"])
    task = data.draw(st.sampled_from([None, "classification", "regression", "count"]))
    choices = Choices(
        types=data.draw(st.dictionaries(st.sampled_from([*map(str, table.columns)]), kinds, max_size=2)),
        missing=data.draw(st.sampled_from(["indicator", "refuse"])),
        one_hot_limit=data.draw(st.sampled_from([1, 2, 20])),
    )
    dataset = outcome(lambda: from_table(table, target, task=task, choices=choices, test_fraction=share))
    if dataset is None:
        return
    for part in (dataset.x_train, dataset.y_train, dataset.x_test, dataset.y_test):
        assert np.isfinite(part).all()
    assert len(dataset.x_train) >= 2
    assert dataset.x_train.shape[1] >= 1
    plain = dataset.x_train[:, : dataset.x_train.shape[1] - len(dataset.preprocessing.embeddings)]
    np.testing.assert_allclose(plain.mean(axis=0), 0.0, atol=1e-3)
    assert ((abs(plain.std(axis=0) - 1.0) < 1e-3) | (plain == 0.0).all(axis=0)).all()
    again = Preprocessing.from_dict(json.loads(json.dumps(dataset.preprocessing.to_dict(), allow_nan=False)))
    assert again.to_dict() == dataset.preprocessing.to_dict()
    overview.in_words(again)
    if dataset.task == "regression":
        np.testing.assert_allclose(dataset.y_train.std(axis=0), 1.0, atol=1e-3)
        back = dataset.preprocessing.inverse_mean(dataset.y_train)
        assert np.isfinite(back).all()
    elif dataset.task == "count":
        assert ((dataset.y_train >= 0) & (dataset.y_train == np.floor(dataset.y_train))).all()
    else:
        assert set(dataset.y_train.tolist()) == set(range(len(dataset.preprocessing.classes)))
    again = outcome(lambda: dataset.preprocessing.transform(table))
    assert again is not None
    assert len(again) == len(table)
