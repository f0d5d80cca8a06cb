"""Agreement and information of Markov chains, one number per quantity, for any number of quantities.

The formulas are ArviZ's, but for the variogram: rank-normalised split R-hat, bulk and tail effective sample size, and
the Monte Carlo standard error of the mean, all after Vehtari, Gelman, Simpson, Carpenter and Buerkner,
"Rank-normalization, folding, and localization: an improved R-hat" (Bayesian Analysis 16, 2021). What is added here is
bounded memory: quantities are read in blocks, so that ``values`` may be an array that is read from disk as sliced.

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


def ess_variogram(values: Any) -> np.ndarray:
    """Effective sample size by the classic variogram, without ranks and without halves of chains.

    With V_t the mean of (x_i - x_{i-t})^2 over all chains, rho_t = 1 - V_t / (2 var+), where var+ = W (n - 1) / n +
    B / n is the variance in R-hat, and ESS = m n / (1 + 2 sum_{t=1}^T rho_t), with T the first odd lag where
    rho_{T+1} + rho_{T+2} is negative. The sums over draws are convolutions, which the fast Fourier transform makes at
    once for every lag. For comparison with older tables; `ess_bulk` sees drifts and heavy tails better. Sources:
    Gelman and others, *Bayesian Data Analysis*, third edition, section 11.5; Lau 2018, sections 2.7 and 2.8.

    Args:
        values: draws, ``[chain, draw, quantity]``.

    Returns:
        ``[quantity]``, above 0 and, as in ArviZ, at most m n log10(m n), which only anticorrelated draws come near;
        NaN where it cannot be told.

    Raises:
        SettingError: ``values`` has not three dimensions.
    """
    return _per_quantity(values, _ess_variogram)


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


def _ess_variogram(block: np.ndarray, **_axes: int) -> np.ndarray:
    num_chains, num_draws, _ = block.shape
    block = block - block.mean(axis=(0, 1))
    variance = (num_draws - 1) / num_draws * block.var(axis=1, ddof=1).mean(axis=0)
    if num_chains > 1:
        variance = variance + block.mean(axis=1).var(axis=0, ddof=1)
    rho = 1 - _variogram(block) / (2 * variance)
    num_pairs = (num_draws - 2) // 2
    pairs = rho[2 : 2 + 2 * num_pairs].reshape(num_pairs, 2, -1).sum(axis=1)  # (2, 3), (4, 5), ...
    before_the_first_negative = np.logical_and.accumulate(pairs >= 0, axis=0)
    draws_per_effective = 1 + 2 * (rho[1] + np.where(before_the_first_negative, pairs, 0.0).sum(axis=0))
    total = num_chains * num_draws
    return total / np.maximum(draws_per_effective, 1 / np.log10(total))


def _variogram(block: np.ndarray) -> np.ndarray:
    """V_t for t = 0 to n - 1, `[lag, quantity]`, from values whose mean is near 0 (or figures would cancel)."""
    from scipy import fft

    num_chains, num_draws, num_quantities = block.shape
    length = fft.next_fast_len(2 * num_draws, real=True)
    sums = np.zeros((num_draws, num_quantities))
    for chain in block:
        power = np.abs(fft.rfft(chain, length, axis=0)) ** 2
        products = fft.irfft(power, length, axis=0)[:num_draws]  # sums of x_i x_{i-t}
        squares = np.concatenate([np.zeros((1, num_quantities)), np.cumsum(chain**2, axis=0)])
        late, early = squares[-1] - squares[:-1], squares[:0:-1]  # over i > t, and over i <= n - t
        sums += late + early - 2 * products
    return sums / (num_chains * np.arange(num_draws, 0, -1)[:, None])


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
