"""What is told of a text table from its content: encoding, delimiter, decimal mark and names of the columns."""

import codecs
import csv
import io
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ergonet._errors import DataError
from ergonet.datasets.limits import LONGEST_NAME, check_decompressed, check_name_lengths, check_table

SPACE = r"\s+"
DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a vertical bar", SPACE: "white space"}
_PLURAL = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars", SPACE: "white space"}
_HEAD_CHARACTERS = 65536
_LONGEST_LINE = 2**26  # characters: names of more columns than are read
_LINES = 50
_CHUNK = 2**20
_UTF8, _UTF16, _WINDOWS = "utf-8-sig", "utf-16", "cp1252"
_ENCODINGS = {_UTF8: "UTF-8", _UTF16: "UTF-16", _WINDOWS: "Windows-1252"}
# Bytes that no text table holds: control characters but for tabs, line ends, form feeds and the old end-of-file mark.
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x19\x1b-\x1f\x7f]")

POINTED = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
MARKS = "'\u2019 \u00a0\u202f\u2009"  # between thousands, besides point and comma: apostrophes and kinds of blanks
# By decimal mark: the same mark between all groups of three digits.
GROUPED = {
    decimal: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?P<mark>[{other}{MARKS}])\d{{3}}((?P=mark)\d{{3}})*([{decimal}]\d+)?")
    for decimal, other in (".,", ",.")
}


@dataclass(frozen=True)
class Layout:
    """How a text table is written.

    Attributes:
        encoding: ``utf-8-sig``, ``utf-16`` or ``cp1252``.
        delimiter: One of `DELIMITERS`.
        decimal: ``.`` or ``,``.
        names: Names of the columns.
        has_header: Whether they stand in the first line.
        comments: Whether ``#`` starts a comment.
        num_lines: Number of lines, empty ones included.
    """

    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    has_header: bool
    comments: bool
    num_lines: int

    @property
    def said(self) -> str:
        """In words: ``semicolons, decimal commas, Windows-1252``."""
        words = [_PLURAL[self.delimiter], *(["decimal commas"] if self.decimal == "," else [])]
        return ", ".join([*words, _ENCODINGS[self.encoding], *([] if self.has_header else ["no names of columns"])])


def layout_of(stream: io.BufferedIOBase, *, file: Path, delimiters: Sequence[str], header_required: bool) -> Layout:
    """Tell the layout of a text table; the stream is read twice and left at its beginning if it can be sought.

    Args:
        stream: The content after decompression.
        file: What the content is called in messages.
        delimiters: Those that may be meant.
        header_required: Whether the first line must hold names; otherwise ``#`` starts comments.

    Raises:
        DataError: It is not a text table, has only one column, or its names are missing or repeated.
    """
    head, encoding, num_lines = _survey(stream, file)
    lines = _lines_of(head, file=file, comments=not header_required)
    delimiter = _sniff(lines[:_LINES], delimiters)
    if delimiter is None:
        kinds = ", ".join(DELIMITERS[one] for one in delimiters)
        raise DataError(
            f"{file} has only one column when split at {kinds}: its first line is {lines[0][:80]!r}. A table "
            "needs a target and at least one input. Check that the file is CSV, and which delimiter it uses."
        )
    records = _records(lines, delimiter)
    fields = records[0]
    numeric = [is_numeric(one) for one in fields]
    if header_required and all(numeric):
        raise DataError(
            f"{file} has no column names: its first line holds numbers only ({lines[0][:80]!r}). "
            "Add a first line with the names."
        )
    has_header = header_required or not any(numeric)
    names = fields if has_header else [f"column_{i + 1}" for i in range(len(fields))]
    check_name_lengths(names, file=file)
    _check_names(names, file)
    check_table(1, len(names), file=file)
    decimal = _decimal(records[has_header:], delimiter)
    return Layout(encoding, delimiter, decimal, tuple(names), has_header, not header_required, num_lines)


def _survey(stream: io.BufferedIOBase, file: Path) -> tuple[str, str, int]:
    """Head, encoding and number of lines; reads everything once."""
    beginning = stream.read(2)
    is_wide = beginning in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    decoder = codecs.getincrementaldecoder(_UTF16 if is_wide else _UTF8)()
    encoding, head, lines, longest = _UTF16 if is_wide else _UTF8, b"", 0, 0
    part = beginning
    while True:
        head += part if len(head) < _LONGEST_LINE and not _is_enough(head) else b""
        lines += part.count(b"\n") + part.count(b"\r")
        end = max(part.rfind(b"\n"), part.rfind(b"\r"))
        longest = longest + len(part) if end < 0 else len(part) - end
        check_decompressed(longest, file=f"{file}: one line")
        if not is_wide and b"\0" in part:
            raise not_text(file, "it holds zero bytes")
        if encoding != _WINDOWS:
            encoding = _still(decoder, part, encoding, file)
        if encoding == _WINDOWS and (found := _CONTROL.search(part)):
            raise not_text(file, f"it is not valid UTF-8, and holds the control character {found[0]!r}")
        if not part:
            break
        part = stream.read(_CHUNK)
    if encoding == _WINDOWS and _CONTROL.search(head):
        raise not_text(file, "it is not valid UTF-8, and holds control characters")
    return _decoded(head, encoding, file), encoding, lines


