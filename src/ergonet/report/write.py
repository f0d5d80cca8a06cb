"""Render a run record as one HTML file."""

from os import PathLike
from pathlib import Path

from ergonet.report import (
    baselines,
    explanation,
    function_space,
    hyperparameters,
    mixing,
    opening,
    overview,
    predictions,
    wording,
)
from ergonet.report.pages import fill, replace_page
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
    return replace_page(Path(path), _render(record))


def _render(record: RunRecord) -> str:
    content = {
        "title": overview.title(record),
        "story": overview.story(record),
        "opening": opening.paragraph(record.metrics),
        "verdict": overview.verdict(record),
        "baselines": baselines.table(record.metrics),
        "fitted": overview.fitted(record),
        "columns": overview.columns(record),
        "scores": overview.score_cards(record),
        "trust": overview.trust_cards(record),
        "predictions": predictions.section(record),
        "mixing": mixing.pictures(record),
        "explained": explanation.pictures(record),
        "learned": hyperparameters.pictures(record),
        "worst": function_space.table(record),
        "chains": mixing.by_chain(record),
        "cost": overview.cost(record),
        "settings": list(wording.flat_settings(record.settings)),
        "versions": overview.versions(record),
    }
    return fill("report.html", content)
