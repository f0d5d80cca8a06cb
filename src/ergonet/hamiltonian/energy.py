"""The Hamiltonian and the one test for a divergence.

H(q, p) = U(q) + p'M^-1 p / 2. A trajectory has diverged where H exceeds its start by more than 1000 or is
not finite (Stan; algorithms of Lau 2018, section 2.3).
"""

import jax.numpy as jnp

from ergonet._types import Flag, Position, Scalar
from ergonet.hamiltonian.phase import Phase

DIVERGENCE_THRESHOLD = 1000.0


def kinetic_energy(momentum: Position) -> Scalar:
    """|w|^2 / 2 for a standardised momentum w, which equals p'M^-1 p / 2."""
    return 0.5 * jnp.dot(momentum, momentum)


def total_energy(phase: Phase) -> Scalar:
    """U + K of a phase point."""
    return phase.potential + kinetic_energy(phase.momentum)


def momentum_products(momentum: Position, previous: Position) -> tuple[Scalar, Scalar]:
    """|w|^2 and w'w_previous, summed at once: each dot by itself would be four loops on a CPU."""
    square, cross = jnp.sum(jnp.stack([momentum * momentum, momentum * previous]), axis=1)
    return square, cross


def is_divergent(energy_error: Scalar) -> Flag:
    """True where `energy_error = H - H_start` is above the threshold, infinite or not a number."""
    return ~((energy_error <= DIVERGENCE_THRESHOLD) & (energy_error > -jnp.inf))
