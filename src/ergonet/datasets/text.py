"""Tables from delimited text, whole or in blocks of rows."""

import io
import re
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pandas as pd

from ergonet._errors import DataError
from ergonet.datasets.layout import DELIMITERS, GROUPED, POINTED, SPACE, Layout, layout_of, not_text
from ergonet.datasets.limits import check_decompressed, check_table
from ergonet.datasets.opening import compression_of, open_bytes, whole_content

# The default list of pandas without "None", which some tables use as a category.
_MISSING = ["", "NA", "N/A", "n/a", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "#N/A", "<NA>"]
_DELIMITED = tuple(one for one in DELIMITERS if one != SPACE)
# Delimiters by suffix; a file that may have white space between its fields may lack names, and have comments.
SUFFIXES: dict[str, Sequence[str]] = {
    ".csv": _DELIMITED,
    ".tsv": ("\t",),
    ".txt": tuple(DELIMITERS),
    ".data": tuple(DELIMITERS),
    ".dat": tuple(DELIMITERS),
}


def read_text(file: Path, suffix: str) -> tuple[pd.DataFrame, str]:
    """Read a whole table, decompressed in memory, and say how it is written.

    Args:
        file: The file.
        suffix: One of `SUFFIXES`, of the file after decompression.

    Raises:
        DataError: It is not a regular text table, or would not fit in memory.
    """
    compression = compression_of(file)
    with whole_content(file, compression) if compression else file.open("rb") as stream:
        layout = _layout(stream, file, suffix)
        check_table(layout.num_lines, len(layout.names), file=file)  # missing fields take space, too
        stream.seek(0)
        with _as_errors(file, layout):
            table = _with_groups(_parsed(stream, file, layout), layout)
    return table, ", ".join([*([compression] if compression else []), layout.said])


def text_blocks(file: Path, suffix: str, rows: int) -> Iterator[pd.DataFrame]:
    """Read a table in blocks of at most `rows` rows; arguments and errors as of `read_text`."""
    compression = compression_of(file)
    with open_bytes(file, compression) as stream:
        layout = _layout(stream, file, suffix)
    with open_bytes(file, compression) as stream:
        with _as_errors(file, layout):
            found = iter(pd.read_csv(stream, **_arguments(layout), iterator=True, chunksize=rows))
        while True:
            with _as_errors(file, layout):  # not while a caller has the block: this changes what warnings do
                block = next(found, None)
            if block is None:
                return
            yield _with_groups(block, layout)


def _parsed(stream: Any, file: Path, layout: Layout) -> pd.DataFrame:
    """The whole table, which pandas reads in parts, or all at once if they may disagree about the type of a column."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.DtypeWarning)
        with suppress(pd.errors.DtypeWarning):
            table = pd.read_csv(stream, **_arguments(layout))
            if not any(_may_be_rounded(table[name]) for name in table.columns):
                return table
    size = stream.seek(0, io.SEEK_END)  # of the text, which is then in memory beside the table
    check_decompressed(size, file=f"{file}, in which a column holds both numbers and texts, or huge numbers,")
    stream.seek(0)
    return pd.read_csv(stream, **_arguments(layout), low_memory=False)


def _may_be_rounded(column: Any) -> bool:
    """Whether whole numbers of some parts were so large that they became floats beside smaller ones."""
    return column.dtype == "float64" and bool(column.abs().max() >= 2**63)


def _layout(stream: io.BufferedIOBase, file: Path, suffix: str) -> Layout:
    delimiters = SUFFIXES[suffix]
    return layout_of(stream, file=file, delimiters=delimiters, header_required=SPACE not in delimiters)


def _arguments(layout: Layout) -> dict[str, Any]:
    return {
        "sep": layout.delimiter,
        "decimal": layout.decimal,
        "header": 0 if layout.has_header else None,
        "names": list(layout.names),
        "index_col": False,
        "skipinitialspace": True,
        "comment": "#" if layout.comments else None,
        "keep_default_na": False,
        "na_values": _MISSING,
        "encoding": layout.encoding,
    }


@contextmanager
def _as_errors(file: Path, layout: Layout) -> Generator[None]:
    """Turn what pandas raises for irregular tables into one `DataError`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except UnicodeDecodeError as error:
        raise not_text(file, f"byte {error.start} is neither UTF-8 nor {layout.encoding}") from error
    except UnicodeError as error:
        raise not_text(file, str(error)) from error
    except pd.errors.ParserWarning as error:
        raise DataError(_ragged(file, layout, "later lines hold more")) from error
    except pd.errors.ParserError as error:
        found = re.search(r"Expected \d+ fields in line (\d+), saw (\d+)", str(error))
        where = f"line {found[1]} holds {found[2]}" if found else str(error).strip()
        raise DataError(_ragged(file, layout, where)) from error


def _ragged(file: Path, layout: Layout, where: str) -> str:
    return (
        f"{file} is not a regular table split at {DELIMITERS[layout.delimiter]}: its first line holds "
        f"{len(layout.names)} fields, {where}. Check that line, its quotes and the delimiter."
    )


def _with_groups(table: pd.DataFrame, layout: Layout) -> pd.DataFrame:
    """Numbers for the columns of texts that all are numbers with one mark between groups of three digits."""
    grouped = GROUPED[layout.decimal]
    for name in table.columns:
        column: Any = table[name]
        if column.dtype.kind in "biufcmM":
            continue
        texts = [one.strip() for one in column.dropna() if isinstance(one, str)]
        if len(texts) < int(column.notna().sum()):
            continue
        marks = {found["mark"] for one in texts if (found := grouped.fullmatch(one))}
        if len(marks) == 1 and all(grouped.fullmatch(one) or _is_plain(one, layout) for one in texts):
            plain = column.str.strip().str.replace(marks.pop(), "", regex=False).str.replace(",", ".", regex=False)
            table[name] = plain.astype(float)
    return table


def _is_plain(text: str, layout: Layout) -> bool:
    points = text.replace(",", ".", 1) if layout.decimal == "," else text
    return "." not in text.replace(layout.decimal, "") and POINTED.fullmatch(points) is not None
