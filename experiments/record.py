"""Reproductions and their results: cases measured with several seeds, next to the document's figures."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from experiments.sizes import Size


@dataclass(frozen=True)
class Quantity:
    """Something that is measured of every case.

    Attributes:
        name: full name, with the unit.
        digits: decimals that are shown; negative: significant digits in scientific notation.
    """

    name: str
    digits: int = 0

    def show(self, value: float | None) -> str:
        """The value as text; empty for None."""
        if value is None:
            return ""
        return f"{value:.{-self.digits - 1}e}" if self.digits < 0 else f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class Case:
    """A row of the document's table.

    Attributes:
        label: label of the row; labels must differ within a table.
        measure: values by quantity name, from a size and a seed.
        source: the document's figures by quantity name.
    """

    label: str
    measure: Callable[[Size, int], Mapping[str, float]]
    source: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Claim:
    """A conclusion of the document, judged by a rule from the figures.

    Attributes:
        text: the conclusion, as a sentence without a period.
        survives: whether the figures confirm it; None if they cannot tell.
        because: the figures, as a sentence without a period.
    """

    text: str
    survives: bool | None
    because: str

    def __str__(self) -> str:
        judged = {True: "Survives", False: "Does not survive", None: "Undecided"}[self.survives]
        return f"{judged}: {self.text} ({self.because})."


@dataclass(frozen=True)
class Row:
    """A figure of ours beside the document's; see `Table.rows`."""

    label: str
    quantity: str
    ours: float | None
    error: float | None
    source: float | None


@dataclass(frozen=True)
class Table:
    """Measurements of every case.

    Attributes:
        values: by label and quantity name, one for each seed.
        sources: the document's figures, by label and quantity name.
        reference: the label that ratios are taken to; empty: none.
        ratios: names of the quantities whose ratio to the reference is reported too.
    """

    values: Mapping[str, Mapping[str, Sequence[float]]]
    sources: Mapping[str, Mapping[str, float]]
    reference: str = ""
    ratios: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the rows, in order."""
        return tuple(self.values)

    def of(self, label: str, quantity: str) -> list[float]:
        """Finite values over seeds; none where the case does not have the quantity."""
        return [one for one in self.values[label].get(quantity, ()) if math.isfinite(one)]

    def mean(self, label: str, quantity: str) -> float:
        """Mean over seeds; NaN where there is none."""
        found = self.of(label, quantity)
        return sum(found) / len(found) if found else math.nan

    def error(self, label: str, quantity: str) -> float:
        """Standard error of that mean over seeds; NaN for fewer than two."""
        found = self.of(label, quantity)
        if len(found) < 2:
            return math.nan
        mean = sum(found) / len(found)
        return math.sqrt(sum((one - mean) ** 2 for one in found) / (len(found) - 1) / len(found))

    def source(self, label: str, quantity: str) -> float | None:
        """The document's figure; None where it has none."""
        return self.sources.get(label, {}).get(quantity)

    def ratio(self, label: str, quantity: str) -> tuple[float, float, float | None]:
        """Ratio of means to the reference, its standard error, and the document's ratio."""
        ours, base = self.mean(label, quantity), self.mean(self.reference, quantity)
        parts = [self.error(one, quantity) / self.mean(one, quantity) for one in (label, self.reference)]
        theirs, their_base = self.source(label, quantity), self.source(self.reference, quantity)
        known = None if theirs is None or their_base is None else theirs / their_base
        return ours / base, ours / base * math.hypot(*parts), known

    def rows(self) -> list[Row]:
        """Every figure; a ratio to the reference follows its quantity."""
        found = []
        for label, quantities in self.values.items():
            for name in quantities:
                if not self.of(label, name):
                    continue
                mean, error = self.mean(label, name), self.error(label, name)
                found.append(Row(label, name, mean, _known(error), self.source(label, name)))
                if name in self.ratios and label != self.reference and self.mean(self.reference, name):
                    ratio, error, theirs = self.ratio(label, name)
                    found.append(Row(label, ratio_name(name, self.reference), ratio, _known(error), theirs))
        return found


def ratio_name(quantity: str, reference: str) -> str:
    """The name of a ratio to the reference."""
    return f"{quantity} / that of {reference}"


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Experiment:
    """A table of a document, as data.

    Attributes:
        name: name for `ergonet reproduce`.
        title: title of the page.
        setting: what is run and how it is scored, in Markdown.
        cases: rows of the table, at a size.
        groups: quantities of each table on the page, with its heading.
        judge: conclusions of the document from the figures.
        draw: pictures into a folder; returns file names with a line that says what is seen.
        notes: what a reader has to know about the page, in Markdown.
        reference: label that ratios are taken to; empty: none.
        ratios: quantities whose ratios are reported.
        in_words: how much is run at a size, where its own words do not say it.
    """

    name: str
    title: str
    setting: str
    cases: Callable[[Size], Sequence[Case]]
    groups: Mapping[str, tuple[Quantity, ...]]
    judge: Callable[[Table], Sequence[Claim]]
    draw: Callable[[Table, Path], Mapping[str, str]]
    notes: str = ""
    reference: str = ""
    ratios: tuple[str, ...] = ()
    in_words: Callable[[Size], str] = attrgetter("in_words")

    def table(self, size: Size, values: Mapping[str, Mapping[str, Sequence[float]]]) -> Table:
        """Measured values beside the document's."""
        sources = {case.label: case.source for case in self.cases(size)}
        return Table(values, sources, self.reference, self.ratios)
