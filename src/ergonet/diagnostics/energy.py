"""Energy diagnostics: how well momentum resampling explores the energies."""

from collections.abc import Mapping

import numpy as np

from ergonet._errors import SettingError


def has_momentum(stats: Mapping[str, np.ndarray]) -> bool:
    """Whether the energies include a kinetic part, so that `e_bfmi` applies.

    Args:
        stats: statistics of a run: `energy` if recorded, `[chain, draw]`, and `lp` of the same shape if recorded. Runs
            of a random walk stored by older versions have an energy that is minus the log density.
    """
    return "energy" in stats and not (
        "lp" in stats and np.array_equal(stats["energy"], -np.asarray(stats["lp"]), equal_nan=True)
    )


def e_bfmi(energy: np.ndarray) -> np.ndarray:
    """Estimate the Bayesian fraction of missing information, ``sum (H_n - H_{n-1})^2 / sum (H_n - mean H)^2``.

    At values near or above 1, momentum resampling reaches every energy in one transition; below 0.3 the chain performs
    a slow random walk over energies and may miss the tails. Source: Betancourt2016b.

    Args:
        energy: value of the Hamiltonian after each transition, at the returned position and momentum,
            ``[chain, draw]``.

    Returns:
        E-BFMI, ``[chain]``, between 0 and 4; NaN with fewer than two draws, or if the energy is constant or not finite.

    Raises:
        SettingError: ``energy`` does not have two dimensions.
    """
    energy = np.asarray(energy, dtype=np.float64)
    if energy.ndim != 2:
        raise SettingError(f"`energy` must have shape [chain, draw], got {energy.shape}.")
    if energy.shape[1] < 2:
        return np.full(energy.shape[0], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.square(np.diff(energy, axis=1)).sum(axis=1)
        spread = np.square(energy - energy.mean(axis=1, keepdims=True)).sum(axis=1)
        return np.where(spread > 0, steps / spread, np.nan)
