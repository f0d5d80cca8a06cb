"""Files that are damaged, hostile or merely odd: one clear error each, before memory is filled."""

import gzip
import io
import tarfile
import zipfile

import numpy as np
import pandas as pd
import pytest

from ergonet._errors import DataError
from ergonet.datasets import limits, read_table
from ergonet.datasets.cifar import read, source_in
from ergonet.datasets.idx import read_idx
from ergonet.datasets.tables import from_table, infer_task

X = np.arange(12.0).reshape(6, 2)


@pytest.fixture
def little_memory(monkeypatch):
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**20)


@pytest.mark.parametrize("kind", ["float", "int"])
def test_an_integer_beyond_all_floats_is_an_infinite_value(tmp_path, kind):
    huge = "9" * 400
    others = ["1", "2", "3", "4"] if kind == "int" else ["1.5", "2.5", "3.5", "4.5"]
    file = tmp_path / "table.csv"
    file.write_text("a,b\n" + "".join(f"{one},{row}.5\n" for row, one in enumerate([*others, huge])))
    table = read_table(file)
    for target in "ab":
        with pytest.raises(DataError, match=r"[Cc]olumn 'a' of the table has .*infinite.* at data row 5"):
            from_table(table, target, task="regression")
    assert infer_task(table["b"]) == "regression"
    infer_task(table["a"])


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.ones(6, complex), r"array 'z' has the type complex128"),
        (np.zeros(6, [("a", float), ("b", int)]), r"array 'z' has the type \[\('a'"),
        (np.zeros(6, "V8"), r"array 'z' has the type \|V8"),
        (np.zeros((6, 0)), r"array 'z' has shape \(6, 0\), so no columns"),
    ],
)
def test_arrays_of_other_types_are_rejected_by_name(tmp_path, array, said):
    np.savez(tmp_path / "table.npz", x=X, z=array)
    with pytest.raises(DataError, match=said):
        read_table(tmp_path / "table.npz")


def test_big_endian_arrays_are_read(tmp_path):
    np.savez(tmp_path / "table.npz", x=X.astype(">f8"), y=np.arange(6).astype(">i4"))
    table = read_table(tmp_path / "table.npz")
    np.testing.assert_array_equal(table["x1"], X[:, 1])
    data = from_table(table, "y", task="regression")
    assert np.isfinite(data.x_train).all()


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_any_altered_byte_is_either_harmless_or_one_clear_error(tmp_path, suffix):
    file = tmp_path / f"table{suffix}"
    if suffix == ".npz":
        np.savez_compressed(file, x=X, y=np.arange(6))
    else:
        pd.DataFrame({"a": X[:, 0], "b": ["p", "q"] * 3}).to_parquet(file)
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    rejected = 0
    for turn in range(150):
        content = bytearray(whole)
        for place in rng.integers(0, len(whole), 1 + turn % 4):
            content[place] = rng.integers(0, 256)
        if turn % 5 == 0:
            content = content[: rng.integers(1, len(whole))]
        file.write_bytes(bytes(content))
        try:
            read_table(file)
        except DataError as error:
            rejected += str(file) in str(error)
    assert rejected > 30


def test_columns_of_lists_are_rejected_with_their_row(tmp_path):
    pd.DataFrame({"a": [1.0, 2.0], "b": [None, [1, 2]]}).to_parquet(tmp_path / "table.parquet")
    with pytest.raises(DataError, match=r"column 'b' holds lists or records; the first, .*2.*, is in data row 2"):
        read_table(tmp_path / "table.parquet")


def test_archives_that_would_fill_the_memory_are_rejected_unread(tmp_path, little_memory):
    np.savez_compressed(tmp_path / "table.npz", x=np.zeros((2**17, 2)))
    pd.DataFrame({"a": np.zeros(2**18)}).to_parquet(tmp_path / "table.parquet")
    for name in ("table.npz", "table.parquet"):
        assert (tmp_path / name).stat().st_size < 2**16
        with pytest.raises(DataError, match=r"table\.\w+ would take 0\.0 GiB of memory when decompressed; at most"):
            read_table(tmp_path / name)


def test_an_array_that_claims_more_entries_than_the_archive_holds_is_damaged(tmp_path):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    with zipfile.ZipFile(tmp_path / "table.npz", "w") as archive:
        archive.writestr("y.npy", content.getvalue() + bytes(80))
    with pytest.raises(DataError, match=r"not a readable NPZ archive: y\.npy claims the shape \(1099511627776,\)"):
        read_table(tmp_path / "table.npz")


def test_images_that_would_fill_the_memory_are_rejected_unread(tmp_path, little_memory):
    file = tmp_path / "images.gz"
    header = bytes((0, 0, 8, 3)) + np.array([2**20, 28, 28], ">u4").tobytes()
    file.write_bytes(gzip.compress(header + bytes(2**16)))
    with pytest.raises(DataError, match=r"images\.gz would take"):
        read_idx(file, num_axes=3)


def test_an_archive_of_pictures_that_would_fill_the_memory_is_rejected_unread(tmp_path, little_memory):
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.size = 2**21
        archive.addfile(member, io.BytesIO(bytes(2**21)))
    source = source_in(tmp_path, archives=True)
    assert source is not None
    with pytest.raises(DataError, match=r"cifar\.tar\.gz would take"):
        read(source)
