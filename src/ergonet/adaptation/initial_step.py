"""An initial step size: double or halve until the acceptance of one step crosses 0.8.

HoffmanGelman2014, Algorithm 4, with Stan's constant. At most 50 doublings or halvings are made, so that the search ends
for every density, even one that is flat or not finite near the initial values.
"""

import math
from dataclasses import replace

import jax.numpy as jnp
from jax import lax

from ergonet._types import Count, Flag, PRNGKey, Scalar
from ergonet.samplers.base import AbstractKernel, State, Tuning
from ergonet.target.contract import AbstractDensity

LOG_CROSSING = math.log(0.8)
MOST_DOUBLINGS = 50


def with_step_size(tuning: Tuning, step_size: Scalar) -> Tuning:
    """Replace the step size of a tuning."""
    return replace(tuning, step_size=step_size)


def find_first_step(
    kernel: AbstractKernel, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning
) -> Scalar:
    """Find the step size at which the acceptance of one step crosses 0.8, within a factor of two.

    Each attempt costs one gradient; all use the same momentum, as in the source.
    """

    def too_small(step_size: Scalar) -> Flag:
        log_acceptance = kernel.probe(key, target, state, with_step_size(tuning, step_size))
        return (log_acceptance > LOG_CROSSING) & (log_acceptance < jnp.inf)  # False for NaN

    def pending(carry: tuple[Scalar, Count, Count, Flag]) -> Flag:
        _, count, direction, last = carry
        unfinished = (count == 0) | (jnp.where(last, 1, -1) == direction)
        return unfinished & (count < MOST_DOUBLINGS)

    def body(carry: tuple[Scalar, Count, Count, Flag]) -> tuple[Scalar, Count, Count, Flag]:
        step_size, count, direction, _ = carry
        grows = too_small(step_size)
        direction = jnp.where(count == 0, jnp.where(grows, 1, -1), direction)
        crossed = jnp.where(grows, 1, -1) != direction
        factor = jnp.where(direction == 1, 2.0, 0.5).astype(step_size.dtype)
        next_step = jnp.where(crossed, step_size, step_size * factor)
        return next_step, count + 1, direction, grows

    zero = jnp.zeros((), jnp.int32)
    found, _, _, _ = lax.while_loop(pending, body, (tuning.step_size, zero, zero, jnp.zeros((), bool)))
    return found
