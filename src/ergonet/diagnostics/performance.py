"""What draws cost, and whether trees were cut off: per chain, from the statistics of a run."""

import numpy as np

from ergonet._errors import SettingError


def saturated_share(tree_depth: np.ndarray, max_doublings: int) -> np.ndarray:
    """Share of the draws whose tree had as many doublings as were allowed.

    Such a tree may have been cut off before it turned: draws are then more alike than they need be.

    Args:
        tree_depth: doublings, ``[chain, draw]``; -1 where there is no tree.
        max_doublings: the limit, at least 1.

    Returns:
        ``[chain]``, between 0 and 1; NaN where there is no draw.

    Raises:
        SettingError: ``tree_depth`` has not two dimensions.
    """
    return _mean_of_draws("tree_depth", np.asarray(tree_depth) >= max_doublings)


def mean_per_draw(counts: np.ndarray) -> np.ndarray:
    """Integrator steps, or gradients, that a kept draw cost; those of thinned transitions are included.

    Args:
        counts: ``[chain, draw]``, such as ``samples.stats["n_steps"]`` or ``samples.stats["gradients"]``.

    Returns:
        ``[chain]``, at least 0; NaN where there is no draw.

    Raises:
        SettingError: ``counts`` has not two dimensions.
    """
    return _mean_of_draws("counts", np.asarray(counts))


def _mean_of_draws(name: str, values: np.ndarray) -> np.ndarray:
    if values.ndim != 2:
        raise SettingError(f"`{name}` must be [chain, draw], got shape {values.shape}.")
    if values.shape[1] == 0:
        return np.full(values.shape[0], np.nan)
    return values.mean(axis=1, dtype=np.float64)
