"""Master runs: a long run of the Gibbs method at each width, for the true means and for initial states.

The thesis runs one chain; here several chains run in parallel and their beginnings are dropped. Initial states are
stratified as in section 5.4.2: some are in the region G of large log sigma, which chains visit seldom.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

import ergonet
from experiments.choo2000 import data
from experiments.choo2000.methods import GIBBS, MASTER_ETA, MASTER_LENGTH
from experiments.choo2000.plan import Master, Plan
from experiments.choo2000.sampling import draw

LARGE = 4.0
SEED = 2000
FIRST_SCALE = 1.0  # scale of the initial weights, in prior widths; Dynamical A cannot start from smaller ones


@dataclass(frozen=True)
class Equilibrium:
    """What a master run says about a posterior.

    Attributes:
        positions: positions of the centered target `[record, dim]`, chain after chain.
        center: mean log sigma, `[group]` in the order of `data.GROUPS`.
        sd: standard deviation of log sigma `[group]`.
        effective: ESS of the mean of log sigma `[group]`.
        inside: whether a record lies in G, `[record]`.
        rejected: rejected trajectories, in %.
    """

    positions: np.ndarray
    center: np.ndarray
    sd: np.ndarray
    effective: np.ndarray
    inside: np.ndarray
    rejected: float


@dataclass(frozen=True)
class Starts:
    """Initial states of the chains of a comparison.

    Attributes:
        positions: positions of the centered target `[chain, dim]`.
        strata: 1 for chains that start in G, else 0, `[chain]`.
        shares: posterior probabilities outside of G and in G `[stratum]`.
        center: the true means, `[group]`.
    """

    positions: np.ndarray
    strata: np.ndarray
    shares: np.ndarray
    center: np.ndarray

    def first(self, share: float) -> "Starts":
        """The first `share` of the states of each stratum."""
        kept = []
        for stratum in range(len(self.shares)):
            members = np.flatnonzero(self.strata == stratum)
            kept.append(members[: max(2, round(share * len(members)))])
        chosen = np.concatenate(kept)
        return Starts(self.positions[chosen], self.strata[chosen], self.shares, self.center)


@cache
def equilibrium(units: int, master: Master) -> Equilibrium:
    """The master run of a width."""
    samples = draw(
        data.target(units, is_centered=True),
        GIBBS.build(MASTER_LENGTH, MASTER_ETA[units]),
        initial_states(units, master.num_chains),
        num_draws=master.num_dropped + master.num_records,
        thin=master.thin,
        seed=SEED + units,
    )
    kept = data.log_sigmas(samples)[:, master.num_dropped :]
    positions = np.asarray(samples.positions[:, master.num_dropped :])
    return Equilibrium(
        positions=positions.reshape(-1, positions.shape[-1]),
        center=kept.mean(axis=(0, 1)),
        sd=kept.std(axis=(0, 1)),
        effective=ergonet.diagnostics.ess_bulk(kept),
        inside=is_inside(kept).reshape(-1),
        rejected=100 * float(1 - samples.stats["acceptance_rate"].mean()),
    )


def initial_states(units: int, num_chains: int) -> np.ndarray:
    """Initial states when no draws are available: small weights, precisions at their prior means, `[chain, dim]`."""
    generator, widths = np.random.default_rng(SEED), data.widths(units)
    weights = [
        FIRST_SCALE * widths[group] * generator.normal(size=(num_chains, size))
        for group, size in data.sizes(units).items()
    ]
    groups = [*data.LEAVES, data.NOISE]
    precisions = np.broadcast_to([-2 * np.log(widths[group]) for group in groups], (num_chains, len(groups)))
    return np.concatenate([*weights, precisions], axis=1).astype(np.float32)


def is_inside(log_sigmas: np.ndarray) -> np.ndarray:
    """Whether states lie in G: log sigma of u or of a above 4; `[..., group]` to `[...]`."""
    u, a = (log_sigmas[..., data.GROUPS.index(group)] for group in ("u", "a"))
    return (u > LARGE) | (a > LARGE)


@cache
def starts(units: int, plan: Plan, seed: int) -> Starts:
    """Initial states of a seed, evenly spaced over the master run; other seeds use other records."""
    run = equilibrium(units, plan.master)
    inside, outside = np.flatnonzero(run.inside), np.flatnonzero(~run.inside)
    if not len(inside):  # a short run may not have seen G
        strata, shares = np.zeros(plan.num_chains, int), np.ones(1)
        chosen = _spread(outside, plan.num_chains, seed)
    else:
        strata = np.repeat([0, 1], [plan.num_outside, plan.num_inside])
        shares = np.array([len(outside), len(inside)]) / len(run.inside)
        chosen = np.concatenate([_spread(outside, plan.num_outside, seed), _spread(inside, plan.num_inside, seed)])
    return Starts(run.positions[chosen], strata, shares, run.center)


def _spread(members: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Choose `count` evenly spaced members; the seed shifts them."""
    shift = (0.5 + seed * 0.618034) % 1
    return members[((np.arange(count) + shift) * len(members) / count).astype(int)]
