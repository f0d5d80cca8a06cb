"""Random-walk Metropolis.

q' = q + e L z, z ~ N(0, I), accepted with min(1, exp(U(q) - U(q'))). A reference without gradients: an advance costs
one potential and no gradient, so `gradients` is 0. A proposal of zero density, U(q') = inf, is rejected like any
other and is no divergence: a walk looks for the edge of a bounded support by stepping over it. One whose U(q') is not
a number or -inf is rejected and counts as a divergence. References: Metropolis et al. 1953; Roberts, Gelman and Gilks
1997.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.hamiltonian.metric import first_metric
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, WarmupNeeds


class RandomWalkTrajectory(eqx.Module):
    """A proposal, before and after its potential is known."""

    state: State
    step: Position
    proposal: State
    uniform: Scalar
    done: Flag


class RandomWalk(AbstractKernel):
    """Random-walk Metropolis; see the module's docstring for the transition."""

    step_size: float | None = eqx.field(static=True)
    metric: str = eqx.field(static=True)
    target_acceptance: float = eqx.field(static=True)

    def __init__(self, *, step_size: float | None = None, metric: str = "diagonal", target_acceptance: float = 0.234):
        """Check and keep the settings.

        Args:
            step_size: e, above 0; None: found by the warm-up.
            metric: `identity`, `diagonal` or `dense`; the proposal's covariance is e^2 M^-1. `diagonal-gradient` is
                `diagonal` here, for want of gradients.
            target_acceptance: in (0, 1); 0.234 is optimal in many dimensions.

        Raises:
            SettingError: a setting is out of its range.
        """
        check.require_adapted("RandomWalk", step_size, metric, target_acceptance)
        self.step_size = step_size
        self.metric = metric
        self.target_acceptance = target_acceptance

    def init(self, target: Target, position: Position) -> State:
        return _state(target, position)

    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> RandomWalkTrajectory:
        key_step, key_accept = jax.random.split(key)
        noise = jax.random.normal(key_step, state.position.shape, state.position.dtype)
        return RandomWalkTrajectory(
            state=state,
            step=tuning.step_size * tuning.metric.to_position(noise),
            proposal=state,
            uniform=jax.random.uniform(key_accept, (), state.position.dtype),
            done=jnp.zeros((), bool),
        )

    def advance(self, target: Target, trajectory: RandomWalkTrajectory, tuning: Tuning) -> RandomWalkTrajectory:
        return RandomWalkTrajectory(
            state=trajectory.state,
            step=trajectory.step,
            proposal=_state(target, trajectory.state.position + trajectory.step),
            uniform=trajectory.uniform,
            done=jnp.ones((), bool),
        )

    def finished(self, trajectory: RandomWalkTrajectory) -> Flag:
        return trajectory.done

    def conclude(self, trajectory: RandomWalkTrajectory) -> tuple[State, Info]:
        error = trajectory.proposal.potential - trajectory.state.potential
        impossible = ~(error > -jnp.inf)
        probability = jnp.where(impossible, 0.0, jnp.minimum(1.0, jnp.exp(-error)))
        accepted = trajectory.uniform < probability
        state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), trajectory.proposal, trajectory.state)
        info = Info(
            acceptance=probability,
            gradients=jnp.zeros((), jnp.int32),
            energy=state.potential,
            energy_error=jnp.where(accepted, error, 0.0),
            max_energy_error=error,
            diverging=impossible,
            nonfinite=impossible,
            num_steps=jnp.ones((), jnp.int32),
            tree_depth=jnp.full((), -1, jnp.int32),
            moved=accepted,
        )
        return state, info

    def tuning(self, target: Target, position: Position) -> Tuning:
        return Tuning(
            step_size=jnp.asarray(self.step_size or 1.0, position.dtype),
            metric=first_metric(self.metric, position),
            num_steps=jnp.ones((), jnp.int32),
        )

    def warmup(self) -> WarmupNeeds:
        return WarmupNeeds(
            target_acceptance=self.target_acceptance,
            tune_step_size=self.step_size is None,
            learn_metric=self.metric != "identity",
            tune_length=False,
        )

    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        trajectory = self.advance(target, self.begin(key, target, state, tuning), tuning)
        return trajectory.state.potential - trajectory.proposal.potential


def _state(target: Target, position: Position) -> State:
    """A state without its gradient, which this kernel never reads."""
    return State(position=position, potential=target.potential(position), gradient=jnp.zeros_like(position))
