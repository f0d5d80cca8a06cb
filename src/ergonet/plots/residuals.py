"""Picture of standardized residuals beside the normal distribution that they should have."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.stats import norm

from ergonet.plots import canvas

_REACH = 5.0  # standard deviations that are shown; bars at the ends hold everything beyond


def residual_histogram(residuals: Any, *, axes: Axes | None = None) -> Axes:
    """Plot standardized residuals with the density of N(0, 1); bars at -5 and 5 contain what lies beyond.

    Args:
        residuals: from ``ergonet.prediction.trust.standardized_residuals``, finite numbers of any shape.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes, height=3.4)
    values = np.asarray(residuals, np.float64).reshape(-1)
    if not values.size:
        return canvas.say_instead(axes, "No rows to show.")
    edges = np.linspace(-_REACH, _REACH, int(np.clip(2 * np.sqrt(values.size), 10, 50)) // 2 * 2 + 1)
    counts = np.histogram(np.clip(values, -_REACH, _REACH), edges)[0]
    width = edges[1] - edges[0]
    axes.bar(
        edges[:-1], counts / (values.size * width), width=width, align="edge", color=canvas.SERIES[0], alpha=0.75,
        label="rows",
    )  # fmt: skip
    grid = np.linspace(-_REACH, _REACH, 200)
    axes.plot(grid, norm.pdf(grid), color=canvas.INK, linewidth=1.2, linestyle=(0, (3, 2)), label="N(0, 1)")
    axes.set_xlim(-_REACH, _REACH)
    axes.set_xlabel("(truth - prediction) / stated sd")
    axes.set_ylabel("density")
    canvas.legend(axes, columns=2, above=True)
    return axes
