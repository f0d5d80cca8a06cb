"""The Metropolis-adjusted Langevin algorithm: static Hamiltonian Monte Carlo of one step.

q' = q - (e^2 / 2) M^-1 grad U(q) + e L z, z ~ N(0, I), accepted with min(1, exp(H_start - H_end)). A reference: it
makes random walks where longer trajectories move on. Reference: Roberts and Tweedie 1996; Neal 2011, section 5.2.
"""

from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, WarmupNeeds
from ergonet.samplers.hmc import HMC
from ergonet.trajectory.fixed import FixedTrajectory


class MALA(AbstractKernel):
    """The Metropolis-adjusted Langevin algorithm; see the module's docstring for the transition."""

    static: HMC

    def __init__(self, *, step_size: float | None = None, metric: str = "diagonal", target_acceptance: float = 0.574):
        """Check and keep the settings.

        Args:
            step_size: e, above 0; None: found by the warm-up.
            metric: `identity`, `diagonal`, `diagonal-gradient` or `dense`.
            target_acceptance: in (0, 1); 0.574 is optimal in many dimensions.

        Raises:
            SettingError: a setting is out of its range.
        """
        check.require_adapted("MALA", step_size, metric, target_acceptance)
        self.static = HMC(
            num_steps=1, step_size=step_size, length_jitter=0.0, metric=metric, target_acceptance=target_acceptance
        )

    def init(self, target: Target, position: Position) -> State:
        return self.static.init(target, position)

    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> FixedTrajectory:
        return self.static.begin(key, target, state, tuning)

    def advance(self, target: Target, trajectory: FixedTrajectory, tuning: Tuning) -> FixedTrajectory:
        return self.static.advance(target, trajectory, tuning)

    def finished(self, trajectory: FixedTrajectory) -> Flag:
        return self.static.finished(trajectory)

    def conclude(self, trajectory: FixedTrajectory) -> tuple[State, Info]:
        return self.static.conclude(trajectory)

    def tuning(self, target: Target, position: Position) -> Tuning:
        return self.static.tuning(target, position)

    def warmup(self) -> WarmupNeeds:
        return self.static.warmup()

    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        return self.static.probe(key, target, state, tuning)
