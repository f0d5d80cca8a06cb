"""Starts of the chains of each part.

They are draws of a pilot run inside of the part. A part in which the pilot has no draw gets its nearest draws,
projected into the part and moved downhill there; the user is told, because the part may have no mass worth the work.
"""

import warnings
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Float

from ergonet._errors import SamplingWarning, StartError
from ergonet._keys import derived_seed
from ergonet._types import Array, Position, Scalar
from ergonet.hamiltonian.box import Box
from ergonet.partition.regions import Partition, Points, pilot_points
from ergonet.target.contract import AbstractTarget

STARTS = 0x53746172  # purpose of the seed
DESCENT_STEPS = 200
MOST_NAMED = 4  # parts in a message
LARGEST, SMALLEST = 2.0, 0.25  # factors of the size of a step that succeeds, and of one that does not


def find_starts(
    target: AbstractTarget, parts: Partition, pilot: Any, *, num_chains: int = 4, seed: int
) -> Float[np.ndarray, "part chain dim"]:
    """Find starts inside each part.

    Args:
        target: what is sampled.
        parts: the partition.
        pilot: draws `[..., dim]` of a pilot run, such as `samples.positions`.
        num_chains: number of starts of each part, at least 1.
        seed: seeds the choice among draws, 0 to 2^63 - 1.

    Raises:
        StartError: the density is not finite anywhere that was tried in a part; names the part.
    """
    draws = pilot_points(pilot, parts.dim).astype(jax.dtypes.canonicalize_dtype(float))
    numbers, rng = parts.part_of(draws), np.random.default_rng(derived_seed(seed, STARTS))
    scale = np.where(np.ptp(draws, axis=0) > 0, draws.std(axis=0), 1.0).astype(draws.dtype)
    found, without = [], []
    for number, box in enumerate(parts.boxes):
        inside = draws[numbers == number]
        if len(inside):
            found.append(inside[rng.choice(len(inside), num_chains, replace=len(inside) < num_chains)])
            continue
        without.append(number)
        starts, potentials = _projected(target, box, draws, scale, num_chains)
        if not np.all(np.isfinite(potentials)):
            raise StartError(
                f"Part {number} ({parts.describe(number)}) has no pilot draw, and its density is 0 or undefined at the "
                "nearest draws projected into it. Leave out the cut, or draw a longer pilot."
            )
        found.append(starts)
    if without:
        warnings.warn(_without_mass(parts, without, len(draws)), SamplingWarning, stacklevel=2)
    return np.stack(found)


def _without_mass(parts: Partition, numbers: list[int], num_draws: int) -> str:
    named = "; ".join(f"{one} ({parts.describe(one)})" for one in numbers[:MOST_NAMED])
    more = f" and {len(numbers) - MOST_NAMED} more" if len(numbers) > MOST_NAMED else ""
    return (
        f"{len(numbers)} of {len(parts)} parts have none of the {num_draws} pilot draws, so they may have no mass "
        f"worth sampling: part {named}{more}. Their chains start at the nearest draws, projected and moved downhill; "
        "fewer or other cuts would save the work."
    )


def _projected(
    target: AbstractTarget, box: Box, draws: Points, scale: Float[np.ndarray, "dim"], count: int
) -> tuple[Float[np.ndarray, "chain dim"], Float[np.ndarray, "chain"]]:
    """The draws nearest to a box, in units of their standard deviations, moved into it and downhill."""
    clipped = np.asarray(box.nearest(jnp.asarray(draws)))
    distance = np.sum(((clipped - draws) / scale) ** 2, axis=1)
    nearest = np.argsort(distance, kind="stable")[np.arange(count) % len(draws)]
    ends, potentials = _descend(target, box, jnp.asarray(clipped[nearest]), jnp.asarray(scale))
    return np.asarray(ends), np.asarray(potentials)


@eqx.filter_jit
def _descend(
    target: AbstractTarget, box: Box, starts: Float[Array, "chain dim"], scale: Position
) -> tuple[Float[Array, "chain dim"], Float[Array, "chain"]]:
    """Steps down the gradient, which end at walls; a step that leads uphill is undone and shortened."""

    def step(_: Any, carry: tuple[Position, Scalar, Position, Scalar]) -> tuple[Position, Scalar, Position, Scalar]:
        position, potential, gradient, size = carry
        length = jnp.maximum(jnp.sqrt(jnp.sum((scale * gradient) ** 2)), 1e-30)
        proposal = box.nearest(position - (size / length) * scale**2 * gradient)
        new, slope = jax.value_and_grad(target.potential)(proposal)
        better = new < potential
        return (
            jnp.where(better, proposal, position),
            jnp.where(better, new, potential),
            jnp.where(better, slope, gradient),
            size * jnp.where(better, LARGEST, SMALLEST),
        )

    def end_of(start: Position) -> tuple[Position, Scalar]:
        potential, gradient = jax.value_and_grad(target.potential)(start)
        first = start, potential, gradient, jnp.full_like(potential, 0.1)
        position, potential, _, _ = lax.fori_loop(0, DESCENT_STEPS, step, first)
        return position, potential

    return lax.map(end_of, starts)
