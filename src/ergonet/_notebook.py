"""How objects show themselves: one line as `repr`, a small table in notebooks, and a table of lines when printed."""

import abc
import html
import textwrap
from collections.abc import Mapping, Sequence

from ergonet._errors import visible

_WIDTH = 100  # of a printed table, in characters
_LEFT = 'style="text-align: left"'


def line(thing: object, facts: Mapping[str, object]) -> str:
    """`Samples(kernel=NUTS, chains=4, ...)`."""
    return f"{type(thing).__name__}({', '.join(f'{name}={value}' for name, value in facts.items())})"


def table(thing: object, facts: Mapping[str, object]) -> str:
    """The same as an HTML table, without styles or scripts."""
    rows = "".join(
        f"<tr><th {_LEFT}>{_text(name.replace('_', ' '))}</th><td {_LEFT}>{_text(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table><caption>{_text(type(thing).__name__)}</caption><tbody>{rows}</tbody></table>"


def printed(title: str, facts: Mapping[str, object]) -> str:
    """The same as lines of text, one for each fact, folded at a width."""
    margin = max(map(len, facts)) + 4
    lines = [title]
    for name, value in facts.items():
        folded = textwrap.wrap(visible(str(value)), _WIDTH - margin) or [""]
        lines.append(f"  {name:<{margin - 2}}{folded[0]}")
        lines += [" " * margin + one for one in folded[1:]]
    return "\n".join(line.rstrip() for line in lines)


def in_columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of as many texts as lines, the first and the last column to the left and the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = (str.ljust, *[str.rjust] * (len(widths) - 2), str.ljust)
    return [
        "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows
    ]


class Findings(abc.ABC):
    """What shows itself, everywhere, as a table of lines and sentences below it."""

    @abc.abstractmethod
    def lines(self) -> list[str]:
        """The table as text."""

    @abc.abstractmethod
    def sentences(self) -> list[str]:
        """What it means."""

    def __str__(self) -> str:
        return "\n".join([*self.lines(), *self.sentences()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{_text(self)}</pre>"


def _text(value: object) -> str:
    return html.escape(visible(str(value)))
