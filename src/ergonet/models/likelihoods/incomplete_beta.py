"""The regularized incomplete beta function, by its continued fraction.

`jax.scipy.special.betainc` takes seconds to compile at each place where it is used, and loses accuracy in float32 if an
argument is large; here the factor before the fraction, which causes this, is given by the caller, who knows it better.
"""

import jax.numpy as jnp
from jax import lax

from ergonet._types import Array

MOST_TERMS = 300  # about as many as the square root of the larger argument are needed
_TINY = 1e-30


def incomplete_beta(a: Array, b: Array, x: Array, *, rest: Array, front: Array) -> Array:
    """I_x(a, b), elementwise, by Lentz's method (Olver2010, sections 3.10 and 8.17).

    Args:
        a: above 0.
        b: above 0.
        x: in [0, 1].
        rest: 1 - x, which the caller may know better.
        front: x^a (1 - x)^b / B(a, b).
    """
    is_low = x < (a + 1) / (a + b + 2)
    first, second = jnp.where(is_low, a, b), jnp.where(is_low, b, a)
    found = front / first * _fraction(first, second, jnp.where(is_low, x, rest))
    return jnp.clip(jnp.where(is_low, found, 1 - found), 0.0, 1.0)


def _fraction(a: Array, b: Array, x: Array) -> Array:
    precision = jnp.finfo(jnp.result_type(x)).eps

    def kept(value: Array) -> Array:
        return jnp.where(jnp.abs(value) < _TINY, _TINY, value)

    def term(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        m, c, d, value, _ = carry
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        c, d = kept(1 + even / c), 1 / kept(1 + even * d)
        value = value * c * d
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        c, d = kept(1 + odd / c), 1 / kept(1 + odd * d)
        return m + 1, c, d, value * c * d, jnp.abs(c * d - 1)

    def goes_on(carry: tuple[Array, Array, Array, Array, Array]) -> Array:
        return (carry[0] < MOST_TERMS) & jnp.any(carry[4] > 2 * precision)

    d = 1 / kept(1 - (a + b) * x / (a + 1))
    start = jnp.ones((), d.dtype), jnp.ones_like(d), d, d, jnp.ones_like(d)
    return lax.while_loop(goes_on, term, start)[3]
