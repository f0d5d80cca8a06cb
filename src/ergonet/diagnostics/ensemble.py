"""Chains as members of an ensemble: what each predicts, whether they agree and are settled, and what averaging gains.

Chains of a network often stay in different modes. Their average may predict well all the same, and then the question is
not whether the chains have merged, but whether they are members of equal standing that no longer change. Four tests on
the log scores of held-out rows decide; a score is the mean log predictive density of a row, in nats.

- *Change*: a stationary chain has the same expected score in both halves of its draws, on whatever rows. Chains are
  independent, so Student's t of their changes tests it, with the Monte Carlo error of the chains and without an
  assumption about rows.
- *Drift of one chain*: the halves of its log posterior differ by more than their Monte Carlo errors, and those of its
  score by more than their error over rows.
- *Bad member*: a chain whose score is an outlier below the others. Scores are removed from below as long as at least
  half remain, each judged by its deleted residual (Rosner1983), so that two bad chains do not hide each other. The
  chain must also be worse by more than the error over rows.
- *Quality*: one chain alone scores better than the average of all, by more than the error over rows and that of
  halves. Then other members spoil the average.

Each has a false alarm rate of at most `FALSE_ALARMS` / 4 for normal scores, so all together at most `FALSE_ALARMS`.
"""

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float

from ergonet._errors import SettingError
from ergonet.diagnostics.chains import check_draws, mcse_mean, over_known

FALSE_ALARMS: Final = 0.05
_LEVEL = FALSE_ALARMS / 4

PerChain = Float[np.ndarray, "chain"]


@dataclass(frozen=True)
class Agreement:
    """How the members of an ensemble compare on held-out rows. Scores are in nats per row; larger is better.

    Attributes:
        chains: indices of the chains that count, from 0; without chains of weight 0 and those in `unusable`.
        scores: score of each of these chains alone.
        differences: score of each chain minus the mean score of all.
        difference_errors: their standard errors, paired over rows.
        changes: score of the second half of the draws of each chain minus that of the first.
        whole: score of the average of all chains.
        whole_error: its standard error over rows.
        gain_over_mean: `whole` minus the mean score of the members; at least 0 if their weights are equal.
        gain_over_mean_error: its standard error, paired over rows.
        best: the chain with the largest score.
        gain_over_best: `whole` minus the score of this chain.
        gain_over_best_error: its standard error, over rows (paired) and over halves of the draws.
        change: mean of `changes`.
        change_error: its standard error, over chains.
        change_limit: how many errors `change` may be away from 0 (a quantile of Student's t).
        gain_limit: how many errors `gain_over_best` may be below 0 (a normal quantile).
        worse: chains that are outliers below the others.
        drifting: chains that change on their own.
        unusable: chains with a log density that is not finite.
    """

    chains: tuple[int, ...]
    scores: PerChain
    differences: PerChain
    difference_errors: PerChain
    changes: PerChain
    whole: float
    whole_error: float
    gain_over_mean: float
    gain_over_mean_error: float
    best: int
    gain_over_best: float
    gain_over_best_error: float
    change: float
    change_error: float
    change_limit: float
    gain_limit: float
    worse: tuple[int, ...]
    drifting: tuple[int, ...]
    unusable: tuple[int, ...]


def compare_members(log_density: Any, weights: Any = None, log_posterior: Any = None) -> Agreement | None:
    """Compare the predictions of chains on held-out rows, as the module's docstring says.

    Args:
        log_density: log of the mean predictive density of the draws in each half of each chain, ``[chain, 2, row]``.
        weights: weight of these draws in averages, ``[chain, 2]``, at least 0; None: all are equal.
        log_posterior: log posterior density of the draws, ``[chain, draw]``; None: drifts of one chain are not sought.

    Returns:
        The comparison; None with fewer than two rows or two chains that count.

    Raises:
        SettingError: the shapes do not match.
    """
    from scipy import stats

    halves, weights = _checked(log_density, weights)
    counts = weights.sum(axis=1) > 0
    finite = np.isfinite(np.where(weights[:, :, None] > 0, halves, 0.0)).all(axis=(1, 2))
    used = np.flatnonzero(counts & finite)
    num_rows = halves.shape[2]
    if len(used) < 2 or num_rows < 2:
        return None
    halves, weights = halves[used], weights[used]
    members = _mixture(halves, weights, axis=1)
    whole = _mixture(members, weights.sum(axis=1), axis=0)
    scores, score = members.mean(axis=1), float(whole.mean())
    apart = members - members.mean(axis=0)
    moves = halves[:, 1] - halves[:, 0] if (weights > 0).all() else np.full_like(members, np.nan)
    changes, best = moves.mean(axis=1), int(np.argmax(scores))
    errors = _error(apart)
    low = _outliers_below(scores) & (apart.mean(axis=1) < -float(stats.norm.isf(_LEVEL)) * errors)
    return Agreement(
        chains=tuple(used.tolist()),
        scores=scores,
        differences=apart.mean(axis=1),
        difference_errors=errors,
        changes=changes,
        whole=score,
        whole_error=float(_error(whole)),
        gain_over_mean=score - float(scores.mean()),
        gain_over_mean_error=float(_error(whole - members.mean(axis=0))),
        best=int(used[best]),
        gain_over_best=score - float(scores[best]),
        gain_over_best_error=_gain_error(halves, weights, whole - members[best]),
        change=float(changes.mean()),
        change_error=float(_error(changes)),
        change_limit=float(stats.t.isf(_LEVEL / 2, len(used) - 1)),
        gain_limit=float(stats.norm.isf(_LEVEL / len(used))),
        worse=tuple(used[low].tolist()),
        drifting=tuple(used[_drifting(log_posterior, used, moves)].tolist()),
        unusable=tuple(np.flatnonzero(counts & ~finite).tolist()),
    )


