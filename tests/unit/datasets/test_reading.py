"""Files as people write them: any delimiter, decimal mark, encoding, compression and format gives the same table."""

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ergonet._errors import DataError, SettingError
from ergonet.datasets import blocks, limits, read_file, read_table
from ergonet.datasets.frames import as_frame_or_array, as_pandas

TABLE = pd.DataFrame({"length": [1.5, 2.5, -3.25e-7], "kind": ["Zürich", "b", "a b"], "width": [1, 2, 3]})


def _zip(content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.csv", content)
    return stream.getvalue()


def _save_arrays(file: Path, columns: dict[str, Any]) -> None:
    np.savez(file, **columns)


COMPRESSED = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.compress(content, codec="zstd", asbytes=True),
    "zip": _zip,
}
WORDS = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "Zstandard", "zip": "ZIP"}
WRITE = {
    ".parquet": pd.DataFrame.to_parquet,
    ".feather": pd.DataFrame.to_feather,
    ".arrow": lambda table, file: table.to_feather(file, compression="zstd"),
    ".ipc": lambda table, file: table.to_feather(file, compression="uncompressed"),
    ".xlsx": lambda table, file: table.to_excel(file, index=False),
    ".npz": lambda table, file: _save_arrays(file, {str(name): column.tolist() for name, column in table.items()}),
}


@pytest.mark.parametrize("compression", COMPRESSED)
def test_compression_is_told_from_the_file(tmp_path, compression):
    content = COMPRESSED[compression](TABLE.to_csv(index=False).encode())
    for name in (f"table.csv.{compression}", "table.csv"):
        (tmp_path / name).write_bytes(content)
        found = read_file(tmp_path / name)
        pd.testing.assert_frame_equal(found.table, TABLE)
        assert found.said == f"{WORDS[compression]}, commas, UTF-8"
        pd.testing.assert_frame_equal(pd.concat(blocks(tmp_path / name, 2)), TABLE)


@pytest.mark.parametrize("compression", COMPRESSED)
def test_a_small_file_never_fills_the_memory(tmp_path, monkeypatch, compression):
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**20)
    file = tmp_path / f"table.csv.{compression}"
    file.write_bytes(COMPRESSED[compression](b"a,b\n" + b"1,2\n" * 2**19))
    with pytest.raises(DataError, match=r"would take .* when decompressed; at most 1\.0 MiB"):
        read_table(file)
    assert sum(len(block) for block in blocks(file, 2**18)) == 2**19
    file.write_bytes(COMPRESSED[compression](b"a,b\n" + b"1" * 2**22))
    with pytest.raises(DataError, match=r"one line would take"):
        next(blocks(file))


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_arrow_buffers_are_counted_before_they_are_decompressed(tmp_path, monkeypatch, codec):
    pd.DataFrame({"a": np.zeros(2**18)}).to_feather(tmp_path / "table.arrow", compression=codec)
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**20)
    with pytest.raises(DataError, match=r"table\.arrow would take 2\.0 MiB of memory when decompressed"):
        read_table(tmp_path / "table.arrow")
    assert sum(map(len, blocks(tmp_path / "table.arrow", 2**18))) == 2**18  # in batches of half a MiB
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**18)
    with pytest.raises(DataError, match=r"table\.arrow would take 0\.5 MiB"):
        next(blocks(tmp_path / "table.arrow"))


def test_a_workbook_that_would_fill_the_memory_is_rejected_unread(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "table.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", bytes(2**21))
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**20)
    with pytest.raises(DataError, match=r"table\.xlsx would take 2\.0 MiB"):
        read_table(tmp_path / "table.xlsx")


