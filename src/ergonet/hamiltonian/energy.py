"""The Hamiltonian, the Metropolis acceptance and the test for divergences.

H(q, p) = U(q) + p'M^-1 p / 2. A trajectory diverges if H exceeds its value at the start by more than 1000 or is not
finite (Stan; Lau2018, section 2.3).
"""

import jax.numpy as jnp

from ergonet._types import Flag, Position, Scalar
from ergonet.hamiltonian.phase import Phase

DIVERGENCE_THRESHOLD = 1000.0


def kinetic_energy(momentum: Position) -> Scalar:
    """|r|^2 / 2 for a standardized momentum r, which equals p'M^-1 p / 2."""
    return 0.5 * jnp.dot(momentum, momentum)


def total_energy(phase: Phase) -> Scalar:
    """U + K of a phase point."""
    return phase.energy


def momentum_products(momentum: Position, previous: Position) -> tuple[Scalar, Scalar]:
    """|r|^2 and r'r_previous in one sum: each dot product alone would be four loops on a CPU."""
    square, cross = jnp.sum(jnp.stack([momentum * momentum, momentum * previous]), axis=1)
    return square, cross


def is_divergent(energy_error: Scalar) -> Flag:
    """Whether `energy_error = H - H_start` is above the threshold, infinite or NaN."""
    return ~((energy_error <= DIVERGENCE_THRESHOLD) & (energy_error > -jnp.inf))


def acceptance(energy_start: Scalar, energy: Scalar) -> Scalar:
    """min(1, exp(H_start - H)); 0 if the energy at the end is not finite."""
    return jnp.where(jnp.isfinite(energy), jnp.minimum(1.0, jnp.exp(energy_start - energy)), 0.0)


def rejection(energy_start: Scalar, energy: Scalar) -> Scalar:
    """1 - `acceptance`, to full precision where that is close to 1."""
    return jnp.where(jnp.isfinite(energy), -jnp.expm1(jnp.minimum(energy_start - energy, 0.0)), 1.0)
