"""Points of phase space, as integrators and trajectories carry them."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Float, Position, Scalar
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.target.contract import AbstractDensity


class AbstractPoint(eqx.Module):
    """The part of a phase point that an integrator step reads.

    The momentum r is *standardized*: r = L^T p, where `inverse_mass_matrix = L L^T` and p is the textbook momentum with
    p ~ N(0, M). A standardized momentum is N(0, I) under every metric, its kinetic energy is `|momentum|^2 / 2`, and
    inner products such as (M^-1 p)'p' become plain dot products. The metric enters only in the conversion between
    momenta on one side and positions and gradients on the other (`metric.py`).

    The force L^T gradient ends one step and begins the next; it is stored if that saves a product (`with_force`).
    """

    position: eqx.AbstractVar[Position]
    momentum: eqx.AbstractVar[Position]
    gradient: eqx.AbstractVar[Position]
    force: eqx.AbstractVar[Position | None]

    @property
    def stacked(self) -> Float[Array, "vector dim"]:
        """Position, momentum, gradient and, if stored, force, in one buffer."""
        vectors = [self.position, self.momentum, self.gradient]
        return jnp.stack(vectors if self.force is None else [*vectors, self.force])


class Point(AbstractPoint):
    """Position, momentum and gradient, without the potential, which integrator steps do not read."""

    position: Position
    momentum: Position
    gradient: Position
    force: Position | None = None

    @staticmethod
    def of(stacked: Float[Array, "vector dim"]) -> "Point":
        """The point whose vectors were `stacked`."""
        return Point(*stacked)


class Phase(AbstractPoint):
    """Position and momentum, with the potential and its gradient at that position."""

    position: Position
    momentum: Position
    potential: Scalar
    gradient: Position
    force: Position | None = None

    @property
    def energy(self) -> Scalar:
        """U + |r|^2 / 2."""
        return self.potential + 0.5 * jnp.dot(self.momentum, self.momentum)

    @property
    def point(self) -> Point:
        """This phase without the potential."""
        return Point(self.position, self.momentum, self.gradient, self.force)


def phase_at(target: AbstractDensity, position: Position, momentum: Position) -> Phase:
    """Evaluate the potential and its gradient at `position` (one gradient)."""
    potential, gradient = jax.value_and_grad(target.potential)(position)
    return Phase(position=position, momentum=momentum, potential=potential, gradient=gradient)


def with_force(phase: Phase, metric: AbstractMetric) -> Phase:
    """Add the force to a phase point, if the metric wants it stored."""
    return replace(phase, force=metric.to_momentum(phase.gradient) if metric.keeps_force else None)
