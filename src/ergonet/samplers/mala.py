"""The Metropolis-adjusted Langevin algorithm: static Hamiltonian Monte Carlo with one step.

q' = q - (e^2 / 2) M^-1 grad U(q) + e L r, r ~ N(0, I), accepted with probability min(1, exp(H_start - H_end)). It
serves as a reference: it performs a random walk where longer trajectories make progress. References:
RobertsTweedie1996; Neal2011, section 5.2.
"""

from ergonet._numbers import integer, optional_real, real
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.registry import INTEGRATORS
from ergonet.samplers import _settings as check
from ergonet.samplers.hmc import AbstractStaticHMC
from ergonet.trajectory.fixed import Fixed


class MALA(AbstractStaticHMC):
    """The Metropolis-adjusted Langevin algorithm; see the module's docstring for the transition."""

    def __init__(
        self,
        *,
        step_size: float | None = None,
        metric: str | AbstractMetric = "diagonal",
        target_acceptance: float = 0.574,
    ):
        """Check and keep the settings.

        Args:
            step_size: e, above 0; None: learned.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`, which is learned; or a metric, which is
                fixed.
            target_acceptance: target of the step-size adaptation, in (0, 1); 0.574 is optimal in high dimension.

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_adapted("MALA", step_size, metric, target_acceptance)
        self.num_steps = integer(1)
        self.step_size = optional_real(step_size)
        self.step_jitter, self.length_jitter, self.direction = real(0.0), real(0.0), "forward"
        self.metric = metric
        self.target_acceptance = real(target_acceptance)
        self.trajectory = Fixed(INTEGRATORS.resolve("leapfrog", owner="MALA"))