def ensemble_figures(log_density: Any, weights: Any, *, log_posterior: Any, draws: tuple[Any, Any]) -> dict[str, Any]:
    """The comparison of chains and the spread between them by name, as `metrics.json` keeps them.

    Args:
        log_density: as `compare_members` takes it.
        weights: of the halves, ``[chain, 2]``.
        log_posterior: as `compare_members` takes it.
        draws: draws of the monitored predictions, ``[chain, draw, prediction]``, and their weights.

    Returns:
        Figures by name; empty with fewer than two rows or two chains that count.
    """
    found = compare_members(log_density, weights, log_posterior)
    if found is None:
        return {}
    shares, precision = between_share(*draws), ess_within(*draws)
    return asdict(found) | {
        "apart": are_apart(shares, precision, len(found.chains)),
        "between_share": over_known(np.median, shares),
        "largest_between_share": over_known(np.max, shares),
        "smallest_ess_within": over_known(np.min, precision),
    }


def are_apart(shares: np.ndarray, precision: np.ndarray, num_chains: int) -> bool:
    """Whether the means of chains differ by more than their Monte Carlo errors, so that the chains are in modes.

    For chains that have merged, ``share * ESS`` of a quantity has about a chi-squared distribution. Its median over
    quantities is judged, so that neither their number nor one that mixes slowly matters. Chains that hardly move have
    so few effective draws that they cannot be told from slow chains of one mode.

    Args:
        shares: from `between_share`.
        precision: from `ess_within`.
        num_chains: how many chains count.

    Returns:
        True if the median is too large at the level `FALSE_ALARMS`.
    """
    from scipy import stats

    return over_known(np.median, shares * precision) > float(stats.chi2.isf(FALSE_ALARMS, num_chains - 1))


def between_share(values: Any, weights: Any = None) -> np.ndarray:
    """Compute the share of the variance of each quantity that is between the means of chains.

    Args:
        values: draws, ``[chain, draw, quantity]``.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        ``[quantity]``, 0 to 1; NaN for a constant. About 1 / ESS per chain if the chains have merged.
    """
    draws, weights = _draws(values, weights)
    shares = weights.sum(axis=1) / weights.sum()
    means = np.einsum("cd,cdq->cq", weights, draws) / np.maximum(weights.sum(axis=1), np.finfo(float).tiny)[:, None]
    center = shares @ means
    between = shares @ (means - center) ** 2
    total = np.einsum("cd,cdq->q", weights, (draws - center) ** 2) / weights.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return between / total


def ess_within(values: Any, weights: Any = None) -> np.ndarray:
    """Compute the ESS of the mean if every chain samples a mode of its own and the modes are taken as given.

    The Monte Carlo error of the mean is then that of the chains' means around the true means of their modes, and
    ``ESS = variance over all draws / sum over chains of (share of the weight * error of the chain's mean)^2``.

    Args:
        values: draws, ``[chain, draw, quantity]``.
        weights: weight of each draw in averages, ``[chain, draw]``, at least 0; None: all are equal.

    Returns:
        ``[quantity]``; NaN with fewer than four draws and for quantities that are constant in a chain that counts.
    """
    draws, weights = _draws(values, weights)
    shares = weights.sum(axis=1) / weights.sum()
    variance = np.zeros(draws.shape[2])
    for chain in np.flatnonzero(shares > 0):
        variance += (shares[chain] * mcse_mean(draws[[chain]], weights[[chain]])) ** 2
    center = np.einsum("cd,cdq->q", weights, draws) / weights.sum()
    total = np.einsum("cd,cdq->q", weights, (draws - center) ** 2) / weights.sum()
    return total / variance


