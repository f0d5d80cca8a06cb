"""What draws cost, and how well a sampler explores for that cost.

Per chain, from the statistics of a run: whether trees were cut off, and steps or gradients per draw. Between samplers:
the variance of chain means (Choo 2000, sections 5.3 to 5.7). Many independent chains start in equilibrium and get the
same budget; the less their means vary around the truth, the better the sampler. Starts may be stratified, so that a
rare region has enough of them; bootstrap intervals resample chains, and intervals of ratios resample starting states
that two samplers share.
"""

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


def variance_of_means(
    means: np.ndarray, center: np.ndarray, *, strata: np.ndarray | None = None, shares: np.ndarray | None = None
) -> np.ndarray:
    """Mean squared distance of chain means from the true mean: rho, the smaller the better.

    With strata, the sum over strata of its share of the posterior times the mean within it: chains that were started
    in a rare region on purpose do not count more than that region.

    Args:
        means: mean of every quantity over the draws of a chain, ``[..., chain, quantity]``.
        center: the true means, as from a much longer run, ``[quantity]``.
        strata: number of the region that each chain started in, 0, 1, ..., ``[chain]``; None: one region.
        shares: probability of every region under the posterior, adding up to 1, ``[stratum]``.

    Returns:
        ``[..., quantity]``, in squared units of the quantity.

    Raises:
        SettingError: shapes do not fit, a stratum has no chain, or the shares do not add up to 1.

    Source: Choo 2000, equations 5.5, 5.10 and 5.11.
    """
    means, weights = _checked(means, center, strata, shares)
    within = [np.mean(squares, axis=-2) for squares in _by_stratum(means, center, strata, len(weights))]
    return np.tensordot(weights, np.stack(within), axes=1)


def variance_of_means_error(
    means: np.ndarray, center: np.ndarray, *, strata: np.ndarray | None = None, shares: np.ndarray | None = None
) -> np.ndarray:
    """Standard error of `variance_of_means`, from the spread of the squared distances between chains.

    The arguments are those of `variance_of_means`. Shares are taken as known.

    Returns:
        ``[..., quantity]``; NaN where a stratum has one chain only.

    Source: Choo 2000, equations 5.7 and 5.12.
    """
    means, weights = _checked(means, center, strata, shares)
    variances = []
    for squares in _by_stratum(means, center, strata, len(weights)):
        num = squares.shape[-2]
        spread = np.sum((squares - squares.mean(axis=-2, keepdims=True)) ** 2, axis=-2)
        variances.append(spread / (num - 1) / num if num > 1 else np.full_like(spread, np.nan))
    return np.sqrt(np.tensordot(weights**2, np.stack(variances), axes=1))


def inefficiency_factor(variance_of_means: np.ndarray, variance: np.ndarray, num_draws: int) -> np.ndarray:
    """Draws of a chain that are worth one independent draw: T = rho N / Var.

    Args:
        variance_of_means: rho of every quantity, ``[...]``.
        variance: its variance under the posterior, above 0, ``[...]``.
        num_draws: draws that a chain's mean is over, at least 1.

    Returns:
        ``[...]``; 1 for independent draws.

    Source: Choo 2000, equation 5.6.
    """
    if num_draws < 1:
        raise SettingError(f"`num_draws` must be at least 1, got {num_draws}.")
    return np.asarray(variance_of_means, np.float64) * num_draws / np.asarray(variance, np.float64)


def geometric_mean(values: np.ndarray) -> np.ndarray:
    """Geometric mean over the last axis, such as that of rho over the quantities: g.

    Args:
        values: at least 0, ``[..., quantity]``, with at least one quantity.

    Returns:
        ``[...]``; 0 where a value is 0.

    Raises:
        SettingError: there is no value, or one is below 0.

    Source: Choo 2000, equation 5.8 (which leaves the output bias out).
    """
    values = np.asarray(values, np.float64)
    if values.ndim == 0 or values.shape[-1] == 0:
        raise SettingError(f"`values` must be [..., quantity] with at least one quantity, got shape {values.shape}.")
    if np.any(values < 0):
        raise SettingError(f"`values` must be at least 0, got {values.min()}.")
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.mean(np.log(values), axis=-1)))


