"""Dual averaging of the log step size (HoffmanGelman2014, section 3.2; Lau2018, Algorithm 8).

With g_t = target - acceptance_t: log e_{t+1} = mu - sqrt(t) / gamma * mean_t(g), where the mean downweights its first
t0 iterations, and the final step size is the average of log e_t with weights t^-kappa. The warm-up runs with e_t; the
average is used only afterwards.

With the usual gamma of 0.05, one transition moves log e_t by 20 / sqrt(t) times its error. This finds a step size
quickly, but e_t overshoots in both directions for about a hundred iterations. Acceptance is concave in log e, so the
average of such iterates is accepted more often than the iterates were: 0.9 for a target of 0.8 after 50 transitions.
Therefore the recursion can *settle*: restart at the step size found so far, with gamma = 0.2 and mu = log e0.

If every trajectory is rejected, or none is, log e_t diverges: it is clipped to [-40, 40], so that e_t stays finite.
"""

import math

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Flag, Scalar

GAMMA = 0.05
SETTLED_GAMMA = 0.2
T0 = 10.0
KAPPA = 0.75
LARGEST_LOG = 40.0


class DualAveraging(eqx.Module):
    """State of the recursion.

    Attributes:
        mu: the point to which the iterates are shrunk: log(10 e0), or log e0 after settling.
        count: number of updates so far.
        mean_error: weighted mean of target - acceptance.
        log_average: weighted mean of the log step sizes.
        settled: whether gamma has its larger value.
    """

    mu: Scalar
    count: Scalar
    mean_error: Scalar
    log_average: Scalar
    settled: Flag


def restart(step_size: Scalar) -> DualAveraging:
    """Start a new recursion at an initial step size."""
    zero, log_step = jnp.zeros_like(step_size), jnp.log(step_size)
    return DualAveraging(
        mu=log_step + math.log(10.0),
        count=zero,
        mean_error=zero,
        log_average=log_step,
        settled=jnp.zeros((), bool),
    )


def update(
    state: DualAveraging, acceptance: Scalar, target: Scalar | float, *, settling: Flag | bool = False
) -> tuple[DualAveraging, Scalar]:
    """Update once; returns the new state and the next step size. The first update with `settling` restarts."""
    restarts, settled = settling & ~state.settled, settling | state.settled
    mu = jnp.where(restarts, state.log_average, state.mu)
    count = jnp.where(restarts, 0, state.count) + 1
    weight = 1 / (count + T0)
    mean_error = (1 - weight) * jnp.where(restarts, 0, state.mean_error) + weight * (target - acceptance)
    log_step = mu - jnp.sqrt(count) / jnp.where(settled, SETTLED_GAMMA, GAMMA) * mean_error
    log_step = jnp.clip(log_step, -LARGEST_LOG, LARGEST_LOG)
    share = count**-KAPPA
    log_average = share * log_step + (1 - share) * state.log_average
    new = DualAveraging(mu=mu, count=count, mean_error=mean_error, log_average=log_average, settled=settled)
    return new, jnp.exp(log_step)


def averaged(state: DualAveraging) -> Scalar:
    """The averaged step size, used for sampling."""
    return jnp.exp(state.log_average)
