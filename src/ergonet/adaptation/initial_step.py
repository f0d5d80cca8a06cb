"""A first step size: double or halve until one step's acceptance crosses 0.8.

Hoffman and Gelman 2014, Algorithm 4, with Stan's constant. Bounded to 50 doublings either way, so that it ends on any
density, also one that is flat or not finite around the start.
"""

import math

import jax.numpy as jnp
from jax import lax

from ergonet._types import Count, Flag, PRNGKey, Scalar
from ergonet.models.target import Target
from ergonet.samplers.base import AbstractKernel, State, Tuning

LOG_CROSSING = math.log(0.8)
MOST_DOUBLINGS = 50


def with_step_size(tuning: Tuning, step_size: Scalar) -> Tuning:
    """The same tuning with another step size."""
    return Tuning(step_size=step_size, metric=tuning.metric, num_steps=tuning.num_steps)


def find_first_step(kernel: AbstractKernel, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
    """The step size at which the acceptance of one step crosses 0.8, to a factor of two.

    One gradient each try, all with the same momentum, as in the source.
    """

    def too_small(step_size: Scalar) -> Flag:
        log_acceptance = kernel.probe(key, target, state, with_step_size(tuning, step_size))
        return (log_acceptance > LOG_CROSSING) & (log_acceptance < jnp.inf)  # False where it is not a number

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
