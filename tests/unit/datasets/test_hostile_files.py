"""Files that are damaged, hostile or merely odd: one clear error each, before memory is filled."""

import gzip
import io
import tarfile
import zipfile
from contextlib import nullcontext

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
    with pytest.raises(DataError, match="5 different ones from 1 to inf") if kind == "int" else nullcontext():
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
        with pytest.raises(
            DataError, match=r"table\..* would take 2\.0 MiB of memory when decompressed; at most 1\.0 MiB"
        ):
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


def test_short_lines_of_a_wide_table_take_space_too(tmp_path, little_memory):
    names = ",".join(f"c{column}" for column in range(500))
    (tmp_path / "table.csv").write_text(f"{names}\n" + "1\n" * 500)
    with pytest.raises(DataError, match=r"table\.csv would take 1\.9 MiB"):
        read_table(tmp_path / "table.csv")


def test_texts_that_a_file_holds_once_are_counted_as_often_as_they_occur(tmp_path, little_memory):
    texts = pd.Series(["x" * 2000, "y"] * 1000).astype("category").cat.rename_categories(str)
    pd.DataFrame({"a": np.arange(2000.0), "b": texts.astype(str)}).to_parquet(tmp_path / "table.parquet")
    assert (tmp_path / "table.parquet").stat().st_size < 2**16
    with pytest.raises(DataError, match=r"table\.parquet would take 1\.9 MiB"):
        read_table(tmp_path / "table.parquet")
    pd.DataFrame({"b": ["x" * 2000] * 2000}).to_parquet(
        tmp_path / "table.parquet", use_dictionary=False, column_encoding={"b": "DELTA_BYTE_ARRAY"}
    )
    with pytest.raises(DataError, match="column 'b' has the encoding DELTA_BYTE_ARRAY"):
        read_table(tmp_path / "table.parquet")


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet"])
def test_absurd_numbers_of_columns_and_names_are_rejected(tmp_path, monkeypatch, suffix):
    file = tmp_path / f"table{suffix}"
    write = {
        ".csv": lambda frame: frame.to_csv(file, index=False),
        ".npz": lambda frame: np.savez(file, **({"x": frame} if len(frame.columns) > 2 else dict(frame.items()))),
        ".parquet": lambda frame: frame.to_parquet(file),
    }[suffix]
    write(pd.DataFrame({"n" * 1001: [1.0, 2.0], "y": [1.0, 3.0]}))
    with pytest.raises(DataError, match=r"the name of column 1 .* has 1001 characters, starting with 'nnn"):
        read_table(file)
    monkeypatch.setattr(limits, "MOST_COLUMNS", 20)
    write(pd.DataFrame(np.ones((2, 21)), columns=[f"c{column}" for column in range(21)]))
    with pytest.raises(DataError, match="has 21 columns; at most 20 are read"):
        read_table(file)


def test_a_header_may_be_longer_than_what_is_read_to_find_the_delimiter(tmp_path):
    frame = pd.DataFrame(np.arange(9000.0).reshape(3, 3000), columns=[f"{'column':-<30}{c}" for c in range(3000)])
    frame.to_csv(tmp_path / "table.csv", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.csv"), frame)


@pytest.mark.parametrize("field", ["x" * 200_000, '"' + "x" * 200_000 + '"'])
def test_a_field_longer_than_any_table_has_is_one_error(tmp_path, field):
    (tmp_path / "table.csv").write_text(f"{field},b\n1,2\n3,4\n")
    with pytest.raises(DataError, match=r"characters|only one column"):
        read_table(tmp_path / "table.csv")


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.arange(6).astype("m8"), "array 'y' holds durations without a unit"),
        (np.array(["\ud800", "c"] * 3), "array 'y' holds text that is not valid Unicode"),
    ],
)
def test_arrays_that_pandas_cannot_hold_are_rejected_by_name(tmp_path, array, said):
    np.savez(tmp_path / "table.npz", x=X, y=array)
    with pytest.raises(DataError, match=said):
        read_table(tmp_path / "table.npz")


def test_errors_quote_the_beginning_of_long_values(tmp_path):
    text = "x" * 5000
    (tmp_path / "table.csv").write_text(f"a,b\n{text},1\n{text},2\n3,4\n")
    with pytest.raises(DataError, match=r"'a' of the table holds 2 values .*: the first is 'x{79}\.\.\. at") as caught:
        from_table(read_table(tmp_path / "table.csv"), "a", task="regression")
    assert len(str(caught.value)) < 500


def test_the_limit_is_a_third_of_what_a_control_group_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "_CONTROL_GROUP", tmp_path / "memory.max")
    whole = limits.largest_bytes()
    for text, expected in ((str(3 * 2**30), min(whole, 2**30)), ("max", whole), ("17", 2**28)):
        (tmp_path / "memory.max").write_text(text)
        assert limits.largest_bytes() == expected
