"""Inputs that nobody expected: cells, tables, files with altered bytes, settings and values of any kind."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from ergonet.assembly.settings import NAMED, RECORDS, TABLES, settings_of
from ergonet.models.registry import ACTIVATIONS, LIKELIHOODS, PRIORS
from ergonet.samplers.registry import KERNELS

ODD_TEXTS = [
    *("", " ", "NA", "nan", "inf", "-inf", "1e400", "1e-400", "0x1F", "1_000", "1,5", "1+2j", "TRUE", "None", "-0"),
    *("9" * 400, "9" * 5000, "1e308", "-1e308", "5e-324", "2020-01-01", "12:30", "\x1b[2J", "\u202e", "\ufeff", "\0"),
    *("=1+1", "@x", "<b>", "a\nb", 'a"b', "a" * 2000, "\ud7ff", "é", "../x", "#", "x0", "y", "$^$", "%s", "{x}"),
]
numbers = st.one_of(
    st.floats(),
    st.floats(-10, 10),
    st.integers(-5, 5),
    st.integers(),
    st.sampled_from([10**26, 10**400, -(10**400), 2**31, 2**63, 2**64, 1e300, 1e-300, 1e-45, math.inf, math.nan]),
)
texts = st.one_of(st.sampled_from(ODD_TEXTS), st.text(max_size=8))
cells = st.one_of(numbers.map(lambda one: repr(one) if abs(one) < 10**500 else "9"), texts)
names = st.one_of(st.sampled_from(["a", "b", "c", "x0", "x1", "y", "1", "2.5"]), texts)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)


@st.composite
def columns(draw: st.DrawFn, rows: int) -> list[Any]:
    """Entries of a column: mostly of one kind, as real ones are, and sometimes of any kind."""
    kind = draw(st.sampled_from(["number", "number", "scaled", "whole", "word", "any"]))
    if kind == "any":
        return draw(st.lists(cells, min_size=rows, max_size=rows))
    if kind == "word":
        return draw(st.lists(st.sampled_from(["p", "q", draw(texts)]), min_size=rows, max_size=rows))
    if kind == "whole":
        return draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    entries: list[Any] = draw(st.lists(st.floats(-10, 10), min_size=rows, max_size=rows))
    if kind == "scaled":
        scale, offset = 10.0 ** draw(st.integers(-320, 307)), draw(st.sampled_from([0.0, 1.0, 1e9, -1e300]))
        entries = [scale * one + offset for one in entries]
    if draw(st.booleans()):
        entries[draw(st.integers(0, rows - 1))] = draw(cells)
    return entries


@st.composite
def delimited(draw: st.DrawFn) -> bytes:
    """A text table, regular or not."""
    rows, width = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    table = [draw(columns(rows)) for _ in range(width)]
    lines = [list(line) for line in zip(*table, strict=True)]
    header = [f"{name}{index}" for index, name in enumerate(draw(st.lists(names, min_size=width, max_size=width)))]
    if draw(st.booleans()):
        header = draw(st.lists(names, min_size=width, max_size=width))
    if draw(st.integers(0, 4)) == 0:
        draw(st.sampled_from(lines)).append(draw(cells))
    stream = io.StringIO()
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    quoting: Any = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    writer = csv.writer(stream, delimiter=draw(st.sampled_from(",;\t ")), lineterminator=end, quoting=quoting)
    writer.writerows([header, *lines])
    return draw(altered(stream.getvalue().encode(draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])), "replace")))


@st.composite
def archives(draw: st.DrawFn) -> bytes:
    """An NPZ archive of arrays of any kind."""
    rows = draw(st.integers(0, 12))
    kinds = st.one_of(npst.scalar_dtypes(), npst.unicode_string_dtypes(), npst.byte_string_dtypes())
    kinds = st.one_of(kinds, kinds, npst.array_dtypes())
    shapes = st.one_of(st.just((rows,)), st.tuples(st.just(rows), st.integers(0, 3)), npst.array_shapes(max_side=3))
    plain = npst.arrays(np.float64, shapes, elements=st.floats(-10, 10))
    arrays: Any = draw(
        st.dictionaries(
            st.sampled_from(["x", "X", "y", "Y", "a", "../b", "\x1b[2J", "", "x0"]),
            st.one_of(plain, plain, npst.arrays(kinds, shapes)),
            max_size=4,
        )
    )
    stream = io.BytesIO()
    (np.savez_compressed if draw(st.booleans()) else np.savez)(stream, **arrays)
    return draw(altered(stream.getvalue()))


ARROW = {
    "double": (st.floats(-10, 10), pa.float64()),
    "extreme": (st.floats(), pa.float64()),
    "half": (st.floats(width=16).map(np.float16), pa.float16()),
    "whole": (st.integers(-3, 3), pa.int8()),
    "unsigned": (st.integers(0, 2**64 - 1), pa.uint64()),
    "text": (st.one_of(st.sampled_from("pq"), st.text(max_size=4)), pa.string()),
    "bytes": (st.binary(max_size=4), pa.binary()),
    "flag": (st.booleans(), pa.bool_()),
    "day": (st.dates(date(1900, 1, 1), date(2100, 1, 1)), pa.date32()),
    "instant": (st.integers(-(2**40), 2**40), pa.timestamp("ms", "UTC")),
    "decimal": (st.integers(-999, 999).map(lambda one: Decimal(one) / 10), pa.decimal128(6, 2)),
    "list": (st.lists(st.integers(0, 3), max_size=2), pa.list_(pa.int64())),
    "record": (st.fixed_dictionaries({"q": st.integers(0, 3)}), pa.struct([("q", pa.int64())])),
    "nothing": (st.none(), pa.null()),
}


@st.composite
def parquets(draw: st.DrawFn, form: str = "parquet") -> bytes:
    """A Parquet or Feather file with columns of any kind."""
    rows, width = draw(st.integers(0, 10)), draw(st.integers(0, 4))
    found, labels = [], []
    for index in range(width):
        entries, kind = ARROW[draw(st.sampled_from(["double", "double", *ARROW]))]
        if draw(st.integers(0, 5)) == 0:
            entries = st.one_of(st.none(), entries)
        array = pa.array(draw(st.lists(entries, min_size=rows, max_size=rows)), kind)
        found.append(array.dictionary_encode() if kind == pa.string() and draw(st.booleans()) else array)
        labels.append(draw(st.one_of(st.just(f"c{index}"), names)))
    stream = io.BytesIO()
    table = pa.Table.from_arrays(found, names=labels)
    if form == "feather":
        with pa.ipc.new_file(stream, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, stream)
    return draw(altered(stream.getvalue()))


@st.composite
def workbooks(draw: st.DrawFn) -> bytes:
    """An Excel workbook with cells of any kind."""
    book = openpyxl.Workbook()
    sheet: Any = book.active
    kinds = st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.floats(-10, 10), st.dates(), st.sampled_from("pq")
    )
    width = draw(st.integers(1, 4))
    sheet.append([f"c{index}" for index in range(width)])
    for _ in range(draw(st.integers(0, 8))):
        sheet.append(draw(st.lists(kinds, min_size=width, max_size=width)))
    stream = io.BytesIO()
    book.save(stream)
    again = io.BytesIO()
    with zipfile.ZipFile(stream) as whole, zipfile.ZipFile(again, "w", zipfile.ZIP_DEFLATED) as same:
        for member in whole.namelist():
            if not member.startswith("docProps"):  # which have the time
                same.writestr(zipfile.ZipInfo(member), whole.read(member))
    return draw(altered(again.getvalue()))


@st.composite
def altered(draw: st.DrawFn, content: bytes) -> bytes:
    """The content as it is, most often, or with bytes changed, cut off or repeated."""
    how = draw(st.sampled_from(["whole", "whole", "whole", "changed", "cut", "repeated", "other"]))
    if how == "whole" or not content:
        return content
    place = draw(st.integers(0, len(content) - 1))
    if how == "cut":
        return content[:place]
    if how == "repeated":
        return content[:place] + content[place : place + 40] * 3 + content[place:]
    if how == "other":
        return draw(st.binary(max_size=100))
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        changed[draw(st.integers(0, len(changed) - 1))] = draw(st.integers(0, 255))
    return bytes(changed)


CHOICES = {
    kind: {name: list(registry.settings(name)) for name in registry.names()}
    for kind, registry in (("prior", PRIORS), ("likelihood", LIKELIHOODS), ("kernel", KERNELS))
}
known_names = st.sampled_from([*PRIORS.names(), *LIKELIHOODS.names(), *KERNELS.names(), *ACTIVATIONS.names()])
setting_values = st.one_of(values, values, known_names, known_names.map(lambda name: {"name": name}))


@st.composite
def choices(draw: st.DrawFn, kind: str) -> Any:
    """A table such as [kernel]: a name and settings that it has, with values of any kind; or anything."""
    known = CHOICES[kind]
    if draw(st.integers(0, 5)) == 0:
        return draw(setting_values)
    name = draw(st.sampled_from(list(known)))
    keys = st.sampled_from([*known[name], draw(names)])
    table = {"name": name, **draw(st.dictionaries(keys, setting_values, max_size=2))}
    if draw(st.integers(0, 3)) == 0:
        del table["name"]
    if kind == "prior" and draw(st.integers(0, 3)) == 0:
        return {draw(st.sampled_from(["layers.0.*", "*.weight", "*", "[", draw(names)])): table}
    return table


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    """Tables of a settings file; mostly with names that there are."""
    found: dict[str, Any] = {}
    for table in draw(st.lists(st.sampled_from(TABLES), max_size=3, unique=True)):
        if table in NAMED:
            found[table] = draw(choices(table))
        else:
            keys = st.sampled_from(list(settings_of(table)))
            found[table] = draw(st.dictionaries(keys, setting_values, max_size=2))
    if draw(st.integers(0, 5)) == 0:
        found[draw(names)] = draw(values)
    return found


def as_toml(table: Mapping[str, Any]) -> str:
    """The table as TOML text, each of its tables in one line."""
    return "".join(f"{json.dumps(key)} = {_as_toml(value)}\n" for key, value in table.items() if value is not None)


def _as_toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = (f"{json.dumps(key)} = {_as_toml(one)}" for key, one in value.items() if one is not None)
        return f"{{{', '.join(inside)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_as_toml(one) for one in value if one is not None)}]"
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return json.dumps(value)


OPTIONS = sorted(
    (one.option(name), one.rule.option is bool) for table in RECORDS for name, (one, _) in settings_of(table).items()
)


@st.composite
def options(draw: st.DrawFn) -> list[str]:
    """Options of `ergonet fit` with values of any kind."""
    found = []
    for flag, is_switch in draw(st.lists(st.sampled_from(OPTIONS), max_size=3)):
        if flag.startswith("-"):
            found += [flag] if is_switch else [f"{flag}={draw(st.one_of(cells, known_names))}"]
    return [one.replace("\0", "") for one in found]


kinds = st.one_of(npst.scalar_dtypes(), npst.unicode_string_dtypes(max_len=3))
arrays = st.one_of(
    npst.arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(1, 3)), elements=st.floats(-10, 10)),
    npst.arrays(kinds, npst.array_shapes(max_dims=3, max_side=6)),
    npst.arrays(np.float64, npst.array_shapes(max_dims=2, max_side=8), elements=st.floats()),
    st.lists(scalars, max_size=6).map(lambda one: np.array(one, object)),
    values,
)
