"""Dual averaging of the log step size (Hoffman and Gelman 2014, section 3.2; Lau 2018, Algorithm 8).

With g_t = target - acceptance_t: log e_{t+1} = mu - sqrt(t) / gamma * mean_t(g), where the mean forgets its first t0
iterations, and the reported step is the average of log e_t with weights t^-kappa. The warm-up runs with e_t; the
average is used only after it.
"""

import math

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Scalar

GAMMA = 0.05
T0 = 10.0
KAPPA = 0.75


class DualAveraging(eqx.Module):
    """State of the recursion.

    Attributes:
        mu: log(10 e0), the point that the iterates are shrunk to.
        count: updates so far.
        mean_error: weighted mean of target - acceptance.
        log_average: weighted mean of the log step sizes.
    """

    mu: Scalar
    count: Scalar
    mean_error: Scalar
    log_average: Scalar


def restart(step_size: Scalar) -> DualAveraging:
    """A fresh recursion around a first step size."""
    zero = jnp.zeros_like(step_size)
    return DualAveraging(
        mu=jnp.log(step_size) + math.log(10.0), count=zero, mean_error=zero, log_average=jnp.log(step_size)
    )


def update(state: DualAveraging, acceptance: Scalar, target: Scalar | float) -> tuple[DualAveraging, Scalar]:
    """One update; returns the new state and the next step size."""
    count = state.count + 1
    weight = 1 / (count + T0)
    mean_error = (1 - weight) * state.mean_error + weight * (target - acceptance)
    log_step = state.mu - jnp.sqrt(count) / GAMMA * mean_error
    share = count**-KAPPA
    log_average = share * log_step + (1 - share) * state.log_average
    return DualAveraging(mu=state.mu, count=count, mean_error=mean_error, log_average=log_average), jnp.exp(log_step)


def averaged(state: DualAveraging) -> Scalar:
    """The step size to sample with."""
    return jnp.exp(state.log_average)
