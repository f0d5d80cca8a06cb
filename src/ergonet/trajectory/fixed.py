"""The trajectory of fixed length, whose end is the proposal.

Sources: Neal2011, section 3.2; Lau2018, Algorithm 1; Ask2022, Algorithm 4.1.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Count, Flag, Scalar
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.microcanonical import MicrocanonicalIntegrator, MicrocanonicalPhase, RefreshingIntegrator
from ergonet.hamiltonian.phase import Phase
from ergonet.target.contract import AbstractDensity

AnyPhase = Phase | MicrocanonicalPhase


class FixedTrajectory(eqx.Module):
    """Start and current end of the trajectory; `steps` counts down to 0, or until the energy is not finite."""

    start: AnyPhase
    phase: AnyPhase
    energy_start: Scalar
    energy: Scalar
    steps_left: Count
    num_steps: Count
    step_size: Scalar
    uniform: Scalar  # decides acceptance; drawn at the start, so that tests can set it


class Fixed(eqx.Module):
    """A trajectory of `num_steps` steps.

    It stops early only if the energy is not finite; stopping early relative to the initial energy would not be
    reversible.
    """

    integrator: Composition | MicrocanonicalIntegrator | RefreshingIntegrator

    def begin(self, start: AnyPhase, step_size: Scalar, num_steps: Count, uniform: Scalar) -> FixedTrajectory:
        """Begin a trajectory at its start."""
        energy = start.energy
        return FixedTrajectory(
            start=start,
            phase=start,
            energy_start=energy,
            energy=energy,
            steps_left=num_steps,
            num_steps=num_steps,
            step_size=step_size,
            uniform=uniform,
        )

    def advance(self, target: AbstractDensity, metric: AbstractMetric, trajectory: FixedTrajectory) -> FixedTrajectory:
        """Take one integrator step."""
        here: Any = trajectory.phase  # of the kind that the integrator moves
        phase = self.integrator.step(target, metric, trajectory.step_size, here)
        return replace(trajectory, phase=phase, energy=phase.energy, steps_left=trajectory.steps_left - 1)

    def finished(self, trajectory: FixedTrajectory) -> Flag:
        """True after the last step, or if the energy is not finite."""
        return (trajectory.steps_left <= 0) | ~jnp.isfinite(trajectory.energy)
