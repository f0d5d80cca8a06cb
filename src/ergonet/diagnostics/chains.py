"""R-hat, effective sample size (ESS) and Monte Carlo standard error of any number of quantities.

Rank-normalized split R-hat, bulk and tail ESS and the Monte Carlo standard error of the mean are computed by ArviZ
(Vehtari2021), or as described in `ergonet.diagnostics.averages` for draws of unequal weight; the variogram estimate of
the ESS is computed here. Memory is bounded: quantities are read in chunks, so that ``values`` may be an array on disk
that is read slice by slice.

Quantities that are constant or contain a value that is not finite get NaN. With fewer than four draws everything is
NaN, and with a single chain R-hat is.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ergonet._errors import SettingError
from ergonet.diagnostics.averages import estimates

_NUMBERS_IN_A_CHUNK = 2**22
"""Numbers held in float64 at a time: 32 MiB."""

_FEWEST_DRAWS = 4


def rhat(values: Any, weights: Any = None) -> np.ndarray:
    """Compute rank-normalized split R-hat: 1 if the chains agree, above 1.01 if they do not.

    Args:
        values: draws, ``[chain, draw, quantity]``; any array that can be sliced like NumPy's.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        R-hat, ``[quantity]``, at least about 1. NaN for a single chain, fewer than four draws, and constant or
        non-finite quantities; infinite if every chain is constant at a different value.

    Raises:
        SettingError: ``values`` does not have three dimensions, or ``weights`` do not match them.
    """
    return _per_quantity(values, estimates(weights).rhat, weights, fewest_chains=2)


def ess_bulk(values: Any, weights: Any = None) -> np.ndarray:
    """Compute the bulk ESS, the effective sample size for the center of the distribution (Vehtari2021).

    As in ArviZ and Stan, it is at most N log10(N) for N draws of all chains: more than N for anticorrelated draws, and
    by chance for a few draws.

    Args:
        values: draws, ``[chain, draw, quantity]``.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        ``[quantity]``, above 0; NaN where it cannot be computed.

    Raises:
        SettingError: ``values`` does not have three dimensions, or ``weights`` do not match them.
    """
    return _per_quantity(values, estimates(weights).ess_bulk, weights)


def ess_tail(values: Any, weights: Any = None) -> np.ndarray:
    """Compute the tail ESS, the smaller effective sample size of the 5 % and 95 % quantiles (Vehtari2021).

    Args:
        values: draws, ``[chain, draw, quantity]``.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        ``[quantity]``, above 0; NaN where it cannot be computed.

    Raises:
        SettingError: ``values`` does not have three dimensions, or ``weights`` do not match them.
    """
    return _per_quantity(values, estimates(weights).ess_tail, weights)


def ess_variogram(values: Any) -> np.ndarray:
    """Compute the ESS from the variogram, without rank normalization and without splitting chains.

    With V_t the mean of (x_i - x_{i-t})^2 over all chains, rho_t = 1 - V_t / (2 var+), where var+ = W (n - 1) / n +
    B / n is the variance estimate used in R-hat, and ESS = m n / (1 + 2 sum_{t=1}^T rho_t), where T is the first odd
    lag with rho_{T+1} + rho_{T+2} negative. The fast Fourier transform computes V_t for all lags at once. Use it to
    compare with older tables; `ess_bulk` detects drifts and heavy tails better. Sources: Gelman2013, section 11.5;
    Lau2018, sections 2.7 and 2.8.

    Args:
        values: draws, ``[chain, draw, quantity]``.

    Returns:
        ``[quantity]``, above 0 and, as in ArviZ, at most m n log10(m n), a bound that only anticorrelated draws
        approach; NaN where it cannot be computed.

    Raises:
        SettingError: ``values`` does not have three dimensions.
    """
    return _per_quantity(values, _ess_variogram)


def mcse_mean(values: Any, weights: Any = None) -> np.ndarray:
    """Compute the Monte Carlo standard error of the mean over all draws, in the unit of the quantity.

    Args:
        values: draws, ``[chain, draw, quantity]``.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        ``[quantity]``, above 0; NaN where it cannot be computed.

    Raises:
        SettingError: ``values`` does not have three dimensions, or ``weights`` do not match them.
    """
    return _per_quantity(values, estimates(weights).mcse_mean, weights)


def sd(values: Any, weights: Any = None) -> np.ndarray:
    """Compute the standard deviation over all draws; its divisor is their number, or the sum of the weights.

    Args:
        values: draws, ``[chain, draw, quantity]``.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        ``[quantity]``, above 0; NaN where the other figures cannot be computed.

    Raises:
        SettingError: ``values`` does not have three dimensions, or ``weights`` do not match them.
    """
    return _per_quantity(values, estimates(weights).sd, weights)


def stuck_chains(values: Any) -> tuple[int, ...]:
    """Find chains whose draws never change.

    Args:
        values: draws, ``[chain, draw, quantity]``; usually positions.

    Returns:
        Indices of these chains, counted from 0; empty if there are fewer than two draws.

    Raises:
        SettingError: ``values`` does not have three dimensions.
    """
    num_chains, num_draws, num_quantities = check_draws(values)
    if num_draws < 2 or num_quantities == 0:
        return ()
    return tuple(chain for chain in range(num_chains) if not _moves(values, chain))


def over_known(reduce: Callable[[np.ndarray], Any], values: np.ndarray) -> float:
    """Reduce the values that are not NaN, as by `np.max`; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(reduce(known)) if known.size else float("nan")


