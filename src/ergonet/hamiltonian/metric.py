"""Metrics: identity, diagonal and dense inverse mass matrices.

Every metric is a factor L of its inverse mass matrix M^-1 = L L^T. Trajectories carry standardised
momenta (`phase.py`), so a leapfrog step needs just two products, L^T gradient and L momentum, and the
no-U-turn criteria and the kinetic energy need none.
"""

import abc

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Float, Position


class AbstractMetric(eqx.Module):
    """Inverse mass matrix M^-1 = L L^T of the kinetic energy p'M^-1 p / 2."""

    @abc.abstractmethod
    def to_position(self, momentum: Position) -> Position:
        """L w: the velocity (M^-1 p) of a standardised momentum w."""

    @abc.abstractmethod
    def to_momentum(self, gradient: Position) -> Position:
        """L^T g: the force of a potential gradient on the standardised momentum."""

    @abc.abstractmethod
    def textbook_momentum(self, momentum: Position) -> Position:
        """P = L^-T w, the momentum with p ~ N(0, M)."""

    @abc.abstractmethod
    def blank_moments(self, position: Position) -> Array:
        """Zeros in the shape of the second moments that this metric learns from."""

    @abc.abstractmethod
    def with_covariance(self, covariance: Array) -> "AbstractMetric":
        """The metric of the same kind whose inverse mass matrix is `covariance`."""

    @abc.abstractmethod
    def inverse_mass_matrix(self, position: Position) -> Array:
        """M^-1, as `[dim]` where it is diagonal, else `[dim, dim]`."""


class IdentityMetric(AbstractMetric):
    """M = I. Learns nothing."""

    def to_position(self, momentum: Position) -> Position:
        return momentum

    def to_momentum(self, gradient: Position) -> Position:
        return gradient

    def textbook_momentum(self, momentum: Position) -> Position:
        return momentum

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros((0,), position.dtype)

    def with_covariance(self, covariance: Array) -> "IdentityMetric":
        return self

    def inverse_mass_matrix(self, position: Position) -> Array:
        return jnp.ones_like(position)


class DiagonalMetric(AbstractMetric):
    """M^-1 = diag(scale^2): one scale per coordinate, in the units of the position."""

    scale: Float[Array, "dim"]

    def to_position(self, momentum: Position) -> Position:
        return self.scale * momentum

    def to_momentum(self, gradient: Position) -> Position:
        return self.scale * gradient

    def textbook_momentum(self, momentum: Position) -> Position:
        return momentum / self.scale

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros_like(position)

    def with_covariance(self, covariance: Array) -> "DiagonalMetric":
        return DiagonalMetric(scale=jnp.sqrt(covariance))

    def inverse_mass_matrix(self, position: Position) -> Array:
        return self.scale**2


class DenseMetric(AbstractMetric):
    """M^-1 = L L^T with a lower triangular factor L."""

    factor: Float[Array, "dim dim"]

    def to_position(self, momentum: Position) -> Position:
        return self.factor @ momentum

    def to_momentum(self, gradient: Position) -> Position:
        return gradient @ self.factor

    def textbook_momentum(self, momentum: Position) -> Position:
        return lax.linalg.triangular_solve(self.factor, momentum, left_side=True, lower=True, transpose_a=True)

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros((position.size, position.size), position.dtype)

    def with_covariance(self, covariance: Array) -> "DenseMetric":
        return DenseMetric(factor=jnp.linalg.cholesky(covariance))

    def inverse_mass_matrix(self, position: Position) -> Array:
        return self.factor @ self.factor.T


_METRICS = ("identity", "diagonal", "dense")


def metric_names() -> tuple[str, ...]:
    """The names that kernels, settings files and the command line take."""
    return _METRICS


def first_metric(name: str, position: Position) -> AbstractMetric:
    """The metric that a warm-up starts from: the identity, in the shape that `name` will learn."""
    if name == "identity":
        return IdentityMetric()
    if name == "diagonal":
        return DiagonalMetric(scale=jnp.ones_like(position))
    return DenseMetric(factor=jnp.eye(position.size, dtype=position.dtype))
