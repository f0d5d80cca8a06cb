"""Pictures of named quantities, drawn by arviz-plots (`pip install arviz-plots`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ergonet._arviz import from_dict, plots
from ergonet._errors import SettingError

Draws = Mapping[str, np.ndarray]  # `[chain, draw, ...]` by name, such as `samples.parameters()` or `samples.scales()`

MOST_PANELS = 40
_OBSERVED = "y"


def trace_plot(draws: Draws) -> list[Axes]:
    """Plot each quantity draw by draw, a color for each chain.

    Args:
        draws: quantities by name, ``[chain, draw, ...]``: at most 40 numbers, such as ``samples.scales()``, or
            ``{"prediction": samples.monitor()[:, :, :4]}``.

    Returns:
        The axes, one for each number.

    Raises:
        SettingError: there are no or too many numbers, or arviz-plots is not installed.
    """
    return _drawn("plot_trace", {"posterior": _checked(draws, MOST_PANELS)})


def pair_plot(draws: Draws) -> list[Axes]:
    """Plot each quantity against each other one; correlations and separate modes show. Arguments as `trace_plot`.

    At most 8 numbers are drawn.
    """
    return _drawn("plot_pair", {"posterior": _checked(draws, 8)})


def forest_plot(draws: Draws) -> list[Axes]:
    """Plot an interval of each quantity for each chain: chains that disagree show. Arguments as `trace_plot`."""
    return _drawn("plot_forest", {"posterior": _checked(draws, MOST_PANELS)})


def predictive_plot(simulated: np.ndarray, observed: np.ndarray) -> list[Axes]:
    """Plot the distribution of the observed targets over those of simulated ones, a posterior predictive check.

    Args:
        simulated: targets of the rows simulated from the draws, ``[chain, draw, row]``, as those of
            ``samples.to_datatree(posterior_predictive=True)``.
        observed: the targets, ``[row]``.

    Raises:
        SettingError: shapes do not match, or arviz-plots is not installed.
    """
    simulated, observed = np.asarray(simulated), np.asarray(observed)
    if simulated.ndim != 3 or observed.shape != simulated.shape[2:]:
        raise SettingError(
            f"`simulated` must be [chain, draw, row] and `observed` [row], got {list(simulated.shape)} and "
            f"{list(observed.shape)}."
        )
    groups = {"posterior_predictive": {_OBSERVED: simulated}, "observed_data": {_OBSERVED: observed}}
    return _drawn("plot_ppc_dist", groups)


def _checked(draws: Draws, most: int) -> dict[str, np.ndarray]:
    found = {name: np.asarray(values) for name, values in draws.items()}
    if any(one.ndim < 2 for one in found.values()):
        raise SettingError("`draws` must have arrays of shape [chain, draw, ...] by name.")
    count = sum(int(np.prod(one.shape[2:])) for one in found.values())
    if not 0 < count <= most:
        raise SettingError(f"`draws` has {count} numbers, but this picture takes 1 to {most}. Choose some of them.")
    return found


def _drawn(plot: str, groups: dict[str, Any]) -> list[Axes]:
    """The axes of a picture, whose figure belongs to no window."""
    from matplotlib import pyplot as plt

    drawn = getattr(plots(), plot)(from_dict()(groups), backend="matplotlib")
    figure = drawn.viz["figure"].item()
    plt.close(figure)
    axes: Sequence[Axes] = figure.axes
    return list(axes)
