"""Dual averaging of the log step size (Hoffman and Gelman 2014, section 3.2; Lau 2018, Algorithm 8).

With g_t = target - acceptance_t: log e_{t+1} = mu - sqrt(t) / gamma * mean_t(g), where the mean forgets its first t0
iterations, and the reported step is the average of log e_t with weights t^-kappa. The warm-up runs with e_t; the
average is used only after it.

With the usual gamma of 0.05 one transition moves log e_t by 20 / sqrt(t) times its error. That finds a step size
quickly, but for its first hundred iterations e_t overshoots from side to side; acceptance is concave in log e, so the
average of such iterates is accepted more often than they were: 0.9 for a target of 0.8 after 50 transitions. So a
recursion can *settle*: start over around the step size found so far, with gamma = 0.2 and mu = log e0.

Where every trajectory is rejected, or none, log e_t runs away: it is held within 40 of 0, so that e_t stays a number.
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
        mu: the point that the iterates are shrunk to: log(10 e0), or log e0 once settled.
        count: updates so far.
        mean_error: weighted mean of target - acceptance.
        log_average: weighted mean of the log step sizes.
        settled: whether gamma is the larger one.
    """

    mu: Scalar
    count: Scalar
    mean_error: Scalar
    log_average: Scalar
    settled: Flag


def restart(step_size: Scalar) -> DualAveraging:
    """A fresh recursion around a first step size."""
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
    """One update; returns the new state and the next step size. The first one that is `settling` starts over."""
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
    """The step size to sample with."""
    return jnp.exp(state.log_average)
