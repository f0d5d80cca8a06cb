"""A point of phase space, as every integrator and trajectory carries it."""

import equinox as eqx
import jax

from ergonet._types import Position, Scalar
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.models.target import Target


class Phase(eqx.Module):
    """Position and momentum, with the potential and its gradient at that position.

    The momentum is *standardised*: `momentum = L^T p` where `inverse_mass_matrix = L L^T` and p is the
    textbook momentum with p ~ N(0, M). A standardised momentum is N(0, I) under every metric, its kinetic
    energy is `|momentum|^2 / 2`, and inner products such as (M^-1 p)'p' become plain dot products. The
    metric enters only where positions and gradients meet momenta (`metric.py`).

    The force L^T gradient ends one step and begins the next; it is kept where that saves a product (`with_force`).
    """

    position: Position
    momentum: Position
    potential: Scalar
    gradient: Position
    force: Position | None = None

    @property
    def vectors(self) -> list[Position]:
        """Position, momentum, gradient, and the force where it is kept: what a step may read of where it starts."""
        return [self.position, self.momentum, self.gradient] + ([] if self.force is None else [self.force])


def phase_at(target: Target, position: Position, momentum: Position) -> Phase:
    """Evaluate the potential and its gradient at `position` (one gradient)."""
    potential, gradient = jax.value_and_grad(target.potential)(position)
    return Phase(position=position, momentum=momentum, potential=potential, gradient=gradient)


def with_force(phase: Phase, metric: AbstractMetric) -> Phase:
    """The phase with its force, where the metric has that kept."""
    force = metric.to_momentum(phase.gradient) if metric.keeps_force else None
    return Phase(phase.position, phase.momentum, phase.potential, phase.gradient, force)