def log_posterior_change(log_posterior: Any) -> tuple[PerChain, PerChain]:
    """Change of the mean log posterior of each chain from the first to the second half of its draws.

    Args:
        log_posterior: log posterior density of the draws, ``[chain, draw]``.

    Returns:
        The changes, and their Monte Carlo standard errors; NaN with fewer than four draws in a half.
    """
    values = np.asarray(log_posterior, np.float64)
    half = values.shape[1] // 2
    if half == 0:
        return np.full(len(values), np.nan), np.full(len(values), np.nan)
    parts = values[:, :half], values[:, -half:]
    squares = [np.array([mcse_mean(chain[None, :, None])[0] for chain in part]) ** 2 for part in parts]
    return parts[1].mean(axis=1) - parts[0].mean(axis=1), np.sqrt(squares[0] + squares[1])


def _drifting(log_posterior: Any, used: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """Chains whose log posterior and score both change, `[chain]`."""
    from scipy import stats

    if log_posterior is None:
        return np.zeros(len(used), bool)
    change, error = log_posterior_change(np.asarray(log_posterior)[used])
    limit = float(stats.norm.isf(_LEVEL / 2 / len(used)))
    with np.errstate(invalid="ignore"):
        return (np.abs(change) > limit * error) & (np.abs(moves.mean(axis=1)) > limit * _error(moves))


def _outliers_below(scores: PerChain) -> np.ndarray:
    """Scores that are too low to be of the others' distribution, by deleted residuals, `[chain]` (Rosner1983)."""
    from scipy import stats

    order, found = np.argsort(scores), 0
    for number in range((len(scores) - 1) // 2):
        lowest, others = scores[order[number]], scores[order[number + 1 :]]
        spread = others.std(ddof=1) * np.sqrt(1 + 1 / len(others))
        limit = stats.t.isf(_LEVEL / (len(others) + 1), len(others) - 1)
        if others.mean() - lowest > limit * spread:
            found = number + 1
    result = np.zeros(len(scores), bool)
    result[order[:found]] = True
    return result


def _gain_error(halves: np.ndarray, weights: np.ndarray, gain: np.ndarray) -> float:
    """Error of the gain over one member: over rows, and by how much all such gains differ between halves of draws."""
    if not (weights > 0).all():
        return float(_error(gain))
    wholes = np.stack([_mixture(halves[:, half], weights[:, half], axis=0) for half in (0, 1)])
    gains = wholes.mean(axis=1) - halves.mean(axis=2)  # [chain, half]
    of_halves = np.mean((gains[:, 1] - gains[:, 0]) ** 2) / 4
    return float(np.sqrt(_error(gain) ** 2 + of_halves))


def _mixture(log_density: np.ndarray, weights: np.ndarray, *, axis: int) -> np.ndarray:
    """Log of the weighted mean of densities along an axis, of which the weights are the leading axes."""
    from scipy.special import logsumexp

    shares = weights / weights.sum(axis=axis, keepdims=True)
    return np.asarray(logsumexp(log_density, axis=axis, b=shares[..., None]))


def _error(values: np.ndarray) -> np.ndarray:
    """Standard error of the mean over the last axis."""
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1]))


def _checked(log_density: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    halves = np.asarray(log_density, np.float64)
    if halves.ndim != 3 or halves.shape[1] != 2:
        raise SettingError(f"`log_density` must have shape [chain, 2, row], got {list(halves.shape)}.")
    known = np.ones(halves.shape[:2]) if weights is None else np.asarray(weights, np.float64)
    if known.shape != halves.shape[:2]:
        raise SettingError(
            f"`weights` must have shape {list(halves.shape[:2])} (chain, half), got {list(known.shape)}."
        )
    return halves, known


def _draws(values: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    chains, draws, _ = check_draws(values)
    known = np.ones((chains, draws)) if weights is None else np.asarray(weights, np.float64)
    if known.shape != (chains, draws) or not known.sum() > 0:
        raise SettingError(
            f"`weights` must have shape [{chains}, {draws}] (chain, draw) like the draws and a positive sum, got "
            f"{list(known.shape)}."
        )
    return np.asarray(values, np.float64), known
