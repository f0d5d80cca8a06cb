"""The split leapfrog over two blocks, weights and hyperparameters, whose step sizes depend on the other block.

A step moves one block by a leapfrog step with the other fixed, then the other block; which block goes first is drawn
with probability 1/2 for each trajectory. Step sizes e_i = eta / sqrt(curvature_i) are computed from the fixed block, so
each move is reversible and preserves volume, and the reversed trajectory is a trajectory with the opposite order. A
hyperparameter move may be split into k moves of size eta / k. Source: Choo2000, Algorithm 4 and section 6.2.4.
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import AbstractSettings, like
from ergonet._types import Array, Count, Flag, Float, Scalar
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.phase import Phase, phase_at
from ergonet.target.capabilities import BlockCurvature
from ergonet.target.contract import AbstractDensity


class SplitTrajectory(eqx.Module):
    """Start and current end; `moves_left` counts block moves down to 0, or until the energy is not finite."""

    start: Phase
    phase: Phase
    energy_start: Scalar
    energy: Scalar
    moves_left: Count
    num_steps: Count
    turn: Count  # place in the cycle of 1 + k moves
    hyperparameters_first: Flag
    hyperparameter_sizes: Float[Array, "hyperparameters"]  # 1 / sqrt(curvature) at the current weights
    extra_gradients: Count  # passes for step sizes
    uniform: Scalar


class Split(AbstractSettings):
    """Moves of the two blocks.

    Attributes:
        splits: k, the number of hyperparameter moves per move of the weights, at least 1.
        ratio: eta of the hyperparameters divided by that of the weights, above 0.
        curvature_gradients: cost of the hyperparameters' curvature in gradients.
    """

    splits: int = eqx.field(static=True)
    ratio: float
    curvature_gradients: int = eqx.field(static=True)

    def begin(
        self,
        curvature: BlockCurvature,
        start: Phase,
        num_steps: Count,
        *,
        hyperparameters_first: Flag,
        uniform: Scalar,
    ) -> SplitTrajectory:
        """Begin a trajectory at its start."""
        energy = total_energy(start)
        return SplitTrajectory(
            start=start,
            phase=start,
            energy_start=energy,
            energy=energy,
            moves_left=num_steps * (1 + self.splits),
            num_steps=num_steps,
            turn=jnp.zeros((), jnp.int32),
            hyperparameters_first=hyperparameters_first,
            hyperparameter_sizes=jnp.zeros_like(start.position[curvature.num_weights :]),
            extra_gradients=jnp.zeros((), jnp.int32),
            uniform=uniform,
        )

    def advance(
        self, target: AbstractDensity, curvature: BlockCurvature, step_size: Scalar, trajectory: SplitTrajectory
    ) -> SplitTrajectory:
        """Take one leapfrog move of one block: one gradient, and the passes for a curvature at the start of a turn."""
        phase, turn, first = trajectory.phase, trajectory.turn, trajectory.hyperparameters_first
        weights, hyperparameters = jnp.split(phase.position, [curvature.num_weights])
        moves_weights = turn == jnp.where(first, self.splits, 0)
        begins = turn == jnp.where(first, 0, 1)
        sizes = jax.lax.cond(
            begins,
            lambda: jax.lax.rsqrt(curvature.of_hyperparameters(weights)),
            lambda: trajectory.hyperparameter_sizes,
        )
        of_weights = step_size * jax.lax.rsqrt(curvature.of_weights(hyperparameters))
        of_hyperparameters = step_size * like(self.ratio, step_size) / self.splits * sizes
        move = jnp.concatenate(
            [
                jnp.where(moves_weights, of_weights, 0.0),
                jnp.where(moves_weights, 0.0, of_hyperparameters),
            ]
        )
        momentum = phase.momentum - 0.5 * move * phase.gradient
        phase = phase_at(target, phase.position + move * momentum, momentum)
        phase = replace(phase, momentum=momentum - 0.5 * move * phase.gradient)
        return replace(
            trajectory,
            phase=phase,
            energy=total_energy(phase),
            moves_left=trajectory.moves_left - 1,
            turn=(turn + 1) % (1 + self.splits),
            hyperparameter_sizes=sizes,
            extra_gradients=trajectory.extra_gradients + self.curvature_gradients * begins,
        )

    def finished(self, trajectory: SplitTrajectory) -> Flag:
        """True after the last move, or if the energy is not finite."""
        return (trajectory.moves_left <= 0) | ~jnp.isfinite(trajectory.energy)
