"""Random-walk Metropolis.

q' = q + e L z, z ~ N(0, I), accepted with probability min(1, exp(U(q) - U(q'))). It serves as a reference without
gradients: an advance costs one potential and no gradient, so `gradients` is 0. A proposal of zero density, U(q') = inf,
is rejected like any other and is not a divergence, since a walk steps over the edge of a bounded support. A proposal
whose U(q') is NaN or -inf is rejected and counts as a divergence. References: Metropolis1953; RobertsGelmanGilks1997.
"""

from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import optional_real, real
from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.samplers import _settings as check
from ergonet.samplers.base import State, Tuning, WalkInfo
from ergonet.samplers.common import AbstractAdaptedKernel
from ergonet.target.contract import AbstractDensity


class RandomWalkTrajectory(eqx.Module):
    """A proposal, before and after its potential is known."""

    state: State
    step: Position
    proposal: State
    uniform: Scalar
    done: Flag


class RandomWalk(AbstractAdaptedKernel):
    """Random-walk Metropolis; see the module's docstring for the transition."""

    step_size: float | None
    metric: str | AbstractMetric
    target_acceptance: float

    def __init__(
        self,
        *,
        step_size: float | None = None,
        metric: str | AbstractMetric = "diagonal",
        target_acceptance: float = 0.234,
    ):
        """Check and keep the settings.

        Args:
            step_size: e, above 0; None: learned.
            metric: `identity`, `diagonal` or `dense`, which is learned; or a metric, which is fixed. The covariance of
                the proposal is e^2 M^-1. `diagonal-gradient` means `diagonal` here, because there are no gradients.
            target_acceptance: target of the step-size adaptation, in (0, 1); 0.234 is optimal in high dimension.

        Raises:
            SettingError: a setting is out of range.
        """
        check.require_adapted("RandomWalk", step_size, metric, target_acceptance)
        self.step_size = optional_real(step_size)
        self.metric = metric
        self.target_acceptance = real(target_acceptance)

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(WalkInfo)

    @property
    def evaluate(self) -> Callable[[AbstractDensity, Position], State]:
        return _without_gradient

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> RandomWalkTrajectory:
        key_step, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_step, state.position.shape, state.position.dtype)
        return RandomWalkTrajectory(
            state=state,
            step=tuning.step_size * tuning.metric.to_position(noise),
            proposal=state,
            uniform=jax.random.uniform(key_accept, (), state.position.dtype),
            done=jnp.zeros((), bool),
        )

    def advance(
        self, target: AbstractDensity, trajectory: RandomWalkTrajectory, tuning: Tuning
    ) -> RandomWalkTrajectory:
        proposal = _without_gradient(target, trajectory.state.position + trajectory.step)
        return replace(trajectory, proposal=proposal, done=jnp.ones((), bool))

    def finished(self, trajectory: RandomWalkTrajectory) -> Flag:
        return trajectory.done

    def conclude(self, trajectory: RandomWalkTrajectory) -> tuple[State, WalkInfo]:
        error = trajectory.proposal.potential - trajectory.state.potential
        impossible = ~(error > -jnp.inf)
        probability = jnp.where(impossible, 0.0, jnp.minimum(1.0, jnp.exp(-error)))
        accepted = trajectory.uniform < probability
        state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trajectory.proposal, trajectory.state)
        info = WalkInfo(
            acceptance=probability,
            gradients=jnp.zeros((), jnp.int32),
            energy_error=jnp.where(accepted, error, 0.0),
            max_energy_error=error,
            diverging=impossible,
            nonfinite=impossible,
            num_steps=jnp.ones((), jnp.int32),
            moved=accepted,
        )
        return state, info

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        trajectory = self.advance(target, self.begin(key, target, state, tuning), tuning)
        return trajectory.state.potential - trajectory.proposal.potential


def _without_gradient(target: AbstractDensity, position: Position) -> State:
    """A state without a gradient, which this kernel does not read."""
    return State(position=position, potential=target.potential(position), gradient=jnp.zeros_like(position))
