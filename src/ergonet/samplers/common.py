"""Shared by full-batch kernels: initial states, momentum resampling, one-step probes, and the Metropolis correction."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import CapabilityError
from ergonet._numbers import Whole, like, plain, whole
from ergonet._types import Count, Position, PRNGKey, Scalar
from ergonet.hamiltonian.energy import acceptance, is_divergent, total_energy
from ergonet.hamiltonian.integrator import AbstractIntegrator
from ergonet.hamiltonian.metric import AbstractMetric, first_metric
from ergonet.hamiltonian.microcanonical import MicrocanonicalPhase, uniform_direction
from ergonet.hamiltonian.phase import Phase
from ergonet.samplers.base import AbstractKernel, State, TrajectoryInfo, Tuning, WarmupNeeds
from ergonet.target.contract import AbstractDensity
from ergonet.trajectory.fixed import AnyPhase

FIRST_NUM_STEPS = 32


class AbstractAdaptedKernel(AbstractKernel):
    """A kernel whose step size and metric are learned by the warm-up unless they are given.

    Attributes:
        step_size: the step size; None: learned.
        metric: the name of a kind of metric, which is learned, or a metric, which is fixed.
        target_acceptance: target of the step-size adaptation.
    """

    step_size: eqx.AbstractVar[float | None]
    metric: eqx.AbstractVar[str | AbstractMetric]
    target_acceptance: eqx.AbstractVar[float]

    @property
    def length(self) -> Whole | None:
        """Number of steps of a trajectory; None: learned; 1 for kernels without a length."""
        return 1

    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        return Tuning(
            step_size=like(1.0 if self.step_size is None else self.step_size, position),
            metric=first_metric(self.metric, position),
            num_steps=whole(FIRST_NUM_STEPS if self.length is None else self.length),
        )

    def warmup(self) -> WarmupNeeds:
        return WarmupNeeds.of(
            plain(self.target_acceptance),
            step_size=self.step_size is None,
            metric=isinstance(self.metric, str) and self.metric != "identity",
            num_steps=self.length is None,
        )


def refresh(key: PRNGKey, state: State) -> Phase:
    """A phase point at `state` with a resampled standard normal momentum."""
    momentum = jax.lax.optimization_barrier(jax.random.normal(key, state.position.shape, state.position.dtype))
    return Phase(position=state.position, momentum=momentum, potential=state.potential, gradient=state.gradient)


def require_directions(owner: str, target: AbstractDensity) -> None:
    """Check that there are directions to turn to."""
    if target.dim < 2:
        raise CapabilityError(
            f"`{owner}` needs a target of at least 2 dimensions, because it turns a direction; this one has "
            f"{target.dim}. Use `ergonet.HMC()` or `ergonet.NUTS()`."
        )


def directed(key: PRNGKey, state: State) -> MicrocanonicalPhase:
    """A phase point at `state` with a direction drawn uniformly."""
    direction = uniform_direction(key, state.position)
    return MicrocanonicalPhase(
        state.position, direction, state.potential, state.gradient, jnp.zeros_like(state.potential)
    )


def probe_step(
    steps: AbstractIntegrator, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning
) -> Scalar:
    """H_start - H_end of one integrator step with a resampled momentum."""
    start = refresh(key, state)
    end = steps.step(target, tuning.metric, tuning.step_size, start)
    return total_energy(start) - total_energy(end)


class Proposal(eqx.Module):
    """The end of a trajectory, which a Metropolis correction accepts or rejects.

    Attributes:
        start: the state at the start.
        end: the state at the end.
        energy_start: H at the start.
        energy: H at the end.
        num_steps: number of integrator steps.
        gradients: number of gradients of these steps.
    """

    start: AnyPhase
    end: AnyPhase
    energy_start: Scalar
    energy: Scalar
    num_steps: Count
    gradients: Count

    @property
    def probability(self) -> Scalar:
        """min(1, exp(H_start - H_end)); 0 if the energy at the end is not finite."""
        return acceptance(self.energy_start, self.energy)

    def conclude(self, probability: Scalar, uniform: Scalar) -> tuple[State, TrajectoryInfo]:
        """The end if `uniform` is below the acceptance probability, otherwise the start; with diagnostics."""
        accepted = uniform < probability
        start: Any = self.start  # of the same kind as the end
        chosen = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), self.end, start)
        error = self.energy - self.energy_start
        info = TrajectoryInfo(
            acceptance=probability,
            gradients=self.gradients,
            energy=jnp.where(accepted, self.energy, self.energy_start),
            energy_error=jnp.where(accepted, error, 0.0),
            max_energy_error=error,
            diverging=is_divergent(error),
            nonfinite=~jnp.isfinite(error),
            num_steps=self.num_steps,
            moved=accepted,
        )
        return State(position=chosen.position, potential=chosen.potential, gradient=chosen.gradient), info
