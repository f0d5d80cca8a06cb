"""Pictures of the images with the most uncertain predictions."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from ergonet.plots import canvas


def uncertain_images(
    images: np.ndarray,
    probabilities: np.ndarray,
    truth: np.ndarray,
    *,
    class_names: Sequence[str] | None = None,
    count: int = 12,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Show the images with the largest predictive entropy, with their most probable classes and the true one.

    Args:
        images: ``[rows, height, width]``, or ``[rows, height, width, 3]`` for colors as bytes or between 0 and 1.
        probabilities: predicted class probabilities, ``[rows, classes]``.
        truth: indices of the true classes, ``[rows]``.
        class_names: names of the classes; None: their indices.
        count: largest number of images.
        axes: one for each image shown; None makes a new figure with four in a row.

    Returns:
        The axes, most uncertain image first.
    """
    chosen = most_uncertain(probabilities, count)
    names = [canvas.short(name) for name in class_names or map(str, range(probabilities.shape[1]))]
    columns = min(4, max(len(chosen), 1))
    rows = -(-len(chosen) // columns) or 1
    cells = canvas.several_axes(axes, rows, columns, height=1.75 * rows) if axes is None else list(axes)
    for cell, row in zip(cells, chosen, strict=False):
        cell.imshow(images[row], cmap="gray", interpolation="nearest")
        likeliest = np.argsort(-probabilities[row], kind="stable")[:2]
        says = ", ".join(f"{names[index]}: {100 * probabilities[row, index]:.0f} %" for index in likeliest)
        color = canvas.GOOD if likeliest[0] == truth[row] else canvas.BAD
        cell.set_title(f"truth {names[truth[row]]}", fontsize="small", color=color)
        cell.set_xlabel(says, fontsize="small")
    for cell in cells:
        cell.set_xticks([])
        cell.set_yticks([])
        for spine in cell.spines.values():
            spine.set_visible(False)
    return cells[: len(chosen)]


def most_uncertain(probabilities: np.ndarray, count: int) -> np.ndarray:
    """Indices of the rows with the largest predictive entropy, largest first, ``[min(count, rows)]``."""
    return np.argsort(-entropy(probabilities), kind="stable")[:count]


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Entropy of each row's class distribution in nats, ``[rows]``, between 0 and the log of the number of classes."""
    probabilities = np.asarray(probabilities, dtype=np.float64)
    return -np.sum(probabilities * np.log(np.where(probabilities > 0, probabilities, 1.0)), axis=1)