@pytest.mark.parametrize(
    ("encoding", "word"), [("utf-8-sig", "UTF-8"), ("utf-16", "UTF-16"), ("cp1252", "Windows-1252")]
)
def test_encoding_is_told_from_the_file(tmp_path, encoding, word):
    (tmp_path / "table.csv").write_bytes(TABLE.to_csv(index=False, sep=";").encode(encoding))
    found = read_file(tmp_path / "table.csv")
    pd.testing.assert_frame_equal(found.table, TABLE)
    assert found.said == f"semicolons, {word}"


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " "])
def test_decimal_commas_are_told_from_the_fields(tmp_path, delimiter):
    file = tmp_path / ("table.txt" if delimiter == " " else "table.csv")
    TABLE.to_csv(file, index=False, sep=delimiter, decimal=",")
    found = read_file(file)
    pd.testing.assert_frame_equal(found.table, TABLE)
    assert "decimal commas" in found.said
    pd.testing.assert_frame_equal(pd.concat(blocks(file, 1)), TABLE)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a;b\n1.234,5;1\n12,25;2\n1.000;3\n", [1234.5, 12.25, 1000.0]),
        ('a,b\n"1,234.5",1\n12.25,2\n"1,000",3\n', [1234.5, 12.25, 1000.0]),
        ("a;b\n1'075.50;1\n12.25;2\n-1'000'000;3\n", [1075.5, 12.25, -1e6]),
        ("a,b\n1\u2019075.50,1\n1\u2019000,2\n", [1075.5, 1000.0]),
        ("a;b\n1 075,50;1\n1 000;2\n", [1075.5, 1000.0]),
        ("a\tb\n1\u00a0075,50\t1\n1\u00a0000\t2\n", [1075.5, 1000.0]),
        ("a;b\n1\u202f075.50;1\n1\u202f000;2\n", [1075.5, 1000.0]),
        ("a;b\n1\u2009075;1\n1;2\n", [1075.0, 1.0]),
        ("a;b\n1,5;01.02.2020\n2,5;03.04.2020\n", [1.5, 2.5]),
        ("a;b\n1.5;2\n2.5;3\n", [1.5, 2.5]),
    ],
)
def test_marks_between_groups_of_digits(tmp_path, content, expected):
    (tmp_path / "table.csv").write_text(content, encoding="utf-8")
    table = read_table(tmp_path / "table.csv")
    assert table["a"].tolist() == expected
    assert "2020" not in content or table["b"].tolist() == ["01.02.2020", "03.04.2020"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a;b\n0.125;2,5\n-0.250;3,5\n", [0.125, -0.25]),
        ('a,b\n"0,125",1\n"0,250",2\n', ["0,125", "0,250"]),
        ("a;b\n0,125;1\n1,250;2\n", [0.125, 1.25]),
    ],
)
def test_no_group_of_digits_begins_with_zero(tmp_path, content, expected):
    (tmp_path / "table.csv").write_text(content)
    assert read_table(tmp_path / "table.csv")["a"].tolist() == expected


@pytest.mark.parametrize("entries", [("1'075", "1 000"), ("1'075'00", "1'000"), ("1'07", "1'000"), ("0'750", "1'000")])
def test_marks_that_are_not_consistent_are_no_marks_between_thousands(tmp_path, entries):
    (tmp_path / "table.csv").write_text("".join(f"{one};1\n" for one in ("a", *entries)).replace("a;1", "a;b"))
    assert read_table(tmp_path / "table.csv")["a"].tolist() == list(entries)


@pytest.mark.parametrize("mark", [",", ";"])
def test_a_quoted_name_of_a_column_may_break_its_line(tmp_path, mark):
    table = pd.DataFrame({"age\n(years), rounded; full": [1, 2], "size": [0.5, 1.5], 'a "b"\nc': ["x\ny", "z"]})
    table.to_csv(tmp_path / "table.csv", index=False, sep=mark)
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.csv"), table)
    pd.testing.assert_frame_equal(pd.concat(blocks(tmp_path / "table.csv", 1)), table)


def test_decimal_points_and_commas_in_one_file_are_not_guessed(tmp_path):
    (tmp_path / "table.csv").write_text("a;b\n1,5;1.5\n2,5;2.5\n")
    assert read_table(tmp_path / "table.csv").to_numpy().tolist() == [["1,5", 1.5], ["2,5", 2.5]]


def test_a_column_is_of_one_type_however_far_apart_its_texts_are(tmp_path, monkeypatch):
    file, entries = tmp_path / "table.csv", ["007", *["8"] * 400_000, "", "x"]
    file.write_text("a,b\n" + "".join(f"{one},1\n" for one in entries))
    table = read_table(file)
    assert table["a"].fillna("").tolist() == entries
    assert table["b"].dtype == np.int64
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**20)
    with pytest.raises(DataError, match="would take"):
        read_table(file)


@pytest.mark.parametrize("suffix", WRITE)
def test_other_formats(tmp_path, suffix):
    file = tmp_path / f"table{suffix}"
    WRITE[suffix](TABLE, file)
    pd.testing.assert_frame_equal(read_table(file), TABLE, check_dtype=suffix != ".npz")
    found = list(blocks(file, 2))
    assert [len(block) for block in found] == [2, 1]
    pd.testing.assert_frame_equal(pd.concat(found), TABLE, check_dtype=suffix != ".npz")


def test_texts_that_many_rows_of_an_arrow_file_share_are_counted(tmp_path, monkeypatch):
    pl.DataFrame({"a": [1.5, 2.5], "b": ["x" * 40, None]}).write_ipc(tmp_path / "table.arrow")
    assert read_table(tmp_path / "table.arrow")["b"].tolist()[0] == "x" * 40
    pl.DataFrame({"b": ["x" * 4000] * 1000}).write_ipc(tmp_path / "table.arrow")
    monkeypatch.setattr(limits, "largest_bytes", lambda: 2**20)
    with pytest.raises(DataError, match=r"table\.arrow would take 3\.8 MiB"):
        read_table(tmp_path / "table.arrow")


