"""Log densities in parts, so that a difference of two densities can be taken before float32 rounds their sums."""

import math

import equinox as eqx
import jax.numpy as jnp

from ergonet._types import Array, Float, Scalar

_LOG_TWO_PI = math.log(2 * math.pi)


class Density(eqx.Module):
    """log p of independent normal coordinates and of all other terms.

    Attributes:
        normal: deviations from the mean of coordinates with normal distributions; they contribute one inner product,
            which is cheaper than a sum of terms.
        terms: all other terms, by weight, group or hyperparameter.
        scales: standard deviations of the normal coordinates, and the number of neighbors that have each.
    """

    normal: Float[Array, "normal"]
    terms: Float[Array, "term"]
    scales: tuple[tuple[float, int], ...] = eqx.field(static=True)

    @staticmethod
    def of_normal(deviation: Array, scale: float = 1.0) -> "Density":
        """Density of coordinates with independent normal distributions of one standard deviation."""
        flat = deviation.reshape(-1)
        return Density(flat, flat[:0], ((scale, flat.size),))

    @staticmethod
    def of_terms(*terms: Array) -> "Density":
        """Density that is the sum of all these terms; at least one array."""
        flat = jnp.concatenate([one.reshape(-1) for one in terms])
        return Density(flat[:0], flat, ())

    @staticmethod
    def product(*densities: "Density") -> "Density":
        """Joint density of independent parts."""
        return Density(
            jnp.concatenate([one.normal for one in densities]),
            jnp.concatenate([one.terms for one in densities]),
            tuple(run for one in densities for run in one.scales),
        )

    @property
    def whole(self) -> Scalar:
        """The log density."""
        constant = -sum(count * (0.5 * _LOG_TWO_PI + math.log(scale)) for scale, count in self.scales)
        standard = self._standard(self.normal)
        return jnp.sum(self.terms) - 0.5 * jnp.dot(standard, standard) + constant

    def above(self, reference: "Density") -> Scalar:
        """The log density minus the log density at a reference point, with the difference taken part by part.

        For normal coordinates z it is (z0 - z).(z0 + z) / 2 = -(z - z0).(z0 + (z - z0) / 2).
        """
        change = self._standard(self.normal - reference.normal)
        half_way = self._standard(reference.normal) + 0.5 * change
        return jnp.sum(self.terms - reference.terms) - jnp.dot(change, half_way)

    def _standard(self, deviations: Array) -> Array:
        """Deviations in units of their standard deviations, in one product for all."""
        if all(scale == 1.0 for scale, _ in self.scales):
            return deviations
        return deviations * jnp.concatenate(
            [jnp.full(count, 1 / scale, deviations.dtype) for scale, count in self.scales]
        )
