"""The two joint schemes of Choo2000: weights and log precisions move together by the split leapfrog.

Resample momenta r ~ N(0, I) for both blocks, take L steps of the split leapfrog (`trajectory/split.py`), and accept the
end with probability min(1, exp(H_start - H_end)). `DynamicalA` moves centered weights, `DynamicalB` non-centered ones,
for which the step sizes of the hyperparameters cost another pass through the network. Both are provided for comparison
with the thesis; NUTS with a non-centered prior needs no hand-set step sizes. Reference: Choo2000, chapter 4.
"""

from typing import TYPE_CHECKING, ClassVar

import jax
import jax.numpy as jnp

from ergonet._numbers import integer, like, optional_real, plain, real, whole
from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.metric import IdentityMetric
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel, State, TrajectoryInfo, Tuning, WarmupNeeds
from ergonet.samplers.common import Proposal, refresh
from ergonet.target.capabilities import BlockCurvature, CenteredCurvature, NonCenteredCurvature
from ergonet.target.contract import AbstractDensity, require
from ergonet.trajectory.split import Split, SplitTrajectory

if TYPE_CHECKING:  # pyright takes Equinox's own alias for an instance variable
    from typing import ClassVar as AbstractClassVar
else:
    from equinox import AbstractClassVar

FIRST_STEP_SIZE = 0.1


class AbstractDynamical(AbstractKernel):
    """Base of the two schemes, which differ only in the parametrization of the weights.

    Attributes:
        capability: the capability that the scheme needs.
        curvature_gradients: passes through the network that the hyperparameters' curvature costs, as gradients.
    """

    capability: AbstractClassVar[type[BlockCurvature]]
    curvature_gradients: AbstractClassVar[int]
    num_steps: int
    step_size: float | None
    target_acceptance: float
    trajectory: Split

    def __init__(
        self,
        num_steps: int = 100,
        *,
        step_size: float | None = None,
        hyperparameter_ratio: float = 1.0,
        hyperparameter_splits: int = 1,
        target_acceptance: float = 0.8,
    ):
        """Check and keep the settings.

        Args:
            num_steps: number of steps of a trajectory, at least 1.
            step_size: eta of the weights, above 0; None: learned by the warm-up.
            hyperparameter_ratio: eta of the hyperparameters divided by that of the weights, above 0.
            hyperparameter_splits: k, the number of hyperparameter moves per step, each with eta / k; at least 1.
            target_acceptance: target of the step-size adaptation, in (0, 1).

        Raises:
            SettingError: a setting is out of range.
        """
        owner = type(self).__name__
        check.require_integer(owner, "num_steps", num_steps, 1)
        check.require_integer(owner, "hyperparameter_splits", hyperparameter_splits, 1)
        check.require_positive(owner, "hyperparameter_ratio", hyperparameter_ratio)
        check.require_adapted(owner, step_size, "identity", target_acceptance)
        self.num_steps = integer(num_steps)
        self.step_size = optional_real(step_size)
        self.target_acceptance = real(target_acceptance)
        splits, ratio = int(hyperparameter_splits), real(hyperparameter_ratio)
        self.trajectory = Split(splits, ratio, curvature_gradients=self.curvature_gradients)

    def curvature(self, target: AbstractDensity) -> BlockCurvature:
        """Curvatures of each block from the other."""
        return require(target, self.capability, type(self).__name__)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(TrajectoryInfo)

    def check_target(self, target: AbstractDensity) -> None:
        self.curvature(target)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> SplitTrajectory:
        key_momentum, key_order, key_accept = jax.random.split(key, 3)
        return self.trajectory.begin(
            self.curvature(target),
            refresh(key_momentum, state),
            tuning.num_steps,
            hyperparameters_first=jax.random.bernoulli(key_order),
            uniform=jax.random.uniform(key_accept, (), state.position.dtype),
        )

    def advance(self, target: AbstractDensity, trajectory: SplitTrajectory, tuning: Tuning) -> SplitTrajectory:
        return self.trajectory.advance(target, self.curvature(target), tuning.step_size, trajectory)

    def finished(self, trajectory: SplitTrajectory) -> Flag:
        return self.trajectory.finished(trajectory)

    def conclude(self, trajectory: SplitTrajectory) -> tuple[State, TrajectoryInfo]:
        moves = trajectory.num_steps * (1 + self.trajectory.splits) - trajectory.moves_left
        proposal = Proposal(
            start=trajectory.start,
            end=trajectory.phase,
            energy_start=trajectory.energy_start,
            energy=trajectory.energy,
            num_steps=trajectory.num_steps - trajectory.moves_left // (1 + self.trajectory.splits),
            gradients=moves + trajectory.extra_gradients,
        )
        return proposal.conclude(proposal.probability, trajectory.uniform)

    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        return Tuning(
            step_size=like(FIRST_STEP_SIZE if self.step_size is None else self.step_size, position),
            metric=IdentityMetric(),
            num_steps=whole(self.num_steps),
        )

    def warmup(self) -> WarmupNeeds:
        return WarmupNeeds.of(plain(self.target_acceptance), step_size=self.step_size is None)

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        curvature = self.curvature(target)
        moving = self.trajectory.begin(
            curvature,
            refresh(key, state),
            jnp.ones((), jnp.int32),
            hyperparameters_first=jnp.zeros((), bool),
            uniform=jnp.zeros((), state.position.dtype),
        )
        for _ in range(2):  # the move of the weights and the first move of the hyperparameters
            moving = self.trajectory.advance(target, curvature, tuning.step_size, moving)
        return moving.energy_start - moving.energy


class DynamicalA(AbstractDynamical):
    """Joint dynamics of centered weights and log precisions, two gradients per step; see the module's docstring."""

    __init__ = AbstractDynamical.__init__
    capability: ClassVar[type[BlockCurvature]] = CenteredCurvature
    curvature_gradients: ClassVar[int] = 0


class DynamicalB(AbstractDynamical):
    """Joint dynamics of non-centered weights and log precisions, three gradients per step; see the module."""

    __init__ = AbstractDynamical.__init__
    capability: ClassVar[type[BlockCurvature]] = NonCenteredCurvature
    curvature_gradients: ClassVar[int] = 1