def check_draws(values: Any) -> tuple[int, int, int]:
    """Return the numbers of chains, draws and quantities.

    Raises:
        SettingError: ``values`` does not have the three dimensions ``[chain, draw, quantity]``.
    """
    shape = tuple(np.shape(values))
    if len(shape) != 3:
        raise SettingError(
            f"`values` must have shape [chain, draw, quantity], got {len(shape)} dimensions: {shape}. "
            "For one quantity pass `values[:, :, None]`, for arrays of parameters `values.reshape(chains, draws, "
            "-1)`."
        )
    return shape


def _per_quantity(
    values: Any, statistic: Callable[[np.ndarray], np.ndarray], weights: Any = None, *, fewest_chains: int = 1
) -> np.ndarray:
    num_chains, num_draws, num_quantities = check_draws(values)
    if weights is not None and np.shape(weights) != (num_chains, num_draws):
        raise SettingError(
            f"`weights` must have shape [{num_chains}, {num_draws}] (chain, draw) like the draws, got "
            f"{list(np.shape(weights))}."
        )
    result = np.full(num_quantities, np.nan)
    if num_draws < _FEWEST_DRAWS or num_chains < fewest_chains:
        return result
    width = max(1, _NUMBERS_IN_A_CHUNK // (num_chains * num_draws))
    for start in range(0, num_quantities, width):
        chunk = np.asarray(values[:, :, start : start + width], dtype=np.float64)
        usable = _varies(chunk)
        if not usable.any():
            continue
        with np.errstate(divide="ignore", invalid="ignore"):
            numbers = statistic(np.ascontiguousarray(chunk[:, :, usable]))
        result[start : start + width][usable] = np.asarray(numbers)
    return result


def _ess_variogram(chunk: np.ndarray) -> np.ndarray:
    num_chains, num_draws, _ = chunk.shape
    chunk = chunk - chunk.mean(axis=(0, 1))
    variance = (num_draws - 1) / num_draws * chunk.var(axis=1, ddof=1).mean(axis=0)
    if num_chains > 1:
        variance = variance + chunk.mean(axis=1).var(axis=0, ddof=1)
    rho = 1 - _variogram(chunk) / (2 * variance)
    num_pairs = (num_draws - 2) // 2
    pairs = rho[2 : 2 + 2 * num_pairs].reshape(num_pairs, 2, -1).sum(axis=1)  # (2, 3), (4, 5), ...
    before_the_first_negative = np.logical_and.accumulate(pairs >= 0, axis=0)
    draws_per_effective = 1 + 2 * (rho[1] + np.where(before_the_first_negative, pairs, 0.0).sum(axis=0))
    total = num_chains * num_draws
    return total / np.maximum(draws_per_effective, 1 / np.log10(total))


def _variogram(chunk: np.ndarray) -> np.ndarray:
    """V_t for t = 0 to n - 1, `[lag, quantity]`; values must have a mean near 0, or digits cancel."""
    from scipy import fft

    num_chains, num_draws, num_quantities = chunk.shape
    length = fft.next_fast_len(2 * num_draws, real=True)
    sums = np.zeros((num_draws, num_quantities))
    for chain in chunk:
        power = np.abs(fft.rfft(chain, length, axis=0)) ** 2
        products = fft.irfft(power, length, axis=0)[:num_draws]  # sums of x_i x_{i-t}
        squares = np.concatenate([np.zeros((1, num_quantities)), np.cumsum(chain**2, axis=0)])
        late, early = squares[-1] - squares[:-1], squares[:0:-1]  # over i > t, and over i <= n - t
        sums += late + early - 2 * products
    return sums / (num_chains * np.arange(num_draws, 0, -1)[:, None])


def _varies(chunk: np.ndarray) -> np.ndarray:
    finite = np.isfinite(chunk).all(axis=(0, 1))
    with np.errstate(invalid="ignore"):
        return finite & (chunk.max(axis=(0, 1)) > chunk.min(axis=(0, 1)))


def _moves(values: Any, chain: int) -> bool:
    _, num_draws, num_quantities = np.shape(values)
    first = np.asarray(values[chain, :1])
    height = max(1, _NUMBERS_IN_A_CHUNK // num_quantities)
    for start in range(1, num_draws, height):
        chunk = np.asarray(values[chain, start : start + height])
        if not np.array_equal(chunk, np.broadcast_to(first, chunk.shape), equal_nan=True):
            return True
    return False
