"""Shared by all pictures: sizes, colors, and axes that belong to no window."""

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK: Final = "#1f2430"
MUTED: Final = "#667085"
LINE: Final = "#d5d9e0"
BAND: Final = "#dfe9f5"
GOOD: Final = "#2e7d50"
BAD: Final = "#b4372e"
SERIES: Final = (
    "#2b6cb0",
    "#c4620f",
    "#2e8b6f",
    "#7d4fa8",
    "#a8325f",
    "#1b7d92",
    "#8a6d0c",
    "#56606f",
)
"""Colors of chains, distinguishable with most kinds of color blindness; they repeat after eight."""

_SIZE = (4.8, 3.1)


class Picture(Figure):
    """A figure that belongs to no window, and that a notebook shows as it is."""

    def _repr_png_(self) -> bytes:
        """The picture as PNG, for IPython, which knows other figures only after `pyplot` has been imported."""
        file = io.BytesIO()
        self.savefig(file, format="png", dpi=110)
        return file.getvalue()


def single_axes(axes: Axes | None, *, height: float = _SIZE[1]) -> Axes:
    """Return the given axes, or the axes of a new figure, in the common style.

    Args:
        axes: axes to draw on, or None.
        height: height of a new figure, in inches.

    Returns:
        Axes without spines at the top and right.
    """
    if axes is None:
        axes = Picture(figsize=(_SIZE[0], height), layout="constrained").add_subplot()
    return _styled(axes)


def several_axes(axes: Sequence[Axes] | None, rows: int, columns: int, *, height: float) -> list[Axes]:
    """Return the given axes, or those of a new figure with ``rows`` times ``columns`` axes, in the common style.

    Args:
        axes: axes to draw on, row by row; or None.
        rows: number of rows of a new figure.
        columns: number of columns of a new figure.
        height: height of a new figure, in inches.

    Returns:
        Axes, row by row.

    Raises:
        ValueError: the number of given axes is not ``rows * columns``.
    """
    if axes is None:
        figure = Picture(figsize=(_SIZE[0], height), layout="constrained")
        made = figure.subplots(rows, columns, squeeze=False)
        axes = [made[row, column] for row in range(rows) for column in range(columns)]
    if len(axes) != rows * columns:
        raise ValueError(f"`axes` must contain {rows * columns} axes for this picture, got {len(axes)}.")
    return [_styled(each) for each in axes]


def say_instead(axes: Axes, sentence: str) -> Axes:
    """Write in the middle of the axes why there is nothing to draw, and hide the scales."""
    axes.text(0.5, 0.5, sentence, transform=axes.transAxes, ha="center", va="center", color=MUTED, wrap=True)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def color_of(chain: int) -> str:
    """The color of a chain; there are eight, used cyclically."""
    return SERIES[chain % len(SERIES)]


def finite(values: np.ndarray) -> np.ndarray:
    """The finite entries of ``values``, as float64 in one dimension."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return flat[np.isfinite(flat)]


def short(name: str) -> str:
    """Shorten a user's name to one line of at most 32 characters."""
    words = " ".join(str(name).split())
    return words if len(words) <= 32 else words[:29] + "..."


def legend(axes: Axes, *, columns: int = 1, above: bool = False) -> None:
    """Add a legend without frame, in the best place or above the axes."""
    place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)} if above else {"loc": "best"}
    axes.legend(ncols=columns, frameon=False, labelcolor=INK, fontsize="small", handlelength=1.2, **place)


def _styled(axes: Axes) -> Axes:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(MUTED)
    axes.tick_params(colors=MUTED, labelcolor=INK, labelsize="small")
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
    axes.set_axisbelow(True)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_parse_math(False)  # names of columns and classes may contain dollar signs
    return axes
