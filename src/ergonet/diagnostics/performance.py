"""Cost per draw, and the efficiency of samplers at equal cost.

For each chain of a run: the fraction of trees at the maximum depth, and steps or gradients per draw. To compare
samplers: the variance of chain means (Choo2000, sections 5.3 to 5.7). Many independent chains start in equilibrium and
have the same budget; the less their means vary around the truth, the better the sampler. Initial states may be
stratified so that a rare region has enough of them. Bootstrap intervals resample chains; intervals of ratios resample
the initial states that two samplers share.
"""

import numpy as np

from ergonet._errors import SettingError


def saturated_share(tree_depth: np.ndarray, max_doublings: int) -> np.ndarray:
    """Compute the fraction of draws whose tree reached the maximum depth.

    Such a tree may have ended before the trajectory turned, and then draws are more correlated than necessary.

    Args:
        tree_depth: number of doublings, ``[chain, draw]``.
        max_doublings: the maximum depth, at least 1.

    Returns:
        Fractions, ``[chain]``, between 0 and 1; NaN without draws.

    Raises:
        SettingError: ``tree_depth`` does not have two dimensions.
    """
    return _mean_of_draws("tree_depth", np.asarray(tree_depth) >= max_doublings)


def mean_per_draw(counts: np.ndarray) -> np.ndarray:
    """Compute the mean number of integrator steps or gradients per stored draw, thinned transitions included.

    Args:
        counts: counts per draw, ``[chain, draw]``, such as ``samples.stats["n_steps"]`` or
            ``samples.stats["gradients"]``.

    Returns:
        Means, ``[chain]``, at least 0; NaN without draws.

    Raises:
        SettingError: ``counts`` does not have two dimensions.
    """
    return _mean_of_draws("counts", np.asarray(counts))


def _mean_of_draws(name: str, values: np.ndarray) -> np.ndarray:
    if values.ndim != 2:
        raise SettingError(f"`{name}` must have shape [chain, draw], got {values.shape}.")
    if values.shape[1] == 0:
        return np.full(values.shape[0], np.nan)
    return values.mean(axis=1, dtype=np.float64)


def variance_of_means(
    means: np.ndarray, center: np.ndarray, *, strata: np.ndarray | None = None, shares: np.ndarray | None = None
) -> np.ndarray:
    """Compute rho, the mean squared distance of chain means from the true mean (smaller is better).

    With strata, rho is the mean within each stratum, weighted by the posterior probability of the stratum, so that
    chains started in a rare region on purpose do not count for more than that region does.

    Args:
        means: mean of every quantity over the draws of each chain, ``[..., chain, quantity]``.
        center: the true means, for instance from a much longer run, ``[quantity]``.
        strata: index of the region in which each chain started, 0, 1, ..., ``[chain]``; None: a single region.
        shares: posterior probability of each region, summing to 1, ``[stratum]``.

    Returns:
        rho, ``[..., quantity]``, in squared units of the quantity.

    Raises:
        SettingError: shapes do not match, a stratum has no chain, or the shares do not sum to 1.

    Source: Choo2000, equations 5.5, 5.10 and 5.11.
    """
    means, weights = _checked(means, center, strata, shares)
    within = [np.mean(squares, axis=-2) for squares in _by_stratum(means, center, strata, len(weights))]
    return np.tensordot(weights, np.stack(within), axes=1)


def variance_of_means_error(
    means: np.ndarray, center: np.ndarray, *, strata: np.ndarray | None = None, shares: np.ndarray | None = None
) -> np.ndarray:
    """Compute the standard error of `variance_of_means` from the spread of the squared distances across chains.

    Takes the arguments of `variance_of_means` and treats the shares as known.

    Returns:
        Standard errors, ``[..., quantity]``; NaN if a stratum has a single chain.

    Source: Choo2000, equations 5.7 and 5.12.
    """
    means, weights = _checked(means, center, strata, shares)
    variances = []
    for squares in _by_stratum(means, center, strata, len(weights)):
        num = squares.shape[-2]
        spread = np.sum((squares - squares.mean(axis=-2, keepdims=True)) ** 2, axis=-2)
        variances.append(spread / (num - 1) / num if num > 1 else np.full_like(spread, np.nan))
    return np.sqrt(np.tensordot(weights**2, np.stack(variances), axes=1))


def inefficiency_factor(variance_of_means: np.ndarray, variance: np.ndarray, num_draws: int) -> np.ndarray:
    """Compute the number of correlated draws equivalent to one independent draw, T = rho N / Var.

    Args:
        variance_of_means: rho of every quantity, ``[...]``.
        variance: posterior variance of the quantity, above 0, ``[...]``.
        num_draws: number of draws N in each chain mean, at least 1.

    Returns:
        T, ``[...]``; 1 for independent draws.

    Source: Choo2000, equation 5.6.
    """
    if num_draws < 1:
        raise SettingError(f"`num_draws` must be at least 1, got {num_draws}.")
    return np.asarray(variance_of_means, np.float64) * num_draws / np.asarray(variance, np.float64)