def _is_enough(head: bytes) -> bool:
    first = max(head.find(b"\n"), head.find(b"\r"))
    return first >= 0 and len(head) - first > 4 * _HEAD_CHARACTERS


def _still(decoder: codecs.IncrementalDecoder, part: bytes, encoding: str, file: Path) -> str:
    """The encoding after another part: text that is not UTF-8 is what Windows writes in Western Europe."""
    try:
        decoder.decode(part, final=not part)
    except UnicodeDecodeError as error:
        if encoding == _UTF16:
            raise not_text(file, "it begins like UTF-16, but is not") from error
        return _WINDOWS
    return encoding


def _decoded(head: bytes, encoding: str, file: Path) -> str:
    try:
        return codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError as error:
        raise not_text(file, f"it is not valid UTF-8, and byte {error.start} is not Windows-1252") from error


def _lines_of(head: str, *, file: Path, comments: bool) -> list[str]:
    """Nonempty lines of the head; raises an error if it is not a text table."""
    start = head.lstrip()
    if start[:1] in ("<", "{"):
        raise not_text(file, f"it looks like a web page or JSON: {start[:30]!r}")
    first, _, rest = head.replace("\r\n", "\n").replace("\r", "\n").partition("\n")
    lines = [line for line in f"{first}\n{rest[:_HEAD_CHARACTERS]}".splitlines() if line.strip()]
    if len(rest) > _HEAD_CHARACTERS and len(lines) > 1:
        lines.pop()  # the last line may be incomplete
    if comments:
        lines = [line for line in lines if not line.lstrip().startswith("#")]
    if not lines:
        raise DataError(f"{file} is empty: no line contains data. Check that it was written completely.")
    return lines


def not_text(file: Path, reason: str) -> DataError:
    """The error for content that is no text table."""
    return DataError(f"{file} is not a text table: {reason}. Save the table as CSV in UTF-8, or as Parquet.")


def _sniff(lines: list[str], delimiters: Sequence[str]) -> str | None:
    """The delimiter that splits every line into equally many fields, most of them numbers; else the most fields."""
    best, best_score = None, (False, -1.0, 1)
    for delimiter in delimiters:
        split = _records(lines, delimiter)
        width = len(split[0])
        is_regular = width > 1 and len({len(fields) for fields in split}) == 1
        share = _share_of_numbers(split, with_blanks=SPACE not in delimiters) if is_regular else 0.0
        if width > 1 and (is_regular, share, width) > best_score:
            best, best_score = delimiter, (is_regular, share, width)
    return best


def _share_of_numbers(split: list[list[str]], *, with_blanks: bool) -> float:
    fields = list(itertools.chain.from_iterable(split))
    return sum(is_numeric(one) and (with_blanks or len(one.split()) == 1) for one in fields) / len(fields)


def _records(lines: list[str], delimiter: str) -> list[list[str]]:
    """Fields of each record, which has several lines if a quoted field breaks."""
    if delimiter == SPACE:
        return [line.split() for line in lines]
    found = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, skipinitialspace=True)
    try:
        return [[field.strip() for field in record] for record in found]
    except csv.Error:  # a field of more than 128 KiB: this is another delimiter, or no table
        return [[line] for line in lines]


def is_numeric(text: str) -> bool:
    """Whether a field is a number, with a decimal point or a decimal comma, and perhaps marks between thousands."""
    try:
        float(text)
    except ValueError:
        return any(pattern.fullmatch(text) for pattern in (_DECIMAL_COMMA, *GROUPED.values()))
    return True


def _decimal(records: list[list[str]], delimiter: str) -> str:
    """A comma if some fields have one and none has a decimal point; points between groups of digits are none."""
    if delimiter == ",":
        return "."
    fields = [field for record in records for field in record if len(field) <= LONGEST_NAME]
    commas = any("," in one and (_DECIMAL_COMMA.fullmatch(one) or GROUPED[","].fullmatch(one)) for one in fields)
    pointed = [one for one in fields if "." in one and not GROUPED[","].fullmatch(one)]
    points = any(POINTED.fullmatch(one) or GROUPED["."].fullmatch(one) for one in pointed)
    return "," if commas and not points else "."


def _check_names(names: Sequence[str], file: Path) -> None:
    first: dict[str, int] = {}
    for position, name in enumerate(names):
        if not name:
            raise DataError(
                f"{file}: column {position + 1} (counting from 1) has no name; often this is a saved row "
                "index. Name it, or write the file without the index."
            )
        if name in first:
            raise DataError(
                f"{file}: the column name {name!r} appears more than once (columns {first[name] + 1} and "
                f"{position + 1}, counting from 1). Give every column its own name."
            )
        first[name] = position
