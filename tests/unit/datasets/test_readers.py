"""Reading files: every kind that is known, every way to fail."""

import gzip
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ergonet._errors import DataError
from ergonet.datasets import read_table

TABLE = pd.DataFrame({"length": [1.5, 2.5, 3.5], "width": [1, 2, 3], "kind": ["a", "b", "a"]})


@pytest.mark.parametrize(
    ("suffix", "delimiter"),
    [(".csv", ","), (".csv", ";"), (".csv", "\t"), (".tsv", "\t"), (".txt", ","), (".data", " ")],
)
def test_text_tables_find_their_delimiter(tmp_path, suffix, delimiter):
    file = tmp_path / f"table{suffix}"
    TABLE.to_csv(file, sep=delimiter, index=False)
    pd.testing.assert_frame_equal(read_table(file), TABLE)
    pd.testing.assert_frame_equal(read_table(str(file)), TABLE)


def test_csv_with_byte_order_mark_quotes_and_spaces(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text('\ufeffname, size\n"Bern, old", 1\nThun, 2\n', encoding="utf-8")
    table = read_table(file)
    assert table.columns.tolist() == ["name", "size"]
    assert table["name"].tolist() == ["Bern, old", "Thun"]
    assert table["size"].tolist() == [1, 2]


def test_semicolons_win_over_decimal_commas(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("a;b\n1,5;2,5\n3,5;4,5\n")
    assert read_table(file).shape == (2, 2)


def test_white_space_without_names_gets_numbered_columns(tmp_path):
    file = tmp_path / "data.txt"
    file.write_text("# made by hand\n 1.0   2.0  3 \n 4.0   5.0  6 \n")
    table = read_table(file)
    assert table.columns.tolist() == ["column_1", "column_2", "column_3"]
    assert table.to_numpy().tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_comma_data_file_without_names(tmp_path):
    file = tmp_path / "iris.data"
    file.write_text("5.1,3.5,setosa\n4.9,3.0,setosa\n6.0,2.9,virginica\n")
    assert read_table(file)["column_3"].tolist() == ["setosa", "setosa", "virginica"]


def test_the_word_none_is_a_category_and_empty_fields_are_missing(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text("a,b\nNone,1\nsome,\n")
    table = read_table(file)
    assert table["a"].tolist() == ["None", "some"]
    assert table["b"].isna().tolist() == [False, True]


@pytest.mark.parametrize("suffix", [".parquet", ".pq"])
def test_parquet(tmp_path, suffix):
    file = tmp_path / f"table{suffix}"
    TABLE.to_parquet(file)
    pd.testing.assert_frame_equal(read_table(file), TABLE)


@pytest.mark.parametrize("name", ["x", "X"])
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_npz_with_inputs_and_target(tmp_path, name, shape):
    file = tmp_path / "table.npz"
    inputs = np.arange(12.0).reshape(4, 3)
    arrays: dict[str, Any] = {name: inputs, "y": np.arange(4).reshape(shape)}
    np.savez(file, **arrays)
    table = read_table(file)
    assert table.columns.tolist() == ["x0", "x1", "x2", "y"]
    np.testing.assert_array_equal(table[["x0", "x1", "x2"]].to_numpy(), inputs)
    assert table["y"].tolist() == [0, 1, 2, 3]


def test_npz_with_several_targets_and_without_target(tmp_path):
    file = tmp_path / "table.npz"
    np.savez(file, x=np.ones((4, 2)), y=np.ones((4, 2)))
    assert read_table(file).columns.tolist() == ["x0", "x1", "y0", "y1"]
    np.savez(file, x=np.ones((4, 2)))
    assert read_table(file).columns.tolist() == ["x0", "x1"]


def test_npz_with_named_columns(tmp_path):
    file = tmp_path / "table.npz"
    np.savez(file, length=np.array([1.0, 2.0]), kind=np.array(["a", "b"]))
    table = read_table(file)
    assert table["length"].tolist() == [1.0, 2.0]
    assert table["kind"].tolist() == ["a", "b"]


def test_one_row_is_enough_for_prediction_but_can_be_refused(tmp_path):
    file = tmp_path / "new.csv"
    file.write_text("a,b\n1,2\n")
    assert len(read_table(file)) == 1
    with pytest.raises(DataError, match=r"new\.csv has only 1 data row; at least 2 are needed"):
        read_table(file, minimum_rows=2)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", b"", r"empty\.csv is empty \(0 bytes\)"),
        ("blank.csv", b"\n \n\n", r"blank\.csv is empty: no line contains data"),
        ("header.csv", b"a,b\n", r"header\.csv has no data rows"),
        ("binary.csv", b"\x89PNG\r\n\x1a\n\x00\x00", r"not a text table: it holds zero bytes"),
        ("zeros.csv", b"a,b\n\x00\x00\x00,1\n", r"not a text table: it holds zero bytes"),
        ("bytes.csv", b"a,b\n\xff\x03,1\n", r"it is not valid UTF-8, and holds the control character b'\\x03'"),
        ("late.csv", b"a,b\n" + b"1,2\n" * 300_000 + b"\x81,3\n", r"not a text table: byte \d+ is neither UTF-8 nor"),
        ("wide.csv", b"\xff\xfea\x00,\x00b", r"not a text table: it begins like UTF-16, but is not"),
        ("page.csv", b"<!doctype html><p>no,table</p>", r"looks like a web page or JSON"),
        ("single.csv", b"a\n1\n2\n", r"only one column when split at a comma, a semicolon, a tab"),
        ("prose.csv", b"It was a dark night\nand nothing moved\n", r"first line is 'It was a dark night'"),
        ("caret.csv", b"a^b\n1^2\n", r"which delimiter it uses"),
        ("ragged.csv", b"a,b\n1,2\n1,2,3\n", r"first line holds 2 fields, .*line 3 holds 3"),
        ("index.csv", b"a,b\n1,2,3\n4,5,6\n", r"first line holds 2 fields"),
        ("twice.csv", b"a,b,a\n1,2,3\n", r"'a' appears more than once \(columns 1 and 3"),
        ("unnamed.csv", b",a,b\n0,1,2\n", r"column 1 \(counting from 1\) has no name.*saved row index"),
        ("numbers.csv", b"1.5,2\n3,4\n", r"no column names: its first line holds numbers only"),
        ("fake.parquet", b"a,b\n1,2\n", r"not a readable Parquet file"),
        ("fake.npz", b"a,b\n1,2\n", r"fake\.npz"),
        ("broken.npz", b"PK\x03\x04 and then nothing", r"not a readable NPZ archive"),
        ("table.ods", b"PK", r"files of type '\.ods' cannot be read\. Known: \.csv.*Save the table as CSV"),
        ("fake.xlsx", b"PK", r"fake\.xlsx is not a readable Excel workbook"),
        ("fake.arrow", b"a,b\n1,2\n", r"fake\.arrow is not a readable Arrow file"),
        ("fake.csv.gz", b"a,b\n1,2\n", r"is not compressed with gzip, which its name says"),
        ("cut.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-4], r"cut\.csv\.gz cannot be decompressed \(gzip\)"),
        ("table.npz.gz", gzip.compress(b"PK", mtime=0), r"of compressed files, only text is read"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(file)


def test_missing_file_offers_the_nearest(tmp_path):
    (tmp_path / "houses.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"house\.csv was not found\. Did you mean '.*/houses\.csv'"):
        read_table(tmp_path / "house.csv")
    with pytest.raises(DataError, match=r"was not found\. Did you mean 'digits'"):
        read_table(tmp_path / "digit")
    with pytest.raises(DataError, match=r"there is no directory"):
        read_table(tmp_path / "nowhere" / "house.csv")
    with pytest.raises(DataError, match=r"is a directory"):
        read_table(tmp_path)


def test_dates_beyond_those_of_pandas_are_refused(tmp_path):
    file = tmp_path / "table.npz"
    np.savez(file, day=np.array([2**62, 1], "M8[D]"), y=np.zeros(2))
    with pytest.raises(DataError, match=r"table\.npz: a date is beyond those that can be read: .* Correct it"):
        read_table(file)


def test_pickled_arrays_are_never_loaded(tmp_path):
    file = tmp_path / "table.npz"
    np.savez(file, x=np.array([{"a": 1}, None], dtype=object))
    with pytest.raises(DataError, match=r"holds pickled objects, which can run any code"):
        read_table(file)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.ones((3, 2, 2)), "y": np.ones(3)}, r"array 'x' has shape \(3, 2, 2\)"),
        ({"table": np.ones((3, 2))}, r"array 'table' has shape \(3, 2\)"),
        ({"x": np.ones((3, 2)), "y": np.ones(4)}, r"differ in their number of rows: 'x0' 3, 'y' 4"),
        ({"number": np.float64(3.0)}, r"array 'number' has shape \(\)"),
        ({}, r"the archive contains no arrays"),
    ],
)
def test_npz_of_other_shapes_is_refused(tmp_path, arrays, message):
    file = tmp_path / "table.npz"
    np.savez(file, **arrays)
    with pytest.raises(DataError, match=message):
        read_table(file)


def test_single_array_under_npz_name_is_refused(tmp_path):
    file = tmp_path / "table.npz"
    with file.open("wb") as stream:
        np.save(stream, np.ones((3, 2)))
    with pytest.raises(DataError, match=r"holds a single array.*numpy\.savez"):
        read_table(file)
