"""Pictures of a classifier's uncertainty by groups of inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ergonet.plots import canvas
from ergonet.prediction.uncertainty import entropies

_BINS = 30
_PANELS = {"entropy": "entropy of the predicted class, nats", "mutual_information": "mutual information, nats"}
_PLACES = ("least", "median", "most")


def uncertainty_by_group(
    groups: Mapping[str, Any],
    *,
    images: Mapping[str, np.ndarray] | None = None,
    class_names: Sequence[str] | None = None,
) -> list[Axes]:
    """Plot histograms of entropy and mutual information, one row of panels per group, with images at the side.

    The panels of a column share their bins; each is scaled to its highest bar, and its median is marked. The images are
    those with the smallest, the median and the largest entropy of their group, with their most probable class.

    Args:
        groups: maps names to `Prediction` objects of a classification.
        images: maps names to the images of that group's rows, ``[rows, height, width]`` or, for colors as bytes or
            between 0 and 1, ``[rows, height, width, 3]``; groups may be omitted.
        class_names: names of the classes; None: their indices.

    Returns:
        The axes of a new figure, row by row: two histograms, and three images if the group has any.

    Raises:
        CapabilityError: a prediction is of a regression.
        DataError: a group has no rows.
        ValueError: there are no groups, or a group's number of images differs from its number of rows.
    """
    if not groups:
        raise ValueError("`groups` must contain at least one group.")
    scores = {name: entropies(prediction, name) for name, prediction in groups.items()}
    images = images or {}
    for name, shown in images.items():
        if name in scores and len(shown) != len(scores[name]["entropy"]):
            raise ValueError(f"`images[{name!r}]` has {len(shown)} images for {len(scores[name]['entropy'])} rows.")
    columns = len(_PANELS) + (len(_PLACES) if images else 0)
    widths = [3.0] * len(_PANELS) + [1.0] * (columns - len(_PANELS))
    figure = canvas.Picture(figsize=(1.05 * sum(widths), 0.55 + 1.15 * len(groups)), layout="constrained")
    cells = figure.subplots(len(groups), columns, squeeze=False, width_ratios=widths)
    ends = {
        "entropy": np.log(next(iter(groups.values())).mean.shape[1]),
        "mutual_information": max(found["mutual_information"].max() for found in scores.values()),
    }
    made = []
    for row, (name, prediction) in enumerate(groups.items()):
        for column, score in enumerate(_PANELS):
            strip = _strip(cells[row, column], scores[name][score], float(ends[score]), canvas.color_of(row))
            strip.tick_params(labelbottom=row == len(groups) - 1)
            made.append(strip)
        made[-2].set_ylabel(
            f"{canvas.short(name)}\n{len(scores[name]['entropy'])} rows", rotation=0, ha="right", va="center"
        )
        margin = list(cells[row, len(_PANELS) :])
        if name in images:
            made += _margin(margin, images[name], scores[name]["entropy"], prediction.mean, class_names)
        for cell in margin:
            cell.set_visible(name in images)
    for cell, text in zip(cells[-1], _PANELS.values(), strict=False):
        cell.set_xlabel(text)
    first = next((row for row, name in enumerate(groups) if name in images), None)
    if first is not None:
        for cell, place in zip(cells[first, len(_PANELS) :], _PLACES, strict=True):
            cell.set_title(f"{place}\nentropy", fontsize="small", color=canvas.INK)
    return made


def _strip(axes: Axes, values: np.ndarray, end: float, color: str) -> Axes:
    axes = canvas.single_axes(axes)
    end = end if end > 0 else 1.0
    counts, edges = np.histogram(np.clip(values, 0.0, end), bins=_BINS, range=(0.0, end))
    axes.bar(edges[:-1], counts / len(values), width=0.94 * np.diff(edges), align="edge", color=color)
    median = float(np.median(values))
    axes.axvline(median, color=canvas.INK, linewidth=1.0, linestyle=":")
    axes.set_xlim(0.0, end)
    axes.set_ylim(0.0, 1.25 * counts.max() / len(values))  # room for the text
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    on_the_left = median > 0.6 * end
    axes.annotate(
        f"median {median:.3f}",
        (median, 0.97),
        xycoords=("data", "axes fraction"),
        xytext=(-4 if on_the_left else 4, 0),
        textcoords="offset points",
        ha="right" if on_the_left else "left",
        va="top",
        fontsize="small",
        color=canvas.INK,
    )
    return axes


def _margin(
    cells: Sequence[Axes], images: np.ndarray, entropy: np.ndarray, mean: np.ndarray, class_names: Sequence[str] | None
) -> list[Axes]:
    order = np.argsort(entropy, kind="stable")
    for cell, row in zip(cells, (order[0], order[(len(order) - 1) // 2], order[-1]), strict=True):
        cell.imshow(images[row], cmap="gray", interpolation="nearest")
        cell.set_xticks([])
        cell.set_yticks([])
        for spine in cell.spines.values():
            spine.set_visible(False)
        likeliest = int(np.argmax(mean[row]))
        name = canvas.short(class_names[likeliest]) if class_names is not None else str(likeliest)
        cell.set_xlabel(f"{name}: {100 * mean[row, likeliest]:.0f} %", fontsize="small", color=canvas.INK)
        cell.xaxis.label.set_parse_math(False)
    return list(cells)
