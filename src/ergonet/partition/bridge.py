"""Bridge sampling of the mass of a density, the integral that normalizes it, from draws.

The optimal bridge (MengWong1996) between the draws, of unnormalized density p and mass Z, and points drawn from a
normal proposal of density q solves

    Z = E_q[ p / (s1 p + s2 Z q) ] / E_p[ q / (s1 p + s2 Z q) ],

with the shares s1 and s2 of the *effective* number of draws and of the number of proposals. Everything is in logs
(GronauBridge2017), and the solution is found by bracketing, because the usual iteration is slow where the two hardly
overlap. The fit of a proposal and the draws that meet it must be independent, so the chains are split into halves: the
early draws are fitted and the late ones are used, then the other way around, and the mean is taken. The error is the
relative mean squared error with autocorrelation (FruehwirthSchnatter2004).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Shaped
from scipy.optimize import brentq
from scipy.special import logsumexp

from ergonet._arviz import array_stats
from ergonet._errors import EstimateError, SettingError
from ergonet._fork import require_jax
from ergonet._keys import derived_seed
from ergonet._types import Array
from ergonet.partition.proposal import Points, Proposal, Region, fit
from ergonet.target.contract import AbstractTarget, ReferencePoint

FEWEST_DRAWS = 40  # of each chain: a half of them is split once more by a fit
FEWEST_EFFECTIVE = 50.0  # draws in each half
LARGEST_ERROR = 0.25  # of the log mass by each half: with more, a few points make up the sums, and the error is unknown
LARGEST_GAP = 4.0  # between the halves, in errors
FEWEST_PROPOSALS = 1000
PROPOSALS = 0x42726964  # purpose of their seed
POINTS_AT_ONCE, POINTS_IN_A_CALL = 8, 1024

LogDensity = Callable[[Points], Float[np.ndarray, "point"]]
Draws = Shaped[np.ndarray, "chain draw dim"]


@dataclass(frozen=True)
class LogMass:
    """The log of the mass of a density, estimated by bridge sampling.

    Attributes:
        value: the log of the mass.
        error: its standard error.
        ess: effective number of draws, of both halves together.
        overlap: effective share of the proposals that lie where draws do, 0 to 1.
        halves: the estimates by the late and by the early draws.
        problem: why the estimate is not to be trusted, with the number that says so; empty if it is.
    """

    value: float
    error: float
    ess: float
    overlap: float
    halves: tuple[float, float]
    problem: str = ""

    def __str__(self) -> str:
        return f"{self.value:.3f} \N{PLUS-MINUS SIGN} {self.error:.3f}"

    def trusted(self, of: str = "The log mass") -> "LogMass":
        """The estimate itself, if it is to be trusted.

        Raises:
            EstimateError: it is not; says why, with the number. Its `estimate` is this one.
        """
        if self.problem:
            error = EstimateError(f"{of} cannot be told by bridge sampling: {self.problem}")
            error.estimate = self
            raise error
        return self


def log_mass(
    target: AbstractTarget,
    positions: Any,
    *,
    region: Region | None = None,
    num_proposals: int | None = None,
    seed: int = 0,
) -> LogMass:
    """Estimate the log of the integral of a target's density, or of a part of the space.

    The density counts as the target gives it: constants that it leaves out are missing from the mass. Priors,
    likelihoods and Jacobians of this library are normalized.

    Args:
        target: what was sampled.
        positions: draws of it, `[chain, draw, dim]`, with equal weights; at least 40 of each chain.
        region: the part of the space from which the draws are, such as a `Box`; None: all of it.
        num_proposals: points drawn for each half; None: as many as it has draws, and at least 1000.
        seed: seeds the proposals, 0 to 2^63 - 1.

    Returns:
        The estimate; look at `problem`, or use `LogMass.trusted`.

    Raises:
        SettingError: the draws are too few, or have the wrong shape.
        EstimateError: a coordinate of the draws does not vary.
    """
    require_jax()
    draws = np.asarray(positions)
    _check(draws, num_proposals)
    if draws.shape[2] != target.dim:
        raise SettingError(f"`positions` have {draws.shape[2]} coordinates, but the target has {target.dim}.")
    relative, potential = relative_to_draws(target, draws)
    found = bridge(
        lambda points: evaluate(relative, points), draws, region=region, num_proposals=num_proposals, seed=seed
    )
    rounding = abs(potential) * float(np.finfo(draws.dtype).eps)
    halves = found.halves[0] - potential, found.halves[1] - potential
    return LogMass(
        found.value - potential, math.hypot(found.error, rounding), found.ess, found.overlap, halves, found.problem
    )


def relative_to_draws(target: AbstractTarget, draws: Draws) -> tuple[AbstractTarget, float]:
    """The target relative to one of its draws, and the potential there."""
    reference = _reference_point(target, jnp.asarray(draws[0, -1]))
    return target.relative_to(reference), float(reference.potential)


def evaluate(target: AbstractTarget, points: Points) -> Float[np.ndarray, "point"]:
    """The log density of points, in chunks of one shape and bounded memory; where it is not a number, it is 0."""
    found = []
    for start in range(0, len(points), POINTS_IN_A_CALL):
        chunk = points[start : start + POINTS_IN_A_CALL]
        padding = np.repeat(chunk[-1:], POINTS_IN_A_CALL - len(chunk), axis=0)
        values = _log_densities(target, jnp.asarray(np.concatenate([chunk, padding])))
        found.append(np.asarray(values, np.float64)[: len(chunk)])
    values = np.concatenate(found) if found else np.zeros(0)
    return np.where(np.isnan(values), -np.inf, values)


@eqx.filter_jit
def _log_densities(target: AbstractTarget, points: Float[Array, "point dim"]) -> Float[Array, "point"]:
    return -jax.lax.map(target.potential, points, batch_size=POINTS_AT_ONCE)


@eqx.filter_jit
def _reference_point(target: AbstractTarget, position: Array) -> ReferencePoint:
    return target.reference_point(position)


def bridge(
    log_density: LogDensity,
    draws: Draws,
    *,
    region: Region | None = None,
    num_proposals: int | None = None,
    seed: int = 0,
) -> LogMass:
    """Estimate the log mass of any density; as `log_mass`, with a function of points `[point, dim]`."""
    _check(draws, num_proposals)
    rng = np.random.default_rng(derived_seed(seed, PROPOSALS))
    middle = draws.shape[1] // 2
    early, late = draws[:, :middle], draws[:, middle:]
    first, second = (
        _half(log_density, fitted, met, region=region, rng=rng, count=num_proposals)
        for fitted, met in ((early, late), (late, early))
    )
    error = math.hypot(first.error, second.error)
    with np.errstate(invalid="ignore"):  # NaN: without an estimate
        both = float(np.logaddexp(first.value, second.value))
    return LogMass(
        value=both - math.log(2),
        error=error / 2,
        ess=first.ess + second.ess,
        overlap=min(first.overlap, second.overlap),
        halves=(first.value, second.value),
        problem=problem_of(first, second),
    )


@dataclass(frozen=True)
class Half:
    """The estimate by the draws of one half, with a proposal fitted to the other."""

    value: float
    error: float
    ess: float
    overlap: float


def _half(
    log_density: LogDensity,
    fitted: Draws,
    met: Draws,
    *,
    region: Region | None,
    rng: np.random.Generator,
    count: int | None,
) -> Half:
    chains, num, dim = met.shape
    middle = fitted.shape[1] // 2
    groups = (part.astype(np.float64).reshape(-1, dim) for part in (fitted[:, :middle], fitted[:, middle:]))
    proposal = Proposal.of(fit(*groups), region)
    count = max(FEWEST_PROPOSALS, chains * num) if count is None else count
    points, inside = proposal.sample(rng, count, met.dtype)
    of_points = np.full(count, -np.inf)
    of_points[inside] = log_density(points[inside]) - proposal.log_density(points[inside].astype(np.float64))
    flat = met.reshape(-1, dim)
    of_draws = log_density(flat) - proposal.log_density(flat.astype(np.float64))
    return estimate(of_draws.reshape(chains, num), of_points)


def estimate(of_draws: Float[np.ndarray, "chain draw"], of_points: Float[np.ndarray, "point"]) -> Half:
    """Solve for the mass.

    Args:
        of_draws: log p / q of the draws.
        of_points: log p / q of the proposals; -inf where p is 0.
    """
    if not np.any(of_points > -np.inf) or not np.all(np.isfinite(of_draws)):
        return Half(math.nan, math.inf, _ess(of_draws), 0.0)
    number = of_draws.size
    effective = min(_ess(of_draws), number)
    log_s1 = math.log(effective / (effective + of_points.size))
    log_s2 = math.log(of_points.size / (effective + of_points.size))

    def terms(log_z: float) -> tuple[np.ndarray, np.ndarray]:
        """Logs of p / (s1 p + s2 Z q) of the proposals, and of q / (s1 p + s2 Z q) of the draws."""
        points = of_points - np.logaddexp(log_s1 + of_points, log_s2 + log_z)
        return points, -np.logaddexp(log_s1 + of_draws, log_s2 + log_z)

    def excess(log_z: float) -> float:
        """Rises with log Z; 0 at the fixed point."""
        points, draws = terms(log_z)
        return log_z + _log_mean(draws) - _log_mean(points)

    low, high = float(min(of_draws.min(), of_points[of_points > -np.inf].min())), float(of_draws.max())
    high = max(high, float(of_points.max()))
    width = 1.0 + high - low
    root: Any = brentq(excess, low - width - 50, high + width + 50, xtol=1e-10)
    log_z = float(root)
    points, draws = (np.exp(one - one.max()) for one in terms(log_z))
    overlap = points.mean() ** 2 / np.mean(points**2)
    of_proposals = (1 / overlap - 1) / of_points.size
    ess = _ess(draws)
    of_chains = draws.var() / draws.mean() ** 2 / ess if draws.var() > 0 else 0.0
    return Half(log_z, math.sqrt(of_proposals + of_chains), ess, float(overlap))


def _log_mean(logs: np.ndarray) -> float:
    return float(logsumexp(logs)) - math.log(logs.size)


def _ess(values: Float[np.ndarray, "chain draw"]) -> float:
    """Effective number of draws for the mean of a quantity: all if it is constant, 1 if it is not finite."""
    if not np.all(np.isfinite(values)):
        return 1.0
    if np.ptp(values) == 0:
        return float(values.size)
    return max(1.0, float(array_stats().ess(values, method="mean", chain_axis=0, draw_axis=1)))


def problem_of(first: Half, second: Half) -> str:
    """Why the estimates by both halves are not to be trusted; empty if they are."""
    ess, error = min(first.ess, second.ess), max(first.error, second.error)
    if not error < math.inf:
        return (
            "no point drawn from a normal distribution fitted to the draws lies where the density is above 0 "
            "(overlap 0). The draws are too far from normal."
        )
    if ess < FEWEST_EFFECTIVE:
        return (
            f"a half of the draws counts as {ess:.0f} independent ones, and at least {FEWEST_EFFECTIVE:.0f} are "
            f"needed. Draw more, or look at R-hat: chains that disagree count as few draws."
        )
    if error > LARGEST_ERROR:
        return (
            f"the standard error of a half would be {error:.2g}, and above {LARGEST_ERROR:g} it cannot be estimated "
            f"(overlap {min(first.overlap, second.overlap):.2g}). The draws are too far from normal, or too few for "
            f"their dimension: draw more, or split the space."
        )
    gap = abs(first.value - second.value) / math.hypot(first.error, second.error)
    if gap > LARGEST_GAP:
        return (
            f"the early and the late draws differ by {gap:.1f} standard errors ({first.value:.3f} and "
            f"{second.value:.3f}). The chains have not converged: lengthen the warm-up, and draw more."
        )
    return ""


def _check(draws: np.ndarray, num_proposals: int | None) -> None:
    if draws.ndim != 3 or draws.shape[1] < FEWEST_DRAWS:
        raise SettingError(
            f"`positions` must be draws [chain, draw, dim], at least {FEWEST_DRAWS} of each chain, got shape "
            f"{list(draws.shape)}."
        )
    if num_proposals is not None and num_proposals < 1:
        raise SettingError(f"`num_proposals` must be at least 1, got {num_proposals}.")
