"""Log densities in parts, so that a difference of two densities can be taken before float32 rounds their sums."""

import math

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Float, Scalar

_LOG_TWO_PI = math.log(2 * math.pi)


class Density(eqx.Module):
    """log p = constant - |normal|^2 / 2 + the sum of `terms`.

    Attributes:
        normal: coordinates that are N(0, 1); they contribute one inner product, which is cheaper than a sum of terms.
        terms: all other terms, by weight, group or hyperparameter.
        constant: normalizing constant of the normal coordinates.
    """

    normal: Float[Array, "normal"]
    terms: Float[Array, "term"]
    constant: float = eqx.field(static=True)

    @staticmethod
    def of_normal(standard: Array, log_scale: float = 0.0) -> "Density":
        """Density of coordinates that are e^log_scale times independent N(0, 1) variables."""
        flat = standard.reshape(-1)
        return Density(flat, flat[:0], -flat.size * (0.5 * _LOG_TWO_PI + log_scale))

    @staticmethod
    def of_terms(*terms: Array) -> "Density":
        """Density that is the sum of all these terms; at least one array."""
        flat = jnp.concatenate([one.reshape(-1) for one in terms])
        return Density(flat[:0], flat, 0.0)

    @staticmethod
    def product(*densities: "Density") -> "Density":
        """Joint density of independent parts."""
        return Density(
            jnp.concatenate([one.normal for one in densities]),
            jnp.concatenate([one.terms for one in densities]),
            sum(one.constant for one in densities),
        )

    @property
    def whole(self) -> Scalar:
        """The log density."""
        return jnp.sum(self.terms) - 0.5 * jnp.dot(self.normal, self.normal) + self.constant

    def above(self, reference: "Density") -> Scalar:
        """The log density minus the log density at a reference point, with the difference taken part by part.

        For normal coordinates z it is (z0 - z).(z0 + z) / 2 = -(z - z0).(z0 + (z - z0) / 2).
        """
        change = self.normal - reference.normal
        return jnp.sum(self.terms - reference.terms) - jnp.dot(change, reference.normal + 0.5 * change)
