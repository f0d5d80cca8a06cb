"""How much of the thesis's experiments is run at each size.

Full is the thesis's budget of chains and gradients, with shorter master runs; quick is 8 hidden units with a tenth of
it.
"""

from dataclasses import dataclass

from experiments.sizes import Size

SUPER_TRANSITIONS = 12
"""N_s is not printed; the thesis's numbers of leapfrogs and its grids of lengths imply 12 (`means.py`)."""


@dataclass(frozen=True)
class Master:
    """A long run of the Gibbs method, from which starting states and true means are taken.

    Attributes:
        num_chains: that run beside each other, from moderate states.
        num_dropped: records at the beginning of each chain that are not used.
        num_records: records of each that are.
        thin: trajectories for each record.
    """

    num_chains: int
    num_dropped: int
    num_records: int
    thin: int


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        units: hidden units of the networks that are compared.
        master: the run that starting states come from.
        num_outside: chains that start outside of the region of large log sigma.
        num_inside: chains that start in it.
        gradients: of each chain, with those of a super-transition the same for every method.
        tuning_share: share of the chains that each point of the tuning grid gets.
        verify_gradients: of each method in `choo-verify`, over all chains.
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
        """Of every method."""
        return self.num_outside + self.num_inside


PLANS = {
    "smoke": Plan((8,), Master(4, 2, 8, 1), 2, 2, 12 * 1200, 1.0, 4 * 20 * 400, 2),
    "quick": Plan((8,), Master(16, 8, 20, 40), 16, 4, 61440, 0.5, 3_000_000, 4),
    "full": Plan((8, 12, 16, 20), Master(20, 50, 200, 100), 40, 10, 614400, 0.4, 160_000_000, 10),
}


def plan_of(size: Size) -> Plan:
    """How much is run at a size."""
    return PLANS[size.mode]


def in_words(size: Size, share: float = 1.0) -> str:
    """As in `3 seeds of 50 chains (40 + 10) of 614400 gradients`; of a share of the chains."""
    plan = plan_of(size)
    master = plan.master
    outside, inside = round(share * plan.num_outside), round(share * plan.num_inside)
    return (
        f"{size.num_seeds} seeds of {outside + inside} chains ({outside} + {inside}) of "
        f"{plan.gradients} gradients; master runs of {master.num_chains} chains of {master.num_records} records, "
        f"{400 * master.thin} leapfrogs apart, after {master.num_dropped} that are dropped"
    )