def geometric_mean(values: np.ndarray) -> np.ndarray:
    """Compute the geometric mean over the last axis; applied to rho it is the figure g.

    Args:
        values: at least 0, ``[..., quantity]``, with at least one quantity.

    Returns:
        Means, ``[...]``; 0 if any value is 0.

    Raises:
        SettingError: there are no values, or one is below 0.

    Source: Choo2000, equation 5.8 (which omits the output bias).
    """
    values = np.asarray(values, np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise SettingError(f"`values` must have shape [..., quantity] with at least one quantity, got {values.shape}.")
    if np.any(values < 0):
        raise SettingError(f"`values` must be at least 0, got {values.min()}.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.mean(np.log(values), axis=-1)))


def resample_chains(
    num_chains: int, *, strata: np.ndarray | None = None, num_resamples: int = 1000, seed: int = 0
) -> np.ndarray:
    """Draw bootstrap resamples of chains, with replacement within each stratum.

    Args:
        num_chains: number of chains, at least 1.
        strata: index of the region in which each chain started, ``[chain]``; None: a single region.
        num_resamples: number of resamples, at least 1.
        seed: seeds NumPy's generator.

    Returns:
        Indices ``[resample, chain]``; ``means[indices]`` are the resampled ``means``, with the same strata.

    Raises:
        SettingError: a setting is out of range.

    Source: Choo2000, sections 5.3.3 and 5.4.3.
    """
    if num_chains < 1 or num_resamples < 1:
        raise SettingError(
            f"`num_chains` and `num_resamples` must be at least 1, got {num_chains} and {num_resamples}."
        )
    strata = _strata(strata, num_chains)
    generator = np.random.default_rng(seed)
    indices = np.empty((num_resamples, num_chains), np.int64)
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        indices[:, members] = generator.choice(members, (num_resamples, len(members)))
    return indices


def bootstrap_interval(values: np.ndarray, level: float = 0.9) -> np.ndarray:
    """Compute a central bootstrap percentile interval.

    Args:
        values: the figure in each resample, ``[resample, ...]``.
        level: fraction of the resamples inside the interval, in (0, 1).

    Returns:
        Lower and upper end, ``[2, ...]``.

    Raises:
        SettingError: `level` is out of range.

    Source: Choo2000, section 5.3.3.
    """
    if not 0 < level < 1:
        raise SettingError(f"`level` must lie in (0, 1), got {level!r}.")
    return np.quantile(np.asarray(values, np.float64), [(1 - level) / 2, (1 + level) / 2], axis=0)


def paired_ratio_interval(
    first: np.ndarray,
    second: np.ndarray,
    center: np.ndarray,
    *,
    strata: np.ndarray | None = None,
    shares: np.ndarray | None = None,
    level: float = 0.9,
    num_resamples: int = 1000,
    seed: int = 0,
) -> np.ndarray:
    """Compute the ratio of the figures g of two samplers, with a paired bootstrap interval.

    The i-th chains of both samplers start in the same state. Resampling these states cancels whatever makes a state
    hard for both samplers.

    Args:
        first: chain means of the sampler in the numerator, ``[chain, quantity]``.
        second: chain means of the sampler in the denominator, same shape.
        center: the true means, ``[quantity]``.
        strata: as in `variance_of_means`.
        shares: as in `variance_of_means`.
        level: probability of the interval, in (0, 1).
        num_resamples: number of resamples, at least 1.
        seed: seeds NumPy's generator.

    Returns:
        Ratio, lower end and upper end, ``[3]``; below 1 if the first sampler is better.

    Raises:
        SettingError: shapes do not match, or a setting is out of range.

    Source: Choo2000, section 5.7.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.shape != second.shape or first.ndim != 2:
        raise SettingError(
            f"`first` and `second` must have the same shape [chain, quantity], got {first.shape} and {second.shape}."
        )

    def g(means: np.ndarray) -> np.ndarray:
        return geometric_mean(variance_of_means(means, center, strata=strata, shares=shares))

    drawn = resample_chains(len(first), strata=strata, num_resamples=num_resamples, seed=seed)
    return np.stack([g(first) / g(second), *bootstrap_interval(g(first[drawn]) / g(second[drawn]), level)])


def _checked(
    means: np.ndarray, center: np.ndarray, strata: np.ndarray | None, shares: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Validate and return the means as float64, and the weights of the strata."""
    means, center = np.asarray(means, np.float64), np.asarray(center, np.float64)
    if means.ndim < 2 or means.shape[-1:] != center.shape:
        raise SettingError(
            f"`means` must have shape [..., chain, quantity] and `center` [quantity], got {means.shape} and "
            f"{center.shape}."
        )
    if (strata is None) != (shares is None):
        raise SettingError("Give both `strata` and `shares`, or neither.")
    weights = np.ones(1) if shares is None else np.asarray(shares, np.float64)
    members = _strata(strata, means.shape[-2])
    if weights.ndim != 1 or not np.array_equal(np.unique(members), np.arange(len(weights))):
        raise SettingError(
            f"`strata` must number the regions of `shares` from 0 and give each at least one chain; got regions "
            f"{np.unique(members).tolist()} and shares of shape {weights.shape}."
        )
    if np.any(weights < 0) or not np.isclose(weights.sum(), 1):
        raise SettingError(f"`shares` must be at least 0 and sum to 1, got {weights.tolist()}.")
    return means, weights


def _strata(strata: np.ndarray | None, num_chains: int) -> np.ndarray:
    found = np.zeros(num_chains, np.int64) if strata is None else np.asarray(strata)
    if found.shape != (num_chains,):
        raise SettingError(f"`strata` must have shape [{num_chains}], one entry per chain, got {found.shape}.")
    return found


def _by_stratum(means: np.ndarray, center: np.ndarray, strata: np.ndarray | None, num_strata: int) -> list[np.ndarray]:
    """Squared distances from the center of the chains of each stratum, `[..., chain, quantity]`."""
    squares = (means - np.asarray(center, np.float64)) ** 2
    members = _strata(strata, means.shape[-2])
    return [squares[..., members == stratum, :] for stratum in range(num_strata)]
