"""Isokinetic (microcanonical) dynamics: the momentum is a direction, which gradients rotate.

The state is a position x and a unit vector u, the direction of motion in the coordinates standardized by the metric.
With the force g = L^T grad U(x), D dimensions, n = -g / |g|, c = n.u and d = e |g| / (D - 1), a step alternates

    kick   u <- (u + n (sinh d + c (cosh d - 1))) / (cosh d + c sinh d)
    drift  x <- x + e L u

A kick contracts volumes on the sphere near u by (cosh d + c sinh d)^(D - 1), whose logarithm is the increase of the
kinetic energy. In continuous time the dynamics leaves the density e^-U of x, with u uniform on the sphere, invariant.
The energy error of a step, U(end) - U(start) plus the increase of the kinetic energy, is the negative log ratio of a
Metropolis correction. References: Robnik2023; Robnik2025 (the Metropolis correction).
"""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Position, PRNGKey, Scalar
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.target.contract import AbstractDensity

LARGEST_TIME = 40.0  # of partial refreshment, in memories: nothing is left of the direction
SMALL_KICK = 1.0  # below it a formula for small d is used, above it one for large d, without overflow of e^d


class MicrocanonicalPhase(eqx.Module):
    """A position and a direction, with the potential and its gradient at the position.

    Attributes:
        position: x, `[dim]`.
        direction: u, `[dim]`, a unit vector in standardized coordinates.
        potential: U(x).
        gradient: gradient of U at x, `[dim]`.
        kinetic_energy: sum of its increases by kicks since it was last set to 0.
    """

    position: Position
    direction: Position
    potential: Scalar
    gradient: Position
    kinetic_energy: Scalar

    @property
    def energy(self) -> Scalar:
        """Sum of potential and kinetic energy."""
        return self.potential + self.kinetic_energy


def uniform_direction(key: PRNGKey, like: Position) -> Position:
    """A direction drawn uniformly from the sphere, in the shape and dtype of `like`."""
    return _normalized(lax.optimization_barrier(jax.random.normal(key, like.shape, like.dtype)))


def partially_refreshed(key: PRNGKey, direction: Position, time: Scalar, memory: Scalar) -> Position:
    """Refresh a direction partially: (u + nu z) / |u + nu z| with z ~ N(0, I), nu = sqrt((e^(2 t / L) - 1) / D).

    The move depends only on angles, so it is reversible with respect to the uniform distribution on the sphere.
    Source: Robnik2025.

    Args:
        key: PRNG key.
        direction: u, `[dim]`, a unit vector.
        time: t, at least 0, in the units of the step size.
        memory: L, above 0, the time in which the direction decorrelates, in the units of the step size; infinite:
            the direction stays.
    """
    noise = lax.optimization_barrier(jax.random.normal(key, direction.shape, direction.dtype))
    nu = jnp.sqrt(jnp.expm1(jnp.minimum(2 * time / memory, LARGEST_TIME)) / direction.size)
    return _normalized(direction + nu * noise)


def kicked(direction: Position, force: Position, size: Scalar) -> tuple[Position, Scalar]:
    """The direction after a kick of signed `size` by a force, and the increase of the kinetic energy."""
    dim = direction.size
    norm = jnp.sqrt(jnp.sum(force * force))
    downhill = -jnp.sign(size) * force / jnp.where(norm > 0, norm, 1.0)  # 0 if there is no force
    cosine = jnp.clip(jnp.sum(downhill * direction), -1.0, 1.0)
    d = jnp.abs(size) * norm / (dim - 1)
    decay = jnp.exp(-d)
    # Numerator and denominator times 2 e^-d.
    shrunk = 2 * decay * direction + downhill * ((1 - decay**2) + cosine * (1 - decay) ** 2)
    small, large = jnp.minimum(d, SMALL_KICK), jnp.maximum(d, SMALL_KICK)
    of_small = jnp.log1p(2 * jnp.sinh(small / 2) ** 2 + cosine * jnp.sinh(small))
    of_large = large + jnp.logaddexp(jnp.log1p(cosine), jnp.log1p(-cosine) - 2 * large) - jnp.log(2.0)
    growth = (dim - 1) * jnp.where(d < SMALL_KICK, of_small, of_large)
    length = jnp.sqrt(jnp.sum(shrunk * shrunk))  # 0 only straight uphill
    turned = jnp.where((norm > 0) & (length > 0), shrunk / jnp.where(length > 0, length, 1.0), direction)
    return turned, jnp.where(norm == 0, 0.0, growth)  # NaN where the force is not finite


def _normalized(vector: Array) -> Array:
    return vector / jnp.sqrt(jnp.sum(vector * vector))


class MicrocanonicalIntegrator(eqx.Module):
    """Microcanonical kicks and drifts with the coefficients of a palindromic composition.

    The map is reversible: from its end with the direction negated, it returns to its start with the direction negated.
    """

    composition: Composition

    @property
    def gradients_per_step(self) -> int:
        """Number of gradients per step, one per drift."""
        return self.composition.gradients_per_step

    def step(
        self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, phase: MicrocanonicalPhase
    ) -> MicrocanonicalPhase:
        """Take one step of signed size `step_size`."""
        kicks, drifts = self.composition.coefficients[::2], self.composition.coefficients[1::2]
        position, potential, gradient = phase.position, phase.potential, phase.gradient
        direction, kinetic = kicked(phase.direction, metric.to_momentum(gradient), kicks[0] * step_size)
        kinetic = phase.kinetic_energy + kinetic
        for kick, drift in zip(kicks[1:], drifts, strict=True):
            position, direction = self.composition.space.drift(metric, drift * step_size, position, direction)
            position = lax.optimization_barrier(position)  # otherwise XLA recomputes it for every use
            potential, gradient = jax.value_and_grad(target.potential)(position)
            direction, growth = kicked(direction, metric.to_momentum(gradient), kick * step_size)
            kinetic = kinetic + growth
        return MicrocanonicalPhase(position, direction, potential, gradient, kinetic)


class RefreshedPhase(MicrocanonicalPhase):
    """A phase point whose direction is refreshed partially along the trajectory.

    Attributes:
        key: PRNG key of the next step.
        memory: time in which the direction decorrelates, in the units of the step size.
    """

    key: PRNGKey
    memory: Scalar


class RefreshingIntegrator(eqx.Module):
    """Steps with half a refreshment of the direction before each and half after it.

    A refreshment leaves the uniform distribution of directions invariant and is reversible with respect to it, and the
    order of moves is a palindrome, so the energy error remains that of the steps alone. Source: Robnik2025.
    """

    steps: MicrocanonicalIntegrator

    @property
    def gradients_per_step(self) -> int:
        """Number of gradients per step, one per drift."""
        return self.steps.gradients_per_step

    def step(
        self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, phase: RefreshedPhase
    ) -> RefreshedPhase:
        """Take one step of signed size `step_size`."""
        before, after, key = jax.random.split(phase.key, 3)
        half = jnp.abs(step_size) / 2
        direction = partially_refreshed(before, phase.direction, half, phase.memory)
        moved = self.steps.step(target, metric, step_size, replace(phase, direction=direction))
        return RefreshedPhase(
            moved.position,
            partially_refreshed(after, moved.direction, half, phase.memory),
            moved.potential,
            moved.gradient,
            moved.kinetic_energy,
            key,
            phase.memory,
        )
