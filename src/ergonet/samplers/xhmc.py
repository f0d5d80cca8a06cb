"""Exhaustive Hamiltonian Monte Carlo.

The doubling trajectory of NUTS with another end: stop when the e^-H-weighted mean of the virial rate
2 K(p) - q'grad U(q) over the tree is below delta in absolute value, so that the trajectory has explored its level set.
References: Betancourt 2016; Lau 2018, Algorithms 7 and 13.
"""

from ergonet.hamiltonian.integrator import Composition
from ergonet.samplers import _settings as check
from ergonet.samplers.hmc import resolve_integrator
from ergonet.samplers.nuts import NUTS, require_tree_settings
from ergonet.trajectory.criterion import Exhaustive
from ergonet.trajectory.selection import AbstractSelection, resolve_selection


def XHMC(  # noqa: N802  a kernel's name, and a setting of the no-U-turn sampler
    delta: float = 0.1,
    *,
    max_doublings: int = 10,
    step_size: float | None = None,
    metric: str = "diagonal",
    selection: str | AbstractSelection = "multinomial",
    integrator: str | Composition = "leapfrog",
    target_acceptance: float = 0.8,
) -> NUTS:
    """Exhaustive Hamiltonian Monte Carlo: `NUTS` with the criterion `Exhaustive(delta)`.

    Args:
        delta: above 0; smaller values make longer trajectories.
        max_doublings: as in `NUTS`.
        step_size: as in `NUTS`.
        metric: as in `NUTS`.
        selection: as in `NUTS`.
        integrator: as in `NUTS`.
        target_acceptance: as in `NUTS`.

    Raises:
        SettingError: a setting is out of its range.
    """
    check.require_positive("XHMC", "delta", delta)
    require_tree_settings("XHMC", max_doublings, step_size, metric, target_acceptance)
    return NUTS(
        max_doublings=max_doublings,
        step_size=step_size,
        metric=metric,
        criterion=Exhaustive(delta),
        selection=resolve_selection("XHMC", selection),
        integrator=resolve_integrator("XHMC", integrator),
        target_acceptance=target_acceptance,
    )
