"""What the energies of a chain tell about its momentum refreshments."""

from collections.abc import Mapping

import numpy as np

from ergonet._errors import SettingError


def has_momentum(stats: Mapping[str, np.ndarray]) -> bool:
    """Whether energies are more than minus the log density: a random walk has none that `e_bfmi` could judge.

    Args:
        stats: of a run: `energy`, `[chain, draw]`, and `lp` of the same shape where it is known.
    """
    return "lp" not in stats or not np.array_equal(stats["energy"], -np.asarray(stats["lp"]), equal_nan=True)


def e_bfmi(energy: np.ndarray) -> np.ndarray:
    """Estimated Bayesian fraction of missing information: ``sum (H_n - H_{n-1})^2 / sum (H_n - mean H)^2``.

    Near or above 1 a fresh momentum reaches every energy at once; below 0.3 the chain walks through the
    energies in small steps and may miss the tails (Betancourt, "Diagnosing suboptimal cotangent
    disintegrations in Hamiltonian Monte Carlo", 2016).

    Args:
        energy: value of the Hamiltonian after each transition, with its own momentum, ``[chain, draw]``.

    Returns:
        ``[chain]``, between 0 and 4; NaN where there are fewer than two draws, the energy is constant or not
        finite.

    Raises:
        SettingError: ``energy`` has not two dimensions.
    """
    energy = np.asarray(energy, dtype=np.float64)
    if energy.ndim != 2:
        raise SettingError(f"`energy` must be [chain, draw], got shape {energy.shape}.")
    if energy.shape[1] < 2:
        return np.full(energy.shape[0], np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.square(np.diff(energy, axis=1)).sum(axis=1)
        spread = np.square(energy - energy.mean(axis=1, keepdims=True)).sum(axis=1)
        return np.where(spread > 0, steps / spread, np.nan)