def resample_chains(
    num_chains: int, *, strata: np.ndarray | None = None, num_resamples: int = 1000, seed: int = 0
) -> np.ndarray:
    """Bootstrap realisations: chains drawn with replacement, each from the stratum of the one that it replaces.

    Args:
        num_chains: at least 1.
        strata: region that each chain started in, ``[chain]``; None: one region.
        num_resamples: realisations, at least 1.
        seed: of NumPy's generator.

    Returns:
        Indices ``[resample, chain]``; ``means[indices]`` are the realisations of ``means``, with the same strata.

    Raises:
        SettingError: a setting is out of its range.

    Source: Choo 2000, sections 5.3.3 and 5.4.3.
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
    """The middle of the bootstrap realisations of a figure.

    Args:
        values: the figure of each realisation, ``[resample, ...]``.
        level: share of the realisations inside, in (0, 1).

    Returns:
        Lower and upper end, ``[2, ...]``.

    Raises:
        SettingError: `level` is out of its range.

    Source: Choo 2000, section 5.3.3.
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
    """Ratio of the geometric means g of two samplers whose i-th chains started in the same state, with its interval.

    A realisation draws starting states, so what makes a state hard for both samplers cancels.

    Args:
        first: chain means of the sampler above the line, ``[chain, quantity]``.
        second: of the one below, of the same shape.
        center: the true means, ``[quantity]``.
        strata: as in `variance_of_means`.
        shares: likewise.
        level: of the interval, in (0, 1).
        num_resamples: realisations, at least 1.
        seed: of NumPy's generator.

    Returns:
        Ratio, lower end, upper end, ``[3]``; below 1 where the first sampler is better.

    Raises:
        SettingError: shapes do not fit, or a setting is out of its range.

    Source: Choo 2000, section 5.7.
    """
    first, second = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if first.shape != second.shape or first.ndim != 2:
        raise SettingError(
            f"`first` and `second` must be [chain, quantity] of the same starts, got {first.shape} and {second.shape}."
        )

    def g(means: np.ndarray) -> np.ndarray:
        return geometric_mean(variance_of_means(means, center, strata=strata, shares=shares))

    drawn = resample_chains(len(first), strata=strata, num_resamples=num_resamples, seed=seed)
    return np.stack([g(first) / g(second), *bootstrap_interval(g(first[drawn]) / g(second[drawn]), level)])


def _checked(
    means: np.ndarray, center: np.ndarray, strata: np.ndarray | None, shares: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Means as float64, and the weights of the strata."""
    means, center = np.asarray(means, np.float64), np.asarray(center, np.float64)
    if means.ndim < 2 or means.shape[-1:] != center.shape:
        raise SettingError(
            f"`means` must be [..., chain, quantity] and `center` [quantity], got {means.shape} and {center.shape}."
        )
    if (strata is None) != (shares is None):
        raise SettingError("`strata` and `shares` belong together: give both or neither.")
    weights = np.ones(1) if shares is None else np.asarray(shares, np.float64)
    members = _strata(strata, means.shape[-2])
    if weights.ndim != 1 or not np.array_equal(np.unique(members), np.arange(len(weights))):
        raise SettingError(
            f"`strata` must number every region of `shares` from 0, each with a chain; got regions "
            f"{np.unique(members).tolist()} and shares of shape {weights.shape}."
        )
    if np.any(weights < 0) or not np.isclose(weights.sum(), 1):
        raise SettingError(f"`shares` must be at least 0 and add up to 1, got {weights.tolist()}.")
    return means, weights


def _strata(strata: np.ndarray | None, num_chains: int) -> np.ndarray:
    found = np.zeros(num_chains, np.int64) if strata is None else np.asarray(strata)
    if found.shape != (num_chains,):
        raise SettingError(f"`strata` must be [chain] for {num_chains} chains, got shape {found.shape}.")
    return found


def _by_stratum(means: np.ndarray, center: np.ndarray, strata: np.ndarray | None, num_strata: int) -> list[np.ndarray]:
    """Squared distances from the center of the chains of each stratum, `[..., chain, quantity]`."""
    squares = (means - np.asarray(center, np.float64)) ** 2
    members = _strata(strata, means.shape[-2])
    return [squares[..., members == stratum, :] for stratum in range(num_strata)]
