"""The page of `ergonet temper`: whether another temperature of the posterior predicts better."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergonet import plots
from ergonet.report import wording
from ergonet.report.pages import fill, replace_page
from ergonet.report.pictures import Picture, draw

if TYPE_CHECKING:
    from ergonet.comparison import TemperatureSweep

_QUESTIONS = {
    "log_score": "How good are the stated probabilities?",
    "error": "How good are the predictions?",
    "calibration": "How far can the stated uncertainty be trusted?",
}


def write_sweep(
    found: "TemperatureSweep", path: str | PathLike[str], *, name: str, about: str, settings: Mapping[str, Any]
) -> Path:
    """Write a temperature sweep as one HTML file that needs no network, no scripts and no other files.

    Args:
        found: the sweep.
        path: the file to write; an existing file is replaced.
        name: of the data.
        about: what was tempered, as a sentence.
        settings: of the fits, nested tables.

    Returns:
        The path.

    Raises:
        OSError: the folder is missing or not writable.
    """
    content = {
        "title": f"Temperatures of the posterior: {name}",
        "sentences": found.sentences(),
        "pictures": [_picture(found, quantity) for quantity in _QUESTIONS],
        "table": found.table(),
        "about": f"{about} {found.lines()[0][:1].upper()}{found.lines()[0][1:]}.",
        "settings": [(name, value) for name, value in wording.flat_settings(settings) if value],
    }
    return replace_page(Path(path), fill("temperatures.html", content))


def _picture(found: "TemperatureSweep", quantity: str) -> Picture:
    title = found.title(quantity)
    side = "above" if quantity == "log_score" else "below"
    return Picture(
        title=_QUESTIONS[quantity],
        svg=draw(f"temper-{quantity.replace('_', '-')}", lambda: plots.temperature_plot(found, quantity)),
        caption=f"The {title} at each temperature minus that of the posterior, T = 1; {side} 0 is better. Bars have "
        f"{found.limit:.1f} standard errors of the difference, which is paired over rows. Gray is noise: bars that "
        f"reach 0{', and differences below 4 nats over all rows' if quantity == 'log_score' else ''}.",
        alternative=f"The {title} at {wording.plural(len(found.temperatures), 'temperature')} with error bars; the "
        "table below has the same figures.",
    )
