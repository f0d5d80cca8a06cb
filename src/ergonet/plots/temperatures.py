"""The picture of a temperature sweep: a score minus that of the posterior, with its error."""

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes

from ergonet.plots import canvas

if TYPE_CHECKING:
    from ergonet.comparison import TemperatureSweep

_MOST_TICKS = 8


def temperature_plot(found: "TemperatureSweep", quantity: str = "log_score", *, axes: Axes | None = None) -> Axes:
    """Plot a held-out score at each temperature minus that at T = 1.

    Bars have so many standard errors of the difference that all of them reach 0 in 19 of 20 sweeps where no
    temperature matters. Differences that are noise are gray, better scores green, worse ones red.

    Args:
        found: from ``ergonet.comparison.temperature_sweep``.
        quantity: ``log_score``, ``error`` or ``calibration``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes)
    temperatures, apart = np.array(found.temperatures), found.differences(quantity)
    bars, is_noise = found.limit * found.difference_errors(quantity), found.is_noise(quantity)
    gains = apart if quantity == "log_score" else -apart
    axes.axhline(0, color=canvas.MUTED, linewidth=1, linestyle=(0, (3, 2)))
    axes.plot(temperatures, apart, color=canvas.LINE, linewidth=1, zorder=1)
    is_base = temperatures == 1
    for label, chosen, color in (
        ("the posterior", is_base, canvas.INK),
        ("noise", is_noise & ~is_base, canvas.MUTED),
        ("better", ~is_noise & (gains > 0), canvas.GOOD),
        ("worse", ~is_noise & (gains < 0), canvas.BAD),
    ):
        if chosen.any():
            axes.errorbar(
                temperatures[chosen], apart[chosen], yerr=bars[chosen], fmt="o", color=color, markersize=5,
                elinewidth=1.5, capsize=3, label=label,
            )  # fmt: skip
    axes.set_xscale("log")
    if len(temperatures) <= _MOST_TICKS:
        axes.set_xticks(temperatures, [f"{one:g}" for one in temperatures])
        axes.minorticks_off()
    axes.set_xlabel("temperature T")
    unit = ", nats per row" if quantity == "log_score" else ""
    axes.set_ylabel(f"{found.title(quantity)} minus T = 1{unit}")
    canvas.legend(axes, columns=4, above=True)
    return axes
