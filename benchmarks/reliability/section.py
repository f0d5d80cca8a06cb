"""A section of the page: what was measured, a table, and what was wanted."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.page import table
from benchmarks.rounds import ROOT


@dataclass(frozen=True)
class Goal:
    """A figure with a bound.

    Attributes:
        what: the figure.
        found: as measured.
        wanted: the bound, in words.
        is_met: whether the figure is within the bound.
    """

    what: str
    found: str
    wanted: str
    is_met: bool

    @classmethod
    def none_of(cls, what: str, count: int) -> "Goal":
        """A count that should be 0."""
        return cls(what, str(count), "0", count == 0)


@dataclass(frozen=True)
class Section:
    """What a section has found.

    Attributes:
        title: title on the page.
        about: what was done, in Markdown.
        goals: figures with their bounds.
        head: heads of the columns.
        rows: cells of the table.
        notes: remarks below the table, such as what went wrong, one line each.
    """

    title: str
    about: str
    goals: Sequence[Goal]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default_factory=tuple)

    @classmethod
    def from_table(cls, content: dict[str, Any]) -> "Section":
        """The section that `to_table` wrote."""
        goals = [Goal(**one) for one in content["goals"]]
        return cls(**{name: value for name, value in content.items() if name != "goals"}, goals=goals)

    def to_table(self) -> dict[str, Any]:
        """Nested tables for JSON."""
        return asdict(self)

    def markdown(self) -> str:
        """The section of the page."""
        goals = [(one.what, one.found, one.wanted, "met" if one.is_met else "**not met**") for one in self.goals]
        parts = [f"## {self.title}\n{self.about}\n\n", _table(("what", "measured", "wanted", ""), goals)]
        parts += ["\n", _table(self.head, self.rows)] if self.rows else []
        parts += ["\n", *(f"- {_cell(note)}\n" for note in self.notes)] if self.notes else []
        return "".join(parts)


@dataclass(frozen=True)
class Bench:
    """Where and how large a section is measured.

    Attributes:
        folder: an empty folder for files.
        is_quick: whether the sizes are those of a quick run.
        share: the share of the full sizes that is run.
        workers: processes at a time.
    """

    folder: Path
    is_quick: bool
    share: float = 1.0
    workers: int = 2

    def size(self, full: int, quick: int) -> int:
        """The one of two sizes that holds."""
        return quick if self.is_quick else max(quick, round(self.share * full))

    def say(self, message: str) -> None:
        """Print a line of progress."""
        print(message, flush=True)


def without_paths(text: str, folder: Path) -> str:
    """A message without the folder of this run and that of the repository."""
    for path in (folder, folder.resolve(), ROOT):
        text = text.replace(f"{path}/", "").replace(str(path), ".")
    return " ".join(text.split())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return table([*map(_cell, head)], [[*map(_cell, row)] for row in rows])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
