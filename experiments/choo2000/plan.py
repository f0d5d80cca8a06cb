"""How much of the thesis's experiments is run at each size.

The full size has the thesis's budget of chains and gradients, with shorter master runs; the quick size has 8 hidden
units and a tenth of the budget.
"""

from dataclasses import dataclass

from experiments.sizes import Size

SUPER_TRANSITIONS = 12
"""N_s is not printed; the thesis's numbers of leapfrogs and its grids of lengths imply 12 (`means.py`)."""


@dataclass(frozen=True)
class Master:
    """A long run of the Gibbs method, from which starting states and true means are taken.

    Attributes:
        num_chains: number of parallel chains, started from `initial_states`.
        num_dropped: records dropped at the beginning of each chain.
        num_records: records kept of each chain.
        thin: trajectories per record.
    """

    num_chains: int
    num_dropped: int
    num_records: int
    thin: int


@dataclass(frozen=True)
class Plan:
    """The size of an experiment.

    Attributes:
        units: hidden units of the networks that are compared.
        master: the run that starting states come from.
        num_outside: chains that start outside of the region of large log sigma.
        num_inside: chains that start in it.
        gradients: gradients of each chain; super-transitions of all methods have equally many.
        tuning_share: share of the chains that each point of the tuning grid gets.
        verify_gradients: gradients of each method in `choo-verify`, over all chains.
        rejection_draws: trajectories of each chain in `choo-rejection`.
    """

    units: tuple[int, ...]
    master: Master
    num_outside: int
    num_inside: int
    gradients: int
    tuning_share: float
    verify_gradients: int
    rejection_draws: int

    @property
    def num_chains(self) -> int:
        """Number of chains of every method."""
        return self.num_outside + self.num_inside


PLANS = {
    "smoke": Plan((8,), Master(4, 2, 8, 1), 2, 2, 12 * 1200, 1.0, 4 * 20 * 400, 2),
    "quick": Plan((8,), Master(16, 8, 20, 40), 16, 4, 61440, 0.5, 3_000_000, 4),
    "full": Plan((8, 12, 16, 20), Master(20, 50, 200, 100), 40, 10, 614400, 0.4, 160_000_000, 10),
}


def plan_of(size: Size) -> Plan:
    """The plan of a run of this size."""
    return PLANS[size.mode]


def in_words(size: Size, share: float = 1.0) -> str:
    """The size in words, such as `3 seeds of 50 chains (40 + 10) of 614400 gradients`, for a share of the chains."""
    plan = plan_of(size)
    master = plan.master
    outside, inside = round(share * plan.num_outside), round(share * plan.num_inside)
    return (
        f"{size.num_seeds} seeds of {outside + inside} chains ({outside} + {inside}) of "
        f"{plan.gradients} gradients; master runs of {master.num_chains} chains of {master.num_records} records, "
        f"{400 * master.thin} leapfrog steps apart, after dropping {master.num_dropped}"
    )
