"""The split leapfrog over two blocks, weights and hyperparameters, whose step sizes depend on the other block.

A step moves one block by a leapfrog with the other held, then the other block; which one goes first is drawn once per
trajectory with probability 1/2. Step sizes e_i = eta / sqrt(curvature_i) are made from the block that is held, so each
of the two moves is reversible and keeps volume, and the trajectory read backwards is the same with the other order. A
hyperparameter move may be split in k of size eta / k. Source: Choo 2000, Algorithm 4 and section 6.2.4.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Count, Flag, Float, Scalar
from ergonet.hamiltonian.energy import total_energy
from ergonet.hamiltonian.phase import Phase, phase_at
from ergonet.models.target import HierarchicalTarget


class SplitTrajectory(eqx.Module):
    """Start and present end; `moves_left` counts block moves down to 0, or to a non-finite energy."""

    start: Phase
    phase: Phase
    energy_start: Scalar
    energy: Scalar
    moves_left: Count
    num_steps: Count
    turn: Count  # place in the cycle of 1 + k moves
    hyperparameters_first: Flag
    hyperparameter_sizes: Float[Array, "hyperparameters"]  # 1 / sqrt(curvature), of the present weights
    extra_gradients: Count  # passes that step sizes cost
    uniform: Scalar


class Split(eqx.Module):
    """Moves of the two blocks.

    Attributes:
        splits: k, moves of the hyperparameters for one of the weights, at least 1.
        ratio: eta of the hyperparameters over that of the weights, above 0.
        curvature_gradients: passes through the network that the hyperparameters' curvature costs, as gradients.
    """

    splits: int = eqx.field(static=True)
    ratio: float = eqx.field(static=True)
    curvature_gradients: int = eqx.field(static=True)

    def begin(
        self,
        target: HierarchicalTarget,
        start: Phase,
        num_steps: Count,
        *,
        hyperparameters_first: Flag,
        uniform: Scalar,
    ) -> SplitTrajectory:
        """A trajectory that has not moved yet."""
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
            hyperparameter_sizes=jnp.zeros_like(start.position[target.num_weights :]),
            extra_gradients=jnp.zeros((), jnp.int32),
            uniform=uniform,
        )

    def advance(self, target: HierarchicalTarget, step_size: Scalar, trajectory: SplitTrajectory) -> SplitTrajectory:
        """One leapfrog move of one block: one gradient, and the passes of a curvature where a turn begins."""
        phase, turn, first = trajectory.phase, trajectory.turn, trajectory.hyperparameters_first
        weights, hyperparameters = jnp.split(phase.position, [target.num_weights])
        moves_weights = turn == jnp.where(first, self.splits, 0)
        begins = turn == jnp.where(first, 0, 1)
        sizes = jax.lax.cond(
            begins,
            lambda: jax.lax.rsqrt(target.hyperparameter_curvature(weights)),
            lambda: trajectory.hyperparameter_sizes,
        )
        of_weights = step_size * jax.lax.rsqrt(target.weight_curvature(hyperparameters))
        of_hyperparameters = step_size * self.ratio / self.splits * sizes
        move = jnp.concatenate(
            [
                jnp.where(moves_weights, of_weights, 0.0),
                jnp.where(moves_weights, 0.0, of_hyperparameters),
            ]
        )
        momentum = phase.momentum - 0.5 * move * phase.gradient
        phase = phase_at(target, phase.position + move * momentum, momentum)
        phase = Phase(
            position=phase.position,
            momentum=momentum - 0.5 * move * phase.gradient,
            potential=phase.potential,
            gradient=phase.gradient,
        )
        return SplitTrajectory(
            start=trajectory.start,
            phase=phase,
            energy_start=trajectory.energy_start,
            energy=total_energy(phase),
            moves_left=trajectory.moves_left - 1,
            num_steps=trajectory.num_steps,
            turn=(turn + 1) % (1 + self.splits),
            hyperparameters_first=first,
            hyperparameter_sizes=sizes,
            extra_gradients=trajectory.extra_gradients + self.curvature_gradients * begins,
            uniform=trajectory.uniform,
        )

    def finished(self, trajectory: SplitTrajectory) -> Flag:
        """True after the last move, or where the energy is not finite."""
        return (trajectory.moves_left <= 0) | ~jnp.isfinite(trajectory.energy)
