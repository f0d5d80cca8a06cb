"""The no-U-turn sampler.

Resample the momentum, double a tree of leapfrog states until it makes a U-turn, and select one of its states. With rho
the sum of the momenta, the tree ends if (M^-1 p-)'rho <= 0 or (M^-1 p+)'rho <= 0; states have weight e^-H. It is the
safe general choice, without a length to tune. The termination criterion and the selection are components
(`trajectory/criterion.py`, `trajectory/selection.py`), and every combination leaves the target invariant; the sampler
of HoffmanGelman2014 is `NUTS(criterion="original", selection="slice")`. References: HoffmanGelman2014; Betancourt2017,
appendix A; Lau2018, Algorithm 6; Ask2022, Algorithm 5.2; Stan's additional checks.
"""

from ergonet._numbers import optional_real, real
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers.tree import AbstractTreeKernel, require_tree_settings
from ergonet.trajectory.criterion import AbstractCriterion
from ergonet.trajectory.doubling import Doubling
from ergonet.trajectory.registry import CRITERIA, SELECTIONS
from ergonet.trajectory.selection import AbstractSelection


class NUTS(AbstractTreeKernel):
    """The no-U-turn sampler; see the module's docstring for the transition."""

    def __init__(
        self,
        *,
        max_doublings: int = 10,
        step_size: float | None = None,
        metric: str | AbstractMetric = "diagonal",
        criterion: str | AbstractCriterion = "generalized",
        selection: str | AbstractSelection = "multinomial",
        integrator: str | Composition = "leapfrog",
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            max_doublings: maximum tree depth, 1 to 20; a transition takes at most 2^max_doublings - 1 steps.
            step_size: the step size, above 0; None: learned.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            criterion: termination criterion: `original`, `generalized`, `exhaustive`, or an object (`Exhaustive(0.2)`).
            selection: selection of the state: `multinomial`, `slice`, or an object.
            integrator: a name, or a `Composition`.
            target_acceptance: target of the step-size adaptation, in (0, 1).

        Raises:
            SettingError: a setting is out of range.
        """
        require_tree_settings("NUTS", max_doublings, step_size, metric, target_acceptance)
        self.max_doublings = int(max_doublings)
        self.step_size = optional_real(step_size)
        self.metric = metric
        self.target_acceptance = real(target_acceptance)
        self.trajectory = Doubling(
            criterion=CRITERIA.resolve(criterion, owner="NUTS"),
            selection=SELECTIONS.resolve(selection, owner="NUTS"),
            integrator=INTEGRATORS.resolve(integrator, owner="NUTS"),
            max_doublings=self.max_doublings,
        )
