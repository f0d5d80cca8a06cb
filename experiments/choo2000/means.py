"""The variance of means of a method: chains from equilibrium, all with the same budget of gradients.

A chain has 12 super-transitions, each of as many trajectories as fit into its share of the budget; log sigma at the
end of each enters the chain's mean (section 5.3.1). Methods are compared by the variance of these means.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

import ergonet
from ergonet import diagnostics
from experiments.choo2000 import data
from experiments.choo2000.master import Starts, starts
from experiments.choo2000.methods import Method, joint
from experiments.choo2000.plan import SUPER_TRANSITIONS, Plan
from experiments.choo2000.sampling import draw
from experiments.record import Quantity

LEVEL = 0.9
NUM_RESAMPLES = 1000

RHO = {group: Quantity(f"rho of log sigma_{group}", 4) for group in data.GROUPS}
RHO_ERROR = {group: Quantity(f"its error, {group}", 4) for group in data.GROUPS}
G = Quantity("g", 4)
G_LOW = Quantity("g, 5 %", 4)
G_HIGH = Quantity("g, 95 %", 4)
REJECTED = Quantity("rejected, %", 1)
GRADIENTS = Quantity("gradients of a chain / 1000", 1)
WARMUP_GRADIENTS = Quantity("of its warm-up / 1000", 1)
DIVERGENCES = Quantity("super-transitions with a divergence, %", 1)
SECONDS = Quantity("seconds")

TUNING_WARMUP, TUNING_DRAWS = 500, 50
SEED = 5000  # seed of the chains; initial states and master runs have other seeds


@dataclass(frozen=True)
class Chains:
    """Results of the chains of a method.

    Attributes:
        starts: initial states.
        means: mean log sigma, `[chain, group]`.
        rejected: mean rejection probability of the last trajectory of each super-transition, in %.
        gradients: mean number of gradients of a chain.
        warmup_gradients: mean number of gradients of a warm-up, which the budget does not include.
        divergences: share of super-transitions with a divergence, in %.
        seconds: time of the sampling.
    """

    starts: Starts
    means: np.ndarray
    rejected: float
    gradients: float
    warmup_gradients: float
    divergences: float
    seconds: float

    def rho(self) -> tuple[np.ndarray, np.ndarray]:
        """Variance of means and its standard error, `[group]`."""
        about = {"strata": self.starts.strata, "shares": self.starts.shares}
        return (
            diagnostics.variance_of_means(self.means, self.starts.center, **about),
            diagnostics.variance_of_means_error(self.means, self.starts.center, **about),
        )

    def scores(self) -> dict[str, float]:
        """Every quantity of a row."""
        rho, error = self.rho()
        found = {RHO[group].name: value for group, value in zip(data.GROUPS, rho, strict=True)}
        found |= {RHO_ERROR[group].name: value for group, value in zip(data.GROUPS, error, strict=True)}
        low, high = self._interval()
        found |= {G.name: g_of(rho), G_LOW.name: low, G_HIGH.name: high}
        found |= {REJECTED.name: self.rejected, GRADIENTS.name: self.gradients / 1000}
        if self.warmup_gradients:
            found[WARMUP_GRADIENTS.name] = self.warmup_gradients / 1000
        found |= {DIVERGENCES.name: self.divergences, SECONDS.name: self.seconds}
        return {name: float(value) for name, value in found.items()}

    def _interval(self) -> np.ndarray:
        s = self.starts
        drawn = diagnostics.resample_chains(len(self.means), strata=s.strata, num_resamples=NUM_RESAMPLES)
        rho = diagnostics.variance_of_means(self.means[drawn], s.center, strata=s.strata, shares=s.shares)
        return diagnostics.bootstrap_interval(g_of(rho), LEVEL)


def g_of(rho: np.ndarray) -> np.ndarray:
    """The geometric mean over all groups but the output bias, `[..., group]` to `[...]`."""
    return diagnostics.geometric_mean(rho[..., [data.GROUPS.index(group) for group in data.IN_G]])


@dataclass(frozen=True)
class Ratio:
    """The ratio of two methods' g, with the 5 % and 95 % quantiles of its paired bootstrap."""

    value: float
    low: float
    high: float


