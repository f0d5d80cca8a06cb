"""The Markdown page of a reproduction."""

import math
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.record import Experiment, Quantity, Table, ratio_name

REMARKS_OF = re.compile(r"\ARun of (?P<started>[^\n]+)\n+")
"""First line of a file of remarks: the run that they are about, as the page and the JSON file name it."""

SMOKE = "A smoke run: it shows that everything works; its figures are meaningless. "


def render(
    experiment: Experiment, table: Table, about: Mapping[str, Any], pictures: Mapping[str, str], remarks: Path
) -> str:
    """Render the page.

    Args:
        experiment: the experiment.
        table: its results.
        about: the content of the JSON file without the rows, with `claims`, the sentences of the verdict, and `size`.
        pictures: file names and captions.
        remarks: file of remarks written by hand; omitted, with a note, if it is about another run.
    """
    parts = [f"# {experiment.title}", _origin(experiment, about)]
    if about["mode"] == "smoke":
        parts.append(f"**{SMOKE.strip()}**")
    elif about["mode"] == "quick":
        parts.append("**A quick run: fewer and shorter chains than the full size.**")
    parts += [_wrapped(experiment.setting), _wrapped(f"This run: {about['size']}.")]
    parts += ["## Verdict", "\n".join(map(_bullet, about["claims"]))]
    told = _remarks(remarks, about)
    if told:
        parts += ["## What agrees, what does not, and why", told]
    for heading, quantities in experiment.groups.items():
        body = _table(table, quantities)
        if body:
            parts += [f"## {heading}", body]
    parts += [f"![{seen}]({name})" for name, seen in pictures.items()]
    parts += ["## How to read it", _how_to_read(experiment, about)]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str, *, indent: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()), 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _bullet(sentence: str) -> str:
    judged, colon, rest = sentence.partition(":")
    return _wrapped(f"- **{judged}**{colon}{rest}", indent="  ")


def _origin(experiment: Experiment, about: Mapping[str, Any]) -> str:
    option = {"smoke": " --smoke", "quick": " --quick"}.get(about["mode"], "")
    seconds = about["seconds"]
    took = f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return _wrapped(
        f"Written by `ergonet reproduce {experiment.name}{option} --seeds {about['num_seeds']}`, run of "
        f"{about['started']}, {took} on {about['machine']}; {versions}."
    )


def _remarks(path: Path, about: Mapping[str, Any]) -> str:
    if not path.is_file() or about["mode"] == "smoke":
        return ""
    text = path.read_text(encoding="utf-8")
    match = REMARKS_OF.match(text)
    if match and match["started"].strip() == about["started"]:
        return text[match.end() :].strip()
    return f"The remarks in `experiments/.../{path.name}` are about another run and are left out here."


def _table(table: Table, quantities: tuple[Quantity, ...]) -> str:
    columns: list[tuple[str, dict[str, str]]] = []
    for quantity in quantities:
        name = quantity.name
        if any(table.of(label, name) for label in table.labels):
            columns.append((name, {label: _ours(table, label, quantity) for label in table.labels}))
            columns += _theirs(table, quantity)
        if name in table.ratios:
            columns += _ratios(table, name)
    shown = [label for label in table.labels if any(cells[label] for _, cells in columns)]
    if not shown:
        return ""
    lines = [_line("", *(head for head, _ in columns)), _line("---", *("---:" for _ in columns))]
    lines += [_line(label, *(cells[label] for _, cells in columns)) for label in shown]
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _ours(table: Table, label: str, quantity: Quantity) -> str:
    """A cell of the table: empty if it was not measured, NA if no seed gave a number."""
    measured, known = table.values[label].get(quantity.name, ()), table.of(label, quantity.name)
    if not known:
        return "NA" if measured else ""
    error = table.error(label, quantity.name)
    shown = quantity.show(table.mean(label, quantity.name))
    shown = shown if math.isnan(error) else f"{shown} \N{PLUS-MINUS SIGN} {quantity.show(error)}"
    return shown if len(known) == len(measured) else f"{shown}, {len(measured) - len(known)} NA"


def _theirs(table: Table, quantity: Quantity) -> list[tuple[str, dict[str, str]]]:
    figures = {label: table.source(label, quantity.name) for label in table.labels}
    if all(one is None for one in figures.values()):
        return []
    return [("document", {label: "" if one is None else f"{one:g}" for label, one in figures.items()})]


def _ratios(table: Table, name: str) -> list[tuple[str, dict[str, str]]]:
    ours, theirs = {}, {}
    for label in table.labels:
        ours[label] = theirs[label] = ""
        if table.of(label, name) and table.mean(table.reference, name):
            ratio, error, known = table.ratio(label, name)
            shown = f"{ratio:.2f}" if math.isnan(error) else f"{ratio:.2f} \N{PLUS-MINUS SIGN} {error:.2f}"
            ours[label] = "1" if label == table.reference else shown
            theirs[label] = "" if known is None else f"{known:.2f}"
    columns = [(ratio_name(name, table.reference), ours)]
    return [*columns, ("document", theirs)] if any(theirs.values()) else columns


def _how_to_read(experiment: Experiment, about: Mapping[str, Any]) -> str:
    text = (
        f"Figures are means over {about['num_seeds']} seeds \N{PLUS-MINUS SIGN} one standard error. The columns "
        f"*document* have the figures that the document prints, from one run. The verdict follows fixed rules "
        f"(`experiments/comparison.py`): rows differ if a t-test over seeds is significant at the 5 % level divided by "
        f"the number of comparisons; *about the same* means a factor of at most 1.25 in either direction. Other "
        f"programs ran at the same time, so seconds are approximate."
    )
    return _wrapped(f"{text} {experiment.notes}")
