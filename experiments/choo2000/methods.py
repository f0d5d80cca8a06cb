"""The three methods of the thesis with its tuned settings, and the joint no-U-turn sampler."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ergonet import HMC, NUTS, DynamicalA, DynamicalB, GibbsHMC


@dataclass(frozen=True)
class Method:
    """A way to sample weights and precisions.

    Attributes:
        name: name in the labels of rows.
        is_centered: whether its weights are centered on their precisions.
        gradients_per_step: forward and backward passes of a leapfrog (Table 5.5).
        build: its kernel, from the number of leapfrogs of a trajectory and eta.
    """

    name: str
    is_centered: bool
    gradients_per_step: int
    build: Callable[[int, float], Any]


def _gibbs(length: int, eta: float) -> Any:
    update = HMC(num_steps=length, length_jitter=0.0, step_size=eta, metric="identity")
    return GibbsHMC(update, step_sizes="curvature")


GIBBS = Method("Gibbs", True, 1, _gibbs)
A = Method("Dynamical A", True, 2, lambda length, eta: DynamicalA(length, step_size=eta))
B = Method("Dynamical B", False, 3, lambda length, eta: DynamicalB(length, step_size=eta))
METHODS = (GIBBS, A, B)


def joint(target_acceptance: float) -> NUTS:
    """The joint scheme: one no-U-turn sampler for all coordinates, with non-centered weights."""
    return NUTS(target_acceptance=target_acceptance)


@dataclass(frozen=True)
class Setting:
    """Leapfrogs of a trajectory, eta, and how many trajectories the thesis's tuned setting rejects, in %."""

    length: int
    eta: float
    rejected: float


MASTER_LENGTH = 400
MASTER_ETA = {8: 0.35, 12: 0.32, 16: 0.26, 20: 0.24}  # Table 5.7
VERIFY = {"Gibbs": (400, 0.35, 100), "Dynamical A": (100, 0.48, 10), "Dynamical B": (300, 0.08, 10)}  # Table 5.3

TUNED: Mapping[str, Mapping[int, Setting]] = {  # Table 5.11
    "Gibbs": {
        8: Setting(200, 0.400, 8.2),
        12: Setting(200, 0.400, 12.6),
        16: Setting(100, 0.400, 15.8),
        20: Setting(50, 0.283, 7.9),
    },
    "Dynamical A": {
        8: Setting(25, 0.640, 42.9),
        12: Setting(100, 0.453, 26.7),
        16: Setting(200, 0.453, 44.0),
        20: Setting(100, 0.320, 15.6),
    },
    "Dynamical B": {
        8: Setting(533, 0.040, 21.7),
        12: Setting(533, 0.080, 51.6),
        16: Setting(66, 0.160, 30.8),
        20: Setting(17, 0.160, 14.8),
    },
}
RHO: Mapping[str, Mapping[int, tuple[float, ...]]] = {  # Table 5.12, in the order of `data.GROUPS`, then g
    "Gibbs": {
        8: (0.0378, 0.1777, 0.0353, 0.1595, 0.0864, 0.0784),
        12: (0.0479, 0.2034, 0.0203, 0.2267, 0.0745, 0.0818),
        16: (0.0509, 0.2238, 0.0256, 0.2083, 0.0496, 0.0883),
        20: (0.0630, 0.2319, 0.0290, 0.4259, 0.0528, 0.1159),
    },
    "Dynamical A": {
        8: (0.0637, 0.2171, 0.0419, 0.1931, 0.0650, 0.1039),
        12: (0.0478, 0.1277, 0.0263, 0.2510, 0.0499, 0.0797),
        16: (0.0637, 0.6173, 0.0193, 0.4893, 0.0578, 0.1389),
        20: (0.0764, 0.1576, 0.0163, 0.3363, 0.0555, 0.0901),
    },
    "Dynamical B": {
        8: (0.0909, 0.1463, 0.0551, 0.1743, 0.0762, 0.106),  # the thesis prints 0.0683, against its own entries
        12: (0.1420, 0.1581, 0.0305, 0.1586, 0.0743, 0.1021),
        16: (0.0571, 0.1460, 0.0208, 0.1768, 0.0515, 0.0731),
        20: (0.0749, 0.1579, 0.0207, 0.2109, 0.0557, 0.0848),
    },
}
