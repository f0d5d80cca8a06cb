"""Exhaustive Hamiltonian Monte Carlo.

The doubling trajectory of NUTS with the exhaustive termination criterion: the tree ends if the e^-H-weighted mean of
the virial rate 2 K(p) - q'grad U(q) over the tree is below delta in absolute value, so that the trajectory has explored
its level set. References: Betancourt2016; Lau2018, Algorithms 7 and 13.
"""

from ergonet._numbers import optional_real, real
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.tree import AbstractTreeKernel, require_tree_settings
from ergonet.trajectory.criterion import Exhaustive
from ergonet.trajectory.doubling import Doubling
from ergonet.trajectory.registry import SELECTIONS
from ergonet.trajectory.selection import AbstractSelection


class XHMC(AbstractTreeKernel):
    """Exhaustive Hamiltonian Monte Carlo; see the module's docstring for the transition."""

    def __init__(
        self,
        delta: float = 0.1,
        *,
        max_doublings: int = 10,
        step_size: float | None = None,
        metric: str | AbstractMetric = "diagonal",
        selection: str | AbstractSelection = "multinomial",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            delta: threshold, above 0; smaller values give longer trajectories.
            max_doublings: maximum tree depth, 1 to 20; a transition takes at most 2^max_doublings - 1 steps.
            step_size: the step size, above 0; None: learned.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            selection: selection of the state: `multinomial`, `slice`, or an object.
            integrator: a name, or a `Composition`.
            target_acceptance: target of the step-size adaptation, in (0, 1).

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_positive("XHMC", "delta", delta)
        require_tree_settings("XHMC", max_doublings, step_size, metric, target_acceptance)
        self.max_doublings = int(max_doublings)
        self.step_size = optional_real(step_size)
        self.metric = metric
        self.target_acceptance = real(target_acceptance)
        self.trajectory = Doubling(
            criterion=Exhaustive(delta),
            selection=SELECTIONS.resolve(selection, owner="XHMC"),
            integrator=INTEGRATORS.resolve(integrator, owner="XHMC"),
            max_doublings=self.max_doublings,
        )
