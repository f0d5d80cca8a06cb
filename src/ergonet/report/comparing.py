"""The page of `ergonet compare`: which of several runs predicts best, and in what they differ."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ergonet.report import overview, wording
from ergonet.report.pages import fill, replace_page
from ergonet.report.record import RunRecord

if TYPE_CHECKING:
    from ergonet.comparison import Comparison

_WIDTH = 300.0  # of a strip, in its own units
_EDGE = 8.0


@dataclass(frozen=True)
class Strip:
    """A figure with its error, such as the difference of a run from the best one, as a line in a box of 300 by 20.

    Attributes:
        name: what it is of, such as a run.
        low: start of its interval of 2 standard errors.
        high: the end.
        middle: the figure.
        zero: where 0 is.
        text: the figure in words.
    """

    name: str
    low: float
    high: float
    middle: float
    zero: float
    text: str


def write_comparison(
    found: Sequence["Comparison | str"], records: Mapping[str, RunRecord], path: str | PathLike[str]
) -> Path:
    """Write the comparison of several runs as one HTML file that needs no network, no scripts and no other files.

    Args:
        found: comparisons, the most important one first, or sentences that say why there is none.
        records: the runs by name, which is their path.
        path: the file to write; an existing file is replaced.

    Returns:
        The path.

    Raises:
        OSError: the folder is missing or not writable.
    """
    tables = [one for one in found if not isinstance(one, str)]
    content = {
        "title": f"Comparison of {wording.plural(len(records), 'run')}",
        "sentences": tables[0].sentences() if tables else [],
        "comparisons": [
            {
                "title": f"Which run predicts best, by {one.method}?",
                "caption": f"{wording.plural(one.pointwise.shape[1], 'row')}, differences of the summed log score from "
                "that of the best run in nats, with lines of two standard errors. A line that reaches 0 is noise, and "
                "so is a difference below 4 nats.",
                "strips": strips(one),
                "table": one.table(),
                "sentences": [] if one is tables[0] else one.sentences(),
            }
            for one in tables
        ],
        "notes": [one for one in found if isinstance(one, str)],
        "runs": [_described(name, record, Path(path)) for name, record in records.items()],
        "scores": _scores(records),
        "settings": differing(records),
    }
    return replace_page(Path(path), fill("comparison.html", content))


def on_one_scale(ends: Sequence[tuple[float, float]]) -> Callable[[float], float]:
    """Where a value is in a strip, on a scale that has 0 and both ends of all intervals."""
    low, high = min(0.0, *(one[0] for one in ends)), max(0.0, *(one[1] for one in ends))
    scale = (_WIDTH - 2 * _EDGE) / ((high - low) or 1.0)
    return lambda value: round(_EDGE + (value - low) * scale, 1)


def strips(found: "Comparison") -> list[Strip]:
    """The differences of a comparison on one scale."""
    ends = [(float(d - 2 * e), float(d + 2 * e)) for d, e in zip(found.differences, found.errors, strict=True)]
    place = on_one_scale(ends)
    return [
        Strip(
            name,
            place(ends[number][0]),
            place(ends[number][1]),
            place(float(found.differences[number])),
            place(0.0),
            "best" if not number else f"{found.differences[number]:.1f} ± {found.errors[number]:.1f}",
        )
        for number, name in enumerate(found.names)
    ]


def differing(records: Mapping[str, RunRecord]) -> list[tuple[str, list[str]]]:
    """The settings in which the runs differ: name, and the value of each run."""
    flat = [dict(wording.flat_settings(record.settings)) for record in records.values()]
    names = dict.fromkeys(name for one in flat for name in one)
    rows = [(name, [one.get(name, "") for one in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _described(name: str, record: RunRecord, page: Path) -> dict[str, Any]:
    judged = overview.verdict(record)
    report = os.path.relpath(Path(name) / "report.html", page.parent)
    link = quote(Path(report).as_posix()) if (Path(name) / "report.html").exists() else ""
    return {"name": name, "level": judged.level, "headline": judged.headline, "link": link}


def _scores(records: Mapping[str, RunRecord]) -> list[tuple[str, list[str]]]:
    """Scores of the held-out rows: name, and the value of each run."""
    cards = [
        {one.name: f"{one.value} {one.error}".strip() for one in overview.score_cards(r)} for r in records.values()
    ]
    return [(name, [one.get(name, "") for one in cards]) for name in dict.fromkeys(n for one in cards for n in one)]
