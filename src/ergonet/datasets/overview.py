"""What was told of a table's columns, as rows to show: on the screen, in the report."""

from collections.abc import Sequence
from dataclasses import dataclass

from ergonet.datasets.kinds import CATEGORICAL, CLOSED, DATE, EMBEDDED, IDENTIFIER, NUMERIC, ORDINAL, UNUSED
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.validation import shorten

_MOST_CATEGORIES = 8  # that are named


@dataclass(frozen=True)
class ColumnRow:
    """One column.

    Attributes:
        name: Name of the column.
        kind: ``target``, ``numeric``, ``categorical``, ``ordinal``, ``date``, or ``not used``.
        inputs: Number of network inputs that it becomes.
        note: What was told or learned, in a few words; empty if there is nothing to say.
    """

    name: str
    kind: str
    inputs: int
    note: str


def column_rows(preprocessing: Preprocessing) -> list[ColumnRow]:
    """One row for each target, then for each column in the order of the file."""
    task = preprocessing.task
    note = f"{task}, {len(preprocessing.classes)} classes" if task == "classification" else task
    targets = [ColumnRow(name, "target", 0, note) for name in preprocessing.target_names]
    return targets + [_row(name, preprocessing) for name in preprocessing.feature_names]


def _row(name: str, preprocessing: Preprocessing) -> ColumnRow:
    encoder = preprocessing.encoder(name)
    if name in preprocessing.dropped:
        why = {UNUSED: "on request", IDENTIFIER: "looks like an identifier"}.get(encoder.kind, "constant")
        return ColumnRow(name, "not used", 0, why)
    parts = []
    if encoder.kind in (CATEGORICAL, CLOSED, EMBEDDED, ORDINAL):
        some = ", ".join(map(str, encoder.categories[:_MOST_CATEGORIES]))
        rest = len(encoder.categories) - _MOST_CATEGORIES
        parts.append(f"{len(encoder.categories)}: {some}" + (f" and {rest} more" if rest > 0 else ""))
    if encoder.kind == EMBEDDED:
        parts.append("a learned embedding")
    if encoder.kind == DATE:
        parts.append(", ".join(encoder.parts))
    if encoder.fill is not None:
        parts.append("missing entries become the median, and are marked")
    kind = CATEGORICAL if encoder.kind in (CLOSED, EMBEDDED) else encoder.kind
    return ColumnRow(name, kind, len(encoder.names(name)), "; ".join(parts))


def in_words(preprocessing: Preprocessing, *, width: int = 100) -> str:
    """A small table for the screen: kinds, and the columns that have something to say.

    Args:
        preprocessing: What was learned.
        width: Characters of a line; longer ones are cut.
    """
    rows = column_rows(preprocessing)
    plain = [row.name for row in rows if row.kind == NUMERIC and not row.note]
    shown = [(row.kind, row.name, row.note) for row in rows if row.kind != NUMERIC or row.note]
    if plain:
        shown.append((NUMERIC, f"{len(plain)} columns" if len(plain) > 1 else plain[0], _several(plain)))
    wide = max(len(name) for _, name, _ in shown)
    lines = [f"  {kind:<12} {name:<{min(wide, 30)}}  {note}".rstrip() for kind, name, note in shown]
    return "\n".join(line if len(line) <= width else f"{line[: width - 3]}..." for line in lines)


def _several(names: Sequence[str]) -> str:
    return shorten(names) if len(names) > 1 else ""
