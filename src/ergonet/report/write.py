"""Render a run record as one HTML file."""

import os
import re
import tempfile
from os import PathLike
from pathlib import Path

from markupsafe import Markup, escape

from ergonet._errors import visible
from ergonet.report import baselines, hyperparameters, mixing, overview, predictions, wording
from ergonet.report.record import RunRecord


def write_report(record: RunRecord, path: str | PathLike[str]) -> Path:
    """Write the report of a run as one HTML file that needs no network, no scripts and no other files.

    Args:
        record: the run.
        path: the file to write; an existing file is replaced once the new one is complete.

    Returns:
        The path.

    Raises:
        OSError: the folder is missing or not writable.
    """
    target = Path(path)
    page = _render(record)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(page)
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return target


def _render(record: RunRecord) -> str:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("ergonet.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    page = environment.get_template("report.html").render(
        title=overview.title(record),
        story=overview.story(record),
        verdict=overview.verdict(record),
        baselines=baselines.table(record.metrics),
        fitted=overview.fitted(record),
        scores=overview.score_cards(record),
        trust=overview.trust_cards(record),
        predictions=predictions.section(record),
        mixing=mixing.pictures(record),
        learned=hyperparameters.pictures(record),
        chains=mixing.by_chain(record),
        cost=overview.cost(record),
        settings=list(wording.flat_settings(record.settings)),
        versions=overview.versions(record),
    )
    return visible(page.replace(" %", "\N{NO-BREAK SPACE}%").lstrip())


def _code(sentence: str) -> Markup:
    """The sentence as HTML, with text between backquotes as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704 - already escaped
