"""Matplotlib figures as inline SVG in the colors of the page, and images as data URLs.

Text stays text and uses the font of the page. Each color of ``ergonet.plots.canvas`` becomes a custom property of the
style sheet, so that the same picture works on light pages, on dark pages and in print.
"""

import base64
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imsave

from ergonet.plots import canvas

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.size": 9.5,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "text.parse_math": False,
}
_PROPERTIES: Final = {
    canvas.INK: "ink",
    canvas.MUTED: "muted",
    canvas.LINE: "line",
    canvas.BAND: "band",
    canvas.GOOD: "good",
    canvas.BAD: "bad",
    **{color: f"series-{number}" for number, color in enumerate(canvas.SERIES, start=1)},
}


@dataclass(frozen=True)
class Picture:
    """A picture with the text that explains it.

    Attributes:
        title: short heading.
        svg: an ``<svg>`` element, safe to insert into the page as it is.
        caption: one line that says what to look for.
        alternative: alternative text for readers who cannot see the picture.
    """

    title: str
    svg: str
    caption: str
    alternative: str


def draw(name: str, plot: Callable[[], Axes]) -> str:
    """Draw a figure and return it as an inline ``<svg>`` element.

    Args:
        name: unique on the page, letters and hyphens only; it keeps the identifiers of pictures distinct.
        plot: makes the axes; called with the style of the report.

    Returns:
        The element, without width and height, which the style sheet sets.
    """
    file = io.StringIO()
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = plot().figure
        assert isinstance(figure, Figure)
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for length in ("width", "height"):
        text = re.sub(rf'(<svg[^>]*?) {length}="[^"]*"', r"\1", text, count=1)
    text = text.replace("<svg", '<svg aria-hidden="true" focusable="false"', 1)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\1{name}-", text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--font)", text)
    return re.sub("|".join(map(re.escape, _PROPERTIES)), lambda found: f"var(--{_PROPERTIES[found[0]]})", text)


def image_address(image: np.ndarray) -> str:
    """Encode an image as the ``data:`` URL of a PNG file.

    Args:
        image: ``[height, width]`` or ``[height, width, 1]`` in any range, shown in gray; or
            ``[height, width, 3 or 4]`` between 0 and 1 or as bytes.

    Returns:
        The URL.
    """
    file = io.BytesIO()
    values = np.asarray(image)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim == 2:
        values = np.nan_to_num(values.astype(np.float64))
        low, high = values.min(), values.max()
        values = (values - low) / (high - low) if high > low else np.zeros_like(values)
        imsave(file, values, format="png", cmap="gray", vmin=0.0, vmax=1.0)
    else:
        imsave(file, values if values.dtype == np.uint8 else np.clip(values, 0.0, 1.0), format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
