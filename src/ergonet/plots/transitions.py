"""Pictures of transition statistics: energies, acceptance, number of steps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ergonet.plots import canvas

_NUM_BINS = 30


def energy_plot(energy: np.ndarray, *, axes: Axes | None = None) -> Axes:
    """Plot histograms of the energies and of their changes from draw to draw.

    If the changes are much narrower than the energies, the chains explore the energies slowly (Betancourt2017,
    section 6.1).

    Args:
        energy: value of the Hamiltonian after each transition, ``[chain, draw]``.
        axes: axes to draw on; None makes a new figure.

    Returns:
        The axes.
    """
    axes = canvas.single_axes(axes)
    energy = np.atleast_2d(np.asarray(energy, dtype=np.float64))
    finite_parts = [canvas.finite(chain) for chain in energy]
    spread = np.concatenate([chain - chain.mean() for chain in finite_parts if chain.size] or [np.empty(0)])
    steps = canvas.finite(np.diff(energy, axis=1))
    if steps.size < 2 or spread.max() == spread.min():
        return canvas.say_instead(axes, "Too few distinct energies to compare.")
    reach = max(np.quantile(np.abs(spread), 0.999), np.quantile(np.abs(steps), 0.999))
    bins = list(np.linspace(-reach, reach, _NUM_BINS + 1))
    axes.hist(spread, bins=bins, density=True, color=canvas.SERIES[0], alpha=0.45, label="energy minus its mean")
    axes.hist(
        steps, bins=bins, density=True, histtype="step", color=canvas.SERIES[1], linewidth=1.6,
        label="change in energy per transition",
    )  # fmt: skip
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("energy")
    canvas.legend(axes, columns=2, above=True)
    return axes


def transitions_plot(
    acceptance_rate: np.ndarray,
    num_steps: np.ndarray,
    *,
    target_acceptance: float | None = None,
    thin: int = 1,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Plot histograms of the acceptance and of the number of leapfrog steps per transition, or per thinned draw.

    Args:
        acceptance_rate: acceptance statistic of each transition, of thinned draws of the last, ``[chain, draw]``, 0 to
            1.
        num_steps: leapfrog steps of each draw, ``[chain, draw]``.
        target_acceptance: target of the warm-up, or None.
        thin: transitions per draw, at least 1.
        axes: two axes to draw on; None makes a new figure.

    Returns:
        The axes of the acceptance and the axes of the steps.
    """
    upper, lower = canvas.several_axes(axes, 2, 1, height=3.6)
    unit = "transition" if thin == 1 else "draw"
    accepted = canvas.finite(acceptance_rate)
    if accepted.size:
        upper.hist(accepted, bins=list(np.linspace(0, 1, 26)), color=canvas.SERIES[0], alpha=0.8)
        upper.axvline(float(accepted.mean()), color=canvas.INK, linewidth=1.2, label="mean")
        if target_acceptance is not None and np.isfinite(target_acceptance):
            upper.axvline(target_acceptance, color=canvas.GOOD, linewidth=1.4, linestyle=(0, (3, 2)), label="aim")
        upper.set_xlim(0, 1)
        upper.set_xlabel("acceptance")
        upper.set_ylabel(f"{unit}s")
        upper.yaxis.set_major_locator(MaxNLocator(3, integer=True))
        canvas.legend(upper, columns=2, above=True)
    else:
        canvas.say_instead(upper, "No acceptance was recorded.")
    steps = canvas.finite(num_steps)
    if steps.size:
        different, counts = np.unique(steps, return_counts=True)
        if len(different) > _NUM_BINS:
            lower.hist(steps, bins=_NUM_BINS, color=canvas.SERIES[0], alpha=0.8)
        else:
            positions = np.arange(len(different))
            lower.bar(positions, counts, width=0.7, color=canvas.SERIES[0], alpha=0.8)
            skip = -(-len(different) // 10)
            lower.set_xticks(positions[::skip], [f"{number:g}" for number in different[::skip]])
        lower.set_xlabel(f"leapfrog steps per {unit}")
        lower.set_ylabel(f"{unit}s")
        lower.yaxis.set_major_locator(MaxNLocator(3, integer=True))
    else:
        canvas.say_instead(lower, "No number of steps was recorded.")
    return [upper, lower]
