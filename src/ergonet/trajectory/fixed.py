"""The trajectory of fixed length: L steps, propose the end.

Sources: Neal 2011, section 3.2; Lau 2018, Algorithm 1; Ask 2022, Algorithm 4.1.
"""

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Count, Flag, Scalar
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase
from ergonet.models.target import Target


class FixedTrajectory(eqx.Module):
    """Start and present end of the trajectory; `steps` counts down to 0, or to a non-finite energy."""

    start: Phase
    phase: Phase
    energy_start: Scalar
    energy: Scalar
    steps_left: Count
    num_steps: Count
    step_size: Scalar
    uniform: Scalar  # decides acceptance; drawn at the start, so that tests can set it


class Fixed(eqx.Module):
    """A trajectory of `num_steps` steps.

    It stops early only where the energy is not finite; an early stop relative to the starting energy would not be
    reversible.
    """

    integrator: Composition

    def begin(self, start: Phase, step_size: Scalar, num_steps: Count, uniform: Scalar) -> FixedTrajectory:
        """A trajectory that has not moved yet."""
        energy = total_energy(start)
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

    def advance(self, target: Target, metric: AbstractMetric, trajectory: FixedTrajectory) -> FixedTrajectory:
        """One integrator step."""
        phase = self.integrator.step(target, metric, trajectory.step_size, trajectory.phase)
        return FixedTrajectory(
            start=trajectory.start,
            phase=phase,
            energy_start=trajectory.energy_start,
            energy=total_energy(phase),
            steps_left=trajectory.steps_left - 1,
            num_steps=trajectory.num_steps,
            step_size=trajectory.step_size,
            uniform=trajectory.uniform,
        )

    def finished(self, trajectory: FixedTrajectory) -> Flag:
        """True after the last step, or where the energy is not finite."""
        return (trajectory.steps_left <= 0) | ~jnp.isfinite(trajectory.energy)