def ratio(first: Chains, second: Chains) -> Ratio:
    """The ratio of g for two methods whose chains began in the same states (section 5.7)."""
    columns = [data.GROUPS.index(group) for group in data.IN_G]
    s = first.starts
    found = diagnostics.paired_ratio_interval(
        first.means[:, columns],
        second.means[:, columns],
        s.center[columns],
        strata=s.strata,
        shares=s.shares,
        level=LEVEL,
        num_resamples=NUM_RESAMPLES,
    )
    return Ratio(*map(float, found))


def ratio_quantities(name: str) -> tuple[Quantity, Quantity, Quantity]:
    """The quantities of a ratio to a method's g: its value and the ends of its interval."""
    shown = f"g / g of {name}"
    return Quantity(shown, 2), Quantity(f"{shown}, 5 %", 2), Quantity(f"{shown}, 95 %", 2)


def ratio_scores(name: str, found: Ratio) -> Mapping[str, float]:
    """The ratio and its interval by quantity name."""
    values = (found.value, found.low, found.high)
    return {quantity.name: value for quantity, value in zip(ratio_quantities(name), values, strict=True)}


def trajectories(method: Method, length: int, gradients: int) -> int:
    """Number of trajectories in a super-transition, at least 1."""
    leapfrogs = gradients // (SUPER_TRANSITIONS * method.gradients_per_step)
    return max(1, leapfrogs // length)


@cache
def run(method: Method, units: int, point: tuple[int, float], plan: Plan, seed: int, *, share: float = 1.0) -> Chains:
    """Run the chains of a method of the thesis at a length and eta; with a share, only the first chains."""
    length, eta = point
    begun = starts(units, plan, seed).first(share) if share < 1 else starts(units, plan, seed)
    positions = begun.positions if method.is_centered else data.non_centered(begun.positions, units)
    samples = draw(
        data.target(units, is_centered=method.is_centered),
        method.build(length, eta),
        positions,
        num_draws=SUPER_TRANSITIONS,
        thin=trajectories(method, length, plan.gradients),
        seed=SEED + seed,
    )
    return _chains(begun, samples)


@cache
def run_joint(target_acceptance: float, units: int, plan: Plan, seed: int) -> Chains:
    """Run the joint no-U-turn sampler with the same mean number of gradients per chain.

    What a transition costs is found by the first draws of the same chains. The warm-up of each begins in its starting
    state, and stays outside of the budget, as the tuning of the other methods does.
    """
    begun = starts(units, plan, seed)
    target, kernel = data.target(units, is_centered=False), joint(target_acceptance)
    positions = data.non_centered(begun.positions, units)
    warmup = min(TUNING_WARMUP, max(20, plan.gradients // 600))
    pilot = draw(target, kernel, positions, num_draws=TUNING_DRAWS, thin=1, seed=SEED + seed, warmup=warmup)
    cost = pilot.gradients["sampling"] / (len(positions) * TUNING_DRAWS)
    samples = draw(
        target,
        kernel,
        positions,
        num_draws=SUPER_TRANSITIONS,
        thin=max(1, round(plan.gradients / (SUPER_TRANSITIONS * cost))),
        seed=SEED + seed,
        warmup=warmup,
    )
    return _chains(begun, samples)


def _chains(begun: Starts, samples: ergonet.Samples) -> Chains:
    return Chains(
        starts=begun,
        means=data.log_sigmas(samples).mean(axis=1),
        rejected=100 * float(1 - samples.stats["acceptance_rate"].mean()),
        gradients=samples.gradients["sampling"] / samples.num_chains,
        warmup_gradients=samples.gradients["warmup"] / samples.num_chains,
        divergences=100 * float(samples.stats["diverging"].mean()),
        seconds=samples.seconds["warmup"] + samples.seconds["sampling"],
    )
