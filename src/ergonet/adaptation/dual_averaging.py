"""Dual averaging of the log step size (HoffmanGelman2014, section 3.2; Lau2018, Algorithm 8).

With g_t = target - acceptance_t: log e_{t+1} = mu - sqrt(t) / gamma * mean_t(g), where the mean downweights its first
t0 iterations, and the final step size is the average of log e_t with weights t^-kappa. The warm-up runs with e_t; the
average is used only afterwards.

With the usual gamma of 0.05, one transition moves log e_t by 20 / sqrt(t) times its error. This finds a step size
quickly, but e_t overshoots in both directions for about a hundred iterations. Acceptance is concave in log e, so the
average of such iterates is accepted more often than the iterates were: 0.9 for a target of 0.8 after 50 transitions.
Therefore the recursion can *settle*: from the step size found so far, it goes on as
log e_{t+1} = log e_t - (target - acceptance_t) / (s (t + t0)) with s = min(target, 1 - target), and the last e is the
result (RobbinsMonro1951).

- Steps that follow the curvature from place to place would average to one that is unstable where the posterior is
  narrow. The gain is therefore that of an estimate from all transitions: 1 - acceptance grows like a power of e from 1
  to 2, so that its derivative by log e is 1 to 2 times 1 - target; at the low target of a random walk, 0.234, it is
  twice the target (RobertsGelmanGilks1997).
- A mean acceptance of 0.8 may also be one of 0.97 in most places and of 0 in others, where the chain freezes. After a
  divergence at a step e, e was therefore above the stability limit 2 / w there, w^2 being the largest curvature, and
  the step size may not exceed r e any more. r is the fraction of the limit at which a normal distribution with that
  curvature has the target acceptance: 0.79 for 0.8, 0.62 for 0.9.

r: long trajectories of N(0, 1 / w^2) end at a uniform phase of the ellipse of the modified Hamiltonian, for which
1 - acceptance = 2 (r / pi)^2 + O(r^4). `stable_fraction` adds a term that fits the exact values to 2 %.

If every trajectory is rejected, or none is, log e_t diverges: it is clipped to [-40, 40], so that e_t stays finite.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Flag, Scalar

GAMMA = 0.05
T0 = 10.0
KAPPA = 0.75
LARGEST_LOG = 40.0


class DualAveraging(eqx.Module):
    """State of the recursion.

    Attributes:
        mu: the point to which the iterates are shrunk: log(10 e0).
        count: number of updates so far.
        mean_error: weighted mean of target - acceptance.
        log_average: weighted mean of the log step sizes; while the recursion settles, the latest one.
        log_limit: largest log step size since the recursion began to settle.
        settled: whether it has begun to settle.
    """

    mu: Scalar
    count: Scalar
    mean_error: Scalar
    log_average: Scalar
    log_limit: Scalar
    settled: Flag


def restart(step_size: Scalar) -> DualAveraging:
    """Start a new recursion at an initial step size."""
    return _start(jnp.log(step_size))


def _start(log_step: Scalar) -> DualAveraging:
    zero = jnp.zeros_like(log_step)
    return DualAveraging(
        mu=log_step + math.log(10.0),
        count=zero,
        mean_error=zero,
        log_average=log_step,
        log_limit=jnp.full_like(log_step, LARGEST_LOG),
        settled=jnp.zeros((), bool),
    )


def update(
    state: DualAveraging,
    acceptance: Scalar,
    target: Scalar | float,
    *,
    settling: Flag | bool = False,
    diverging: Flag | bool = False,
) -> tuple[DualAveraging, Scalar]:
    """Update once; returns the new state and the next step size.

    Args:
        state: the state before the transition.
        acceptance: the acceptance of the transition, in [0, 1].
        target: the target acceptance, in (0, 1).
        settling: whether the recursion settles; the step size of its first such transition is the average. When this
            changes, the recursion starts anew from there.
        diverging: whether the transition diverged, which matters only while it settles.
    """
    settled = jnp.asarray(settling)
    anew = settled != state.settled
    state = jax.tree.map(lambda new, old: jnp.where(anew, new, old), _start(state.log_average), state)
    count = state.count + 1
    weight, error = 1 / (count + T0), target - acceptance
    mean_error = (1 - weight) * state.mean_error + weight * error
    found = _clipped(state.mu - jnp.sqrt(count) / GAMMA * mean_error)
    share = count**-KAPPA
    average = share * found + (1 - share) * state.log_average
    highest = state.log_average + jnp.log(stable_fraction(target))
    log_limit = jnp.where(settled & diverging, jnp.minimum(state.log_limit, highest), state.log_limit)
    slope = jnp.minimum(target, 1 - target)
    next_settled = jnp.minimum(_clipped(state.log_average - weight * error / slope), log_limit)
    new = DualAveraging(
        mu=state.mu,
        count=count,
        mean_error=mean_error,
        log_average=jnp.where(settled, next_settled, average),
        log_limit=log_limit,
        settled=settled,
    )
    return new, jnp.exp(jnp.where(settled, next_settled, found))


def stable_fraction(target: Scalar | float) -> Scalar:
    """The fraction r of the stability limit at which one oscillator has the target acceptance; see above."""
    leading = math.pi**2 / 2 * (1 - jnp.asarray(target))
    return jnp.minimum(1.0, jnp.sqrt(leading / (1 + 0.57 * leading)))


def _clipped(log_step: Scalar) -> Scalar:
    return jnp.clip(log_step, -LARGEST_LOG, LARGEST_LOG)


def averaged(state: DualAveraging) -> Scalar:
    """The averaged or settled step size, used for sampling."""
    return jnp.exp(state.log_average)
