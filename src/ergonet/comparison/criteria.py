"""Expected log predictive density of a model: leave-one-out by importance sampling, WAIC, and held-out rows.

The sum over rows of the log predictive density of a row that was not used for fitting says how well a model predicts
new rows (Vehtari2017). `loo` and `waic` estimate it from the draws given all rows. For each row, leave-one-out weights
the draws by the inverse likelihood of the row, with the largest weights smoothed by a generalized Pareto distribution
(Vehtari2024); its shape k says whether the estimate is to be trusted. WAIC (Watanabe2010) has no such
check and is here for comparison.

Log likelihoods are computed and used in chunks of rows, so that draws times rows are never in memory. A model that
sees all its rows at once can average over chains in different modes; leaving out a row does not change which modes the
chains are in, so the estimates are those of the average of the given chains.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import logsumexp

from ergonet._arviz import array_stats
from ergonet._errors import CapabilityError, DataError, EstimateError
from ergonet.comparison.sources import Source, fitted
from ergonet.draws.quantities import log_likelihoods

PerRow = Float[np.ndarray, "row"]
Part = dict[str, np.ndarray]  # figures of a chunk of rows, by name

LARGEST_K = 0.7  # beyond it, no number of draws makes the estimate of a row reliable (Vehtari2024)
EXACT = -math.inf  # k of a row whose density was computed by a fit without it


@dataclass(frozen=True, eq=False)
class Elpd:
    """The expected log predictive density of a model, row by row, in nats; larger is better.

    Attributes:
        method: how it was computed: ``LOO``, ``WAIC``, ``held-out rows`` or ``cross-validation``.
        pointwise: of each row, ``[row]``; of an estimator or a run, in the units of the table.
        observed: targets of the rows, ``[row, target]``, by which two models are known to have the same rows; None:
            unknown.
        monte_carlo_error: standard error of each entry from the finite number of draws, ``[row]``; None: unknown.
        parameters: effective number of parameters by row, ``[row]``; None: unknown.
        pareto_k: shape of the importance weights of each row, ``[row]``; minus infinity where the row was left out of a
            fit or has the same likelihood at all draws, infinity where it cannot be told (fewer than 25 draws, or the
            largest weights are equal); None: no importance sampling.
        largest_k: value of `pareto_k` up to which a row is reliable.
    """

    method: str
    pointwise: PerRow
    observed: np.ndarray | None = None
    monte_carlo_error: PerRow | None = None
    parameters: PerRow | None = None
    pareto_k: PerRow | None = None
    largest_k: float = LARGEST_K

    @property
    def value(self) -> float:
        """The sum over rows."""
        return float(self.pointwise.sum())

    @property
    def error(self) -> float:
        """Standard error of `value` over rows; NaN for a single row."""
        return sum_error(self.pointwise)

    @property
    def num_parameters(self) -> float:
        """Effective number of parameters; NaN if it is unknown."""
        return math.nan if self.parameters is None else float(self.parameters.sum())

    @property
    def unreliable(self) -> Bool[np.ndarray, "row"]:
        """Which rows have an estimate that is not to be trusted: too large a k, or for WAIC too large a variance."""
        if self.pareto_k is not None:
            return ~(self.pareto_k <= self.largest_k)
        if self.method == "WAIC" and self.parameters is not None:
            return ~(self.parameters <= 0.4)  # the rule of Vehtari2017
        return np.zeros(len(self.pointwise), bool)

    def __str__(self) -> str:
        bad = int(self.unreliable.sum())
        more = f", {bad} of {len(self.pointwise)} rows not reliable" if bad else ""
        count = "" if self.parameters is None else f", {self.num_parameters:.1f} effective parameters"
        return f"{self.method}: {self.value:.1f} \N{PLUS-MINUS SIGN} {self.error:.1f} nats{count}{more}"


def sum_error(values: np.ndarray) -> float:
    """Standard error of the sum of independent ``values``, ``[row]``; NaN for fewer than two."""
    return float(np.sqrt(len(values)) * np.std(values, ddof=1)) if len(values) > 1 else math.nan


def loo(source: Source, x: Any = None, y: Any = None) -> Elpd:
    """Estimate the log predictive density of each training row, left out, by Pareto-smoothed importance sampling.

    Args:
        source: `Samples` with their target; or a fitted estimator.
        x: the training rows of an estimator that was loaded from disk, which has no data; None: it has them.
        y: their targets.

    Returns:
        The estimate by row, with its Monte Carlo error and Pareto k. Of `Samples`, it is in the units of the network.

    Raises:
        CapabilityError: the target is unknown, has no pointwise log likelihood or has rows with weights, or draws have
            unequal weights; `held_out` works for all of these.
        EstimateError: a log likelihood is not finite.
    """
    return _of_rows("LOO", source, x, y, _leave_out)


def waic(source: Source, x: Any = None, y: Any = None) -> Elpd:
    """Compute WAIC on the scale of the log density: log mean likelihood minus variance of the log likelihood.

    Arguments, result and errors are those of `loo`, which is more robust, and says where it fails.
    """
    return _of_rows("WAIC", source, x, y, _widely_applicable)


def held_out(source: Source, x: Any, y: Any) -> Elpd:
    """Compute the log predictive density of rows that were not used for fitting.

    Args:
        source: `Samples` of the posterior of a network; or a fitted estimator.
        x: inputs, as the network or the estimator takes them.
        y: targets, likewise.

    Raises:
        CapabilityError: the samples carry no network.
        DataError: the rows cannot be used.
    """
    from ergonet.prediction.predictive import predict

    known = fitted(source)
    inputs, targets = known.rows(x, y)
    density = predict(known.samples, inputs, model=known.model, levels=(), y=targets).log_density
    assert density is not None  # as `y` was given
    observed = known.in_units(targets)
    return Elpd("held-out rows", np.asarray(density, np.float64) + known.log_slope(observed), observed)


def _of_rows(method: str, source: Source, x: Any, y: Any, of_chunk: Callable[[np.ndarray], Part]) -> Elpd:
    if (x is None) != (y is None):
        raise DataError("Give both `x` and `y`, or neither.")
    known = fitted(source)
    if x is None and known.preprocessing is not None and known.samples.target is None:
        raise CapabilityError(
            f"{method} needs the training rows, which an estimator that was loaded does not have. Pass them: "
            f"`comparison.{method.lower()}(estimator, x, y)`."
        )
    samples = known.samples if x is None else known.conditioned(x, y)
    known.check_weights(samples)
    parts, first = [], 0
    for chunk in log_likelihoods(samples):
        parts.append(of_chunk(_finite(np.asarray(chunk, np.float64), method, first)))
        first += chunk.shape[-1]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    observed = known.observed(samples)
    found["pointwise"] += known.log_slope(observed)
    limit = min(1 - 1 / math.log10(max(samples.num_chains * samples.num_draws, 11)), LARGEST_K)
    return Elpd(method, observed=observed, largest_k=limit, **found)


def _finite(block: np.ndarray, method: str, first: int) -> np.ndarray:
    bad = ~np.isfinite(block).all(axis=(0, 1))
    if bad.any():
        raise EstimateError(
            f"The log likelihood of row {first + int(np.argmax(bad))} (counted from 0) is not finite at some draws, so "
            f"{method} cannot be computed. Standardize inputs and targets, or choose a likelihood with heavier tails."
        )
    return block


def _leave_out(block: np.ndarray) -> Part:
    """Leave-one-out of a chunk, with the Monte Carlo error of Vehtari2017 for self-normalized weights."""
    stats, columns = array_stats(), []
    for row in np.moveaxis(block, -1, 0):
        likelihood, relative = np.exp(row - row.max()), 1.0
        is_constant = np.ptp(likelihood) < np.finfo(float).resolution
        if not is_constant:
            known = float(stats.ess(likelihood, method="mean", chain_axis=0, draw_axis=1, relative=True))
            relative = known if np.isfinite(known) and known > 0 else relative  # unknown of fewer than 4 draws
        log_weights, k = (-row.reshape(-1), -math.inf) if is_constant else _smoothed(row.reshape(-1), relative)
        log_weights = log_weights - logsumexp(log_weights)
        value = float(logsumexp(log_weights + row.reshape(-1)))
        influences = np.exp(log_weights + row.reshape(-1) - value) - np.exp(log_weights)
        error = np.sqrt(np.sum(influences**2) / relative)
        columns.append((value, error, float(logsumexp(row)) - math.log(row.size) - value, k))
    found = np.asarray(columns)
    names = ("pointwise", "monte_carlo_error", "parameters", "pareto_k")
    return {name: found[:, at] for at, name in enumerate(names)}


def _smoothed(row: np.ndarray, relative: float) -> tuple[np.ndarray, float]:
    """Log weights that leave out a row of log likelihoods `[draw]`, and their k: infinite where nothing is smoothed.

    ArviZ raises `ValueError` for fewer than 25 draws, and if the largest weights are all equal, as those of a chain
    that is stuck.
    """
    try:
        log_weights, k = array_stats().psislw(row, r_eff=relative)
    except ValueError:
        return -row, math.inf
    return log_weights, float(k)


def _widely_applicable(block: np.ndarray) -> Part:
    flat = block.reshape(-1, block.shape[-1])
    parameters = flat.var(axis=0, ddof=1)
    value = logsumexp(flat, axis=0) - math.log(len(flat)) - parameters
    return {"pointwise": value, "parameters": parameters}
