"""Gamma priors of precisions, expressed for the sampled coordinate, the log precision.

tau ~ Gamma with mean omega and shape alpha / 2, hence rate alpha / (2 omega); the density of lambda = log tau includes
the Jacobian tau. Everything is computed from lambda, because tau itself could underflow. Sources: Choo2000, section 3.2
and equation 4.9; Lau2018, section 3.2, whose Gamma(a0, b0) has alpha = 2 a0 and omega = a0 / b0.
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from ergonet._checks import is_number
from ergonet._errors import SettingError, shown
from ergonet._types import Array, PRNGKey, Scalar


class GammaPrecision(eqx.Module):
    """Prior of a precision: tau ~ Gamma with mean width^-2 and shape alpha / 2.

    Source: Choo2000, section 3.2 (omega = width^-2).

    Attributes:
        width: standard deviation at the mean precision, above 0, in the units of the variable.
        alpha: twice the shape, above 0; smaller values give a vaguer prior.
    """

    width: float = eqx.field(static=True, default=0.3)
    alpha: float = eqx.field(static=True, default=1.0)

    def __check_init__(self):
        for name in ("width", "alpha"):
            require_positive("GammaPrecision", name, getattr(self, name))

    @property
    def log_mean(self) -> float:
        """Log omega."""
        return -2 * math.log(self.width)

    def log_prob(self, log_precision: Scalar) -> Scalar:
        """Log density of the log precision; finite for every finite value."""
        return log_precision_density(log_precision, self.log_mean, self.alpha)

    def sample(self, key: PRNGKey, dtype: DTypeLike) -> Scalar:
        """A log precision."""
        return sample_log_precision(key, jnp.asarray(self.log_mean, dtype), self.alpha)

    def conditional(self, key: PRNGKey, count: Array | int, squares: Scalar) -> Scalar:
        """Draw a log precision given `count` deviations N(0, 1 / tau) with this sum of squares (Choo2000, eq. 3.12)."""
        return gibbs_log_precision(key, self.log_mean, self.alpha, count, squares)


def log_precision_density(
    log_precision: Array, log_mean: Array | float, alpha: float, ratio: Array | None = None
) -> Array:
    """Log density of log tau, elementwise, where tau ~ Gamma(alpha / 2, rate alpha / 2 e^-log_mean).

    `ratio` is e^(log_precision - log_mean), if the caller has already computed it.
    """
    shape = alpha / 2
    constant = shape * math.log(shape) - math.lgamma(shape)
    ratio = jnp.exp(log_precision - log_mean) if ratio is None else ratio
    return shape * (log_precision - log_mean) - shape * ratio + constant


def sample_log_precision(key: PRNGKey, log_mean: Array, alpha: float) -> Array:
    """Draw log precisions from their prior, in the shape of `log_mean`."""
    shape = alpha / 2
    return jax.random.loggamma(key, shape, log_mean.shape, log_mean.dtype) - math.log(shape) + log_mean


def gibbs_log_precision(
    key: PRNGKey, log_mean: Array | float, alpha: float, count: Array | int, squares: Array
) -> Array:
    """Draw log precisions given deviations: tau | . ~ Gamma((alpha + n) / 2, rate alpha / (2 omega) + s / 2) by group.

    Args:
        key: PRNG key.
        log_mean: log omega, a number or an array in the shape of `squares`.
        alpha: twice the shape of the prior.
        count: number of deviations n in every group.
        squares: sum of squares s of the deviations of each group.
    """
    from_prior = math.log(alpha / 2) - jnp.asarray(log_mean, squares.dtype)  # in logarithms, to prevent overflow
    log_rate = jnp.logaddexp(from_prior, jnp.log(squares / 2))
    return jax.random.loggamma(key, alpha / 2 + count / 2, squares.shape, squares.dtype) - log_rate


LogDensity = Callable[[Array], Array]
SLICE_WIDTH = 1.0
WIDEST_SLICE = 200  # in initial widths; bounds the stepping-out whatever the children are
MOST_STEPS = 50


def slice_log_precision(
    key: PRNGKey, log_precision: Array, log_mean: Array, alpha: float, children: tuple[int, float, Array]
) -> Array:
    """Take a slice-sampling step, elementwise, on log precisions that are the prior means of other precisions.

    With k children tau_i ~ Gamma(alpha_c / 2, mean tau), the conditional distribution of tau is generalized inverse
    Gaussian, log p(lambda) = (alpha - k alpha_c) / 2 lambda - alpha / (2 omega) e^lambda - alpha_c / 2 sum tau_i
    e^-lambda, which is concave. Stepping out and shrinkage (Neal2003, Figures 3 and 5) leave it invariant.

    Args:
        key: PRNG key.
        log_precision: current values.
        log_mean: log omega, same shape.
        alpha: twice the shape of their prior.
        children: k, alpha_c, and log sum tau_i in the same shape.
    """
    count, alpha_child, log_sum = children

    def log_density(value: Array) -> Array:
        slope = (alpha - count * alpha_child) / 2
        above = alpha / 2 * jnp.exp(value - log_mean)
        return slope * value - above - alpha_child / 2 * jnp.exp(log_sum - value)

    key_level, key_place, key_limit, key_shrink = jax.random.split(key, 4)
    shape, dtype = log_precision.shape, log_precision.dtype
    level = log_density(log_precision) - jax.random.exponential(key_level, shape, dtype)
    first = log_precision - SLICE_WIDTH * jax.random.uniform(key_place, shape, dtype)
    downwards = jax.random.randint(key_limit, shape, 0, WIDEST_SLICE)
    low = _step_out(log_density, level, first, -SLICE_WIDTH, downwards)
    high = _step_out(log_density, level, first + SLICE_WIDTH, SLICE_WIDTH, WIDEST_SLICE - 1 - downwards)
    return _shrink(key_shrink, log_density, level, (low, log_precision, high))


def _step_out(log_density: LogDensity, level: Array, end: Array, step: float, most: Array) -> Array:
    """Move an end of the interval out of the slice, by at most `most` steps."""

    def goes_on(carry: tuple[Array, Array]) -> Array:
        end, left = carry
        return (log_density(end) > level) & (left > 0)

    def move(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        (end, left), moves = carry, goes_on(carry)
        return jnp.where(moves, end + step, end), left - moves

    return jax.lax.while_loop(lambda carry: jnp.any(goes_on(carry)), move, (end, most))[0]


def _shrink(key: PRNGKey, log_density: LogDensity, level: Array, interval: tuple[Array, Array, Array]) -> Array:
    low, start, high = interval

    def pending(carry: Any) -> Array:
        return jnp.any(~carry[3]) & (carry[4] < MOST_STEPS)

    def attempt(carry: Any) -> Any:
        low, high, value, found, step = carry
        uniform = jax.random.uniform(jax.random.fold_in(key, step), start.shape, start.dtype)
        proposal = low + uniform * (high - low)
        inside = log_density(proposal) > level
        value = jnp.where(inside & ~found, proposal, value)
        below = proposal < start
        low = jnp.where(~inside & below, proposal, low)
        high = jnp.where(~inside & ~below, proposal, high)
        return low, high, value, found | inside, step + 1

    nothing = jnp.zeros(start.shape, bool)
    return jax.lax.while_loop(pending, attempt, (low, high, start, nothing, jnp.zeros((), jnp.int32)))[2]


def require_positive(owner: str, name: str, value: float) -> float:
    """Check for a finite number above 0; raises a `SettingError` that names the argument."""
    if not is_number(value) or not 0 < value < math.inf:
        raise SettingError(f"`{owner}({name}=...)` must be a finite number above 0, got {shown(value)}.")
    return float(value)
