"""Agreement and information of Markov chains, one number per quantity, for any number of quantities.

The formulas are ArviZ's: rank-normalised split R-hat, bulk and tail effective sample size, and the Monte
Carlo standard error of the mean, all after Vehtari, Gelman, Simpson, Carpenter and Buerkner,
"Rank-normalization, folding, and localization: an improved R-hat" (Bayesian Analysis 16, 2021). What is "
"added here is bounded memory: quantities are
read in blocks, so that ``values`` may be an array that is read from disk as it is sliced.

A quantity that is constant, or that is somewhere not finite, has no such numbers and gets NaN. So does
everything when there are fewer than four draws, and R-hat when there is only one chain.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ergonet._errors import SettingError

_BLOCK_NUMBERS = 2**22
"""Numbers held in float64 at a time: 32 MiB."""

_FEWEST_DRAWS = 4


def rhat(values: Any) -> np.ndarray:
    """Rank-normalised split R-hat: 1 when chains agree, above 1.01 when they do not.

    Args:
        values: draws, ``[chain, draw, quantity]``; anything that slices like a NumPy array.

    Returns:
        ``[quantity]``, at least about 1. NaN for one chain, fewer than four draws, and constant or non-finite
        quantities; infinite where every chain is constant but they differ.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    return _per_quantity(values, _array_statistics().rhat, fewest_chains=2)


def ess_bulk(values: Any) -> np.ndarray:
    """Effective sample size in the bulk: independent draws that would tell as much about the centre.

    Args:
        values: draws, ``[chain, draw, quantity]``.

    Returns:
        ``[quantity]``, above 0; NaN where it cannot be told.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    statistics = _array_statistics()
    return _per_quantity(values, lambda block, **axes: statistics.ess(block, method="bulk", **axes))


def ess_tail(values: Any) -> np.ndarray:
    """Effective sample size in the tails: the smaller one of the 5 % and the 95 % quantile.

    Args:
        values: draws, ``[chain, draw, quantity]``.

    Returns:
        ``[quantity]``, above 0; NaN where it cannot be told.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    statistics = _array_statistics()
    return _per_quantity(values, lambda block, **axes: statistics.ess(block, method="tail", prob=(0.05, 0.95), **axes))


def mcse_mean(values: Any) -> np.ndarray:
    """Monte Carlo standard error of the mean over all draws, in the unit of the quantity.

    Args:
        values: draws, ``[chain, draw, quantity]``.

    Returns:
        ``[quantity]``, above 0; NaN where it cannot be told.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    statistics = _array_statistics()
    return _per_quantity(values, lambda block, **axes: statistics.mcse(block, method="mean", **axes))


def stuck_chains(values: Any) -> tuple[int, ...]:
    """Chains whose draws never change.

    Args:
        values: draws, ``[chain, draw, quantity]``; positions, as a rule.

    Returns:
        Their indices, counted from 0; none when there are fewer than two draws.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    num_chains, num_draws, num_quantities = check_draws(values)
    if num_draws < 2 or num_quantities == 0:
        return ()
    return tuple(chain for chain in range(num_chains) if not _moves(values, chain))


def check_draws(values: Any) -> tuple[int, int, int]:
    """The numbers of chains, draws and quantities.

    Raises:
        SettingError: ``values`` has not the three dimensions ``[chain, draw, quantity]``.
    """
    shape = tuple(np.shape(values))
    if len(shape) != 3:
        raise SettingError(
            f"`values` must be [chain, draw, quantity], got {len(shape)} dimensions: {shape}. "
            "One quantity is `values[:, :, None]`; arrays of parameters are `values.reshape(chains, draws, "
            "-1)`."
        )
    return shape


def _array_statistics() -> Any:
    # Imported when needed: it brings pandas and xarray along.
    from arviz_stats.base.array import array_stats

    return array_stats


def _per_quantity(values: Any, statistic: Callable[..., Any], *, fewest_chains: int = 1) -> np.ndarray:
    num_chains, num_draws, num_quantities = check_draws(values)
    result = np.full(num_quantities, np.nan)
    if num_draws < _FEWEST_DRAWS or num_chains < fewest_chains:
        return result
    width = max(1, _BLOCK_NUMBERS // (num_chains * num_draws))
    for start in range(0, num_quantities, width):
        block = np.asarray(values[:, :, start : start + width], dtype=np.float64)
        usable = _varies(block)
        if not usable.any():
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            numbers = statistic(np.ascontiguousarray(block[:, :, usable]), chain_axis=0, draw_axis=1)
        result[start : start + width][usable] = np.asarray(numbers)
    return result


def _varies(block: np.ndarray) -> np.ndarray:
    finite = np.isfinite(block).all(axis=(0, 1))
    with np.errstate(invalid="ignore"):
        return finite & (block.max(axis=(0, 1)) > block.min(axis=(0, 1)))


def _moves(values: Any, chain: int) -> bool:
    _, num_draws, num_quantities = np.shape(values)
    first = np.asarray(values[chain, :1])
    height = max(1, _BLOCK_NUMBERS // num_quantities)
    for start in range(1, num_draws, height):
        block = np.asarray(values[chain, start : start + height])
        if not np.array_equal(block, np.broadcast_to(first, block.shape), equal_nan=True):
            return True
    return False