def test_workbooks_need_names_of_columns(tmp_path):
    for names, said in (([["a", None]], "column 2 .* has no name"), ([["a", "a"]], "repeats the name 'a'")):
        pd.DataFrame([*names, [1, 2]]).to_excel(tmp_path / "table.xlsx", index=False, header=False)
        with pytest.raises(DataError, match=said):
            read_table(tmp_path / "table.xlsx")


def test_archives_of_several_files_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "table.zip", "w") as archive:
        archive.writestr("a.csv", "a,b\n1,2\n")
        archive.writestr("b.csv", "a,b\n1,2\n")
    with pytest.raises(DataError, match=r"table\.zip holds 2 files; an archive of exactly one table"):
        read_table(tmp_path / "table.zip")


def test_blocks_of_no_rows_are_refused(tmp_path):
    with pytest.raises(SettingError, match=r"`rows` must be an integer of at least 1, got 0"):
        next(blocks(tmp_path / "table.csv", 0))
    (tmp_path / "table.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="has no data rows"):
        next(blocks(tmp_path / "table.csv"))


texts = st.text(st.sampled_from("abzüéÅ -_'/"), min_size=1, max_size=6).map(str.strip).filter(bool)


@st.composite
def tables(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(1, 6))
    entries = {
        "number": st.floats(-1e6, 1e6),
        "whole": st.integers(-(2**40), 2**40),
        "gaps": st.one_of(st.none(), st.floats(-10, 10)),
        "word": texts,
    }
    kinds = ["number", *draw(st.lists(st.sampled_from([*entries]), min_size=1, max_size=3))]
    found = {f"{kind} {i}": draw(st.lists(entries[kind], min_size=rows, max_size=rows)) for i, kind in enumerate(kinds)}
    return pd.DataFrame(found).convert_dtypes(convert_string=True, convert_integer=False, convert_floating=False)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    table=tables(),
    marks=st.sampled_from([(",", "."), (";", "."), (";", ","), ("\t", "."), ("\t", ",")]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    compression=st.sampled_from([None, *COMPRESSED]),
)
def test_every_text_table_is_read_as_pandas_reads_what_it_wrote(tmp_path: Path, table, marks, encoding, compression):
    delimiter, decimal = marks
    text = table.to_csv(index=False, sep=delimiter, decimal=decimal)
    file = tmp_path / ("table.csv" if compression is None else f"table.csv.{compression}")
    file.write_bytes((COMPRESSED[compression] if compression else bytes)(text.encode(encoding)))
    expected = pd.read_csv(io.StringIO(text), sep=delimiter, decimal=decimal, skipinitialspace=True)
    pd.testing.assert_frame_equal(read_table(file), expected)


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), suffix=st.sampled_from([one for one in WRITE if one != ".npz"]))
def test_every_other_table_is_read_as_it_was_written(tmp_path: Path, table, suffix):
    WRITE[suffix](table, tmp_path / f"table{suffix}")
    found = read_table(tmp_path / f"table{suffix}")
    assert found.columns.tolist() == table.columns.tolist()
    for name in table.columns:
        assert found[name].isna().tolist() == table[name].isna().tolist()
        entries, expected = found[name].dropna().tolist(), table[name].dropna().tolist()
        is_rounded = suffix == ".xlsx" and name[0] in "ng"  # a workbook has 16 digits
        assert entries == (pytest.approx(expected, rel=1e-14) if is_rounded else expected)


@pytest.mark.parametrize("make", [pl.from_pandas, pa.Table.from_pandas, pd.DataFrame])
def test_tables_of_other_libraries(make):
    pd.testing.assert_frame_equal(as_pandas(make(TABLE), argument="X"), TABLE, check_dtype=False)
    assert isinstance(as_frame_or_array(make(TABLE)), pd.DataFrame)


def test_what_is_no_table_in_memory_is_refused():
    with pytest.raises(DataError, match=r"X must be a table of pandas, Polars or PyArrow, got LazyFrame.*Collect"):
        as_pandas(pl.DataFrame({"a": [1]}).lazy(), argument="X")
    array = np.ones(2)
    assert as_frame_or_array(array) is array


def test_whole_numbers_of_all_sizes_stay_whole(tmp_path):
    rows = 20_000  # of so many columns that pandas reads them in parts
    ids = np.concatenate(
        [np.arange(rows // 2, dtype=np.uint64), np.uint64(2**63) + np.arange(rows // 2, dtype=np.uint64)]
    )
    line = ",1" * 99 + "\n"
    head = "id," + ",".join(f"a{column}" for column in range(99)) + "\n"
    (tmp_path / "table.csv").write_text(head + "".join(f"{one}{line}" for one in ids))
    assert read_table(tmp_path / "table.csv")["id"].tolist() == ids.tolist()


def test_blanks_that_delimit_are_no_marks_between_thousands(tmp_path):
    (tmp_path / "table.dat").write_text("".join(f"1,{row} {200 + row}\n" for row in range(25, 40)))
    table = read_table(tmp_path / "table.dat")
    assert table.iloc[0].tolist() == [1.25, 225]
