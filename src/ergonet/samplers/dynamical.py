"""Choo's two joint schemes: weights and log precisions move together by the split leapfrog.

Momenta p ~ N(0, I) for both blocks, L steps of the split leapfrog (`trajectory/split.py`), accept the end with
min(1, exp(H_start - H_end)). `DynamicalA` moves centred weights, `DynamicalB` non-centred ones, for which the step
sizes of the hyperparameters cost a further pass through the network. Meant for comparison with the thesis: NUTS on a
non-centred prior has no step sizes to set by hand. Reference: Choo 2000, chapter 4.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.hamiltonian.energy import is_divergent
from ergonet.hamiltonian.metric import IdentityMetric
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, WarmupNeeds
from ergonet.samplers.blocks import require_blocks
from ergonet.samplers.hmc import first_state, refresh
from ergonet.trajectory.split import Split, SplitTrajectory

FIRST_STEP_SIZE = 0.1


class AbstractDynamical(AbstractKernel):
    """What the two schemes share: everything but the parametrisation of the weights."""

    num_steps: eqx.AbstractVar[int]
    step_size: eqx.AbstractVar[float | None]
    target_acceptance: eqx.AbstractVar[float]
    trajectory: eqx.AbstractVar[Split]

    @property
    @abc.abstractmethod
    def capability(self) -> str:
        """What the scheme needs of a target."""

    def init(self, target: Target, position: Position) -> State:
        require_blocks(type(self).__name__, target, self.capability)
        return first_state(target, position)

    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> SplitTrajectory:
        blocks = require_blocks(type(self).__name__, target)
        key_momentum, key_order, key_accept = jax.random.split(key, 3)
        return self.trajectory.begin(
            blocks,
            refresh(key_momentum, state),
            tuning.num_steps,
            hyperparameters_first=jax.random.bernoulli(key_order),
            uniform=jax.random.uniform(key_accept, (), state.position.dtype),
        )

    def advance(self, target: Target, trajectory: SplitTrajectory, tuning: Tuning) -> SplitTrajectory:
        return self.trajectory.advance(require_blocks(type(self).__name__, target), tuning.step_size, trajectory)

    def finished(self, trajectory: SplitTrajectory) -> Flag:
        return self.trajectory.finished(trajectory)

    def conclude(self, trajectory: SplitTrajectory) -> tuple[State, Info]:
        error = trajectory.energy - trajectory.energy_start
        is_finite = jnp.isfinite(error)
        probability = jnp.where(is_finite, jnp.minimum(1.0, jnp.exp(-error)), 0.0)
        accepted = trajectory.uniform < probability
        chosen = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trajectory.phase, trajectory.start)
        moves = trajectory.num_steps * (1 + self.trajectory.splits) - trajectory.moves_left
        info = Info(
            acceptance=probability,
            gradients=moves + trajectory.extra_gradients,
            energy=jnp.where(accepted, trajectory.energy, trajectory.energy_start),
            energy_error=jnp.where(accepted, error, 0.0),
            max_energy_error=error,
            diverging=is_divergent(error),
            nonfinite=~is_finite,
            num_steps=trajectory.num_steps - trajectory.moves_left // (1 + self.trajectory.splits),
            tree_depth=jnp.full((), -1, jnp.int32),
            moved=accepted,
        )
        return State(position=chosen.position, potential=chosen.potential, gradient=chosen.gradient), info

    def tuning(self, target: Target, position: Position) -> Tuning:
        return Tuning(
            step_size=jnp.asarray(self.step_size or FIRST_STEP_SIZE, position.dtype),
            metric=IdentityMetric(),
            num_steps=jnp.asarray(self.num_steps, jnp.int32),
        )

    def warmup(self) -> WarmupNeeds:
        return WarmupNeeds(
            target_acceptance=self.target_acceptance,
            tune_step_size=self.step_size is None,
            learn_metric=False,
            tune_length=False,
        )

    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        blocks = require_blocks(type(self).__name__, target)
        moving = self.trajectory.begin(
            blocks,
            refresh(key, state),
            jnp.ones((), jnp.int32),
            hyperparameters_first=jnp.zeros((), bool),
            uniform=jnp.zeros((), state.position.dtype),
        )
        for _ in range(2):  # the weights' move and the first of the hyperparameters
            moving = self.trajectory.advance(blocks, tuning.step_size, moving)
        return moving.energy_start - moving.energy


def _check(owner: str, num_steps: int, step_size: float | None, ratio: float, splits: int) -> None:
    check.require_integer(owner, "num_steps", num_steps, 1)
    check.require_integer(owner, "hyperparameter_splits", splits, 1)
    check.require_positive(owner, "hyperparameter_ratio", ratio)
    if step_size is not None:
        check.require_positive(owner, "step_size", step_size)


class DynamicalA(AbstractDynamical):
    """Joint dynamics of centred weights and log precisions, two gradients a step; see the module's docstring."""

    num_steps: int = eqx.field(static=True)
    step_size: float | None = eqx.field(static=True)
    target_acceptance: float = eqx.field(static=True)
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
            num_steps: l, steps of a trajectory, at least 1.
            step_size: eta of the weights, above 0; None: found by the warm-up.
            hyperparameter_ratio: eta of the hyperparameters over that of the weights, above 0.
            hyperparameter_splits: k, moves of the hyperparameters in a step, each of eta / k; at least 1.
            target_acceptance: in (0, 1).

        Raises:
            SettingError: a setting is out of its range.
        """
        _check("DynamicalA", num_steps, step_size, hyperparameter_ratio, hyperparameter_splits)
        check.require_between("DynamicalA", "target_acceptance", target_acceptance, 0, 1)
        self.num_steps = int(num_steps)
        self.step_size = step_size
        self.target_acceptance = target_acceptance
        self.trajectory = Split(int(hyperparameter_splits), float(hyperparameter_ratio), curvature_gradients=0)

    @property
    def capability(self) -> str:
        return "centered curvature"


class DynamicalB(AbstractDynamical):
    """Joint dynamics of non-centred weights and log precisions, three gradients a step; see the module's docstring."""

    num_steps: int = eqx.field(static=True)
    step_size: float | None = eqx.field(static=True)
    target_acceptance: float = eqx.field(static=True)
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
        """Check and keep the settings, which are those of `DynamicalA`.

        Args:
            num_steps: l, steps of a trajectory, at least 1.
            step_size: eta of the weights, above 0; None: found by the warm-up.
            hyperparameter_ratio: eta of the hyperparameters over that of the weights, above 0.
            hyperparameter_splits: k, moves of the hyperparameters in a step, each of eta / k; at least 1.
            target_acceptance: in (0, 1).

        Raises:
            SettingError: a setting is out of its range.
        """
        _check("DynamicalB", num_steps, step_size, hyperparameter_ratio, hyperparameter_splits)
        check.require_between("DynamicalB", "target_acceptance", target_acceptance, 0, 1)
        self.num_steps = int(num_steps)
        self.step_size = step_size
        self.target_acceptance = target_acceptance
        self.trajectory = Split(int(hyperparameter_splits), float(hyperparameter_ratio), curvature_gradients=1)

    @property
    def capability(self) -> str:
        return "non-centered curvature"
