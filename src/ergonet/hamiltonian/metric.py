"""Metrics: identity, diagonal and dense inverse mass matrices, and what each learns them from.

Every metric is a factor L of its inverse mass matrix M^-1 = L L^T. Trajectories carry standardised
momenta (`phase.py`), so a leapfrog step needs only products with the factor, L^T gradient for each kick and
L momentum for the drift, and the no-U-turn criteria and the kinetic energy need none.

A warm-up takes the moments of what a metric says it observes of each state, and asks it for the metric that they make.
"""

import abc
import itertools
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax import lax

from ergonet._types import Array, Float, Position, Scalar

SHRINKAGE = 1e-3
PANEL_ROWS, LARGEST_PANELS = 256, 8
NO_VARIATION = 1e-4  # a gradient whose sd is a smaller share of its mean is constant but for rounding


class AbstractMetric(eqx.Module):
    """Inverse mass matrix M^-1 = L L^T of the kinetic energy p'M^-1 p / 2.

    Attributes:
        keeps_force: whether L^T g costs more to make anew than to carry from one step to the next.
    """

    keeps_force: ClassVar[bool] = False

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
    def observed(self, position: Position, gradient: Position) -> Float[Array, "observed"]:
        """What of a state (its position, its potential's gradient) this metric learns from."""

    @abc.abstractmethod
    def blank_moments(self, position: Position) -> Array:
        """Zeros in the shape of the second moments that this metric learns from: `[observed(, observed)]` or `[0]`."""

    @abc.abstractmethod
    def learned(self, count: Scalar, mean: Float[Array, "observed"], squares: Array) -> "AbstractMetric":
        """The metric of the same kind from the moments of what was observed.

        Args:
            count: observations, above 1.
            mean: their mean.
            squares: sums of squared deviations (or of products of deviations) in the shape of `blank_moments`.
        """

    @abc.abstractmethod
    def with_covariance(self, covariance: Array) -> "AbstractMetric":
        """The metric of the same kind whose inverse mass matrix is `covariance`."""

    @abc.abstractmethod
    def leading(self, count: int) -> "AbstractMetric":
        """The metric of the first `count` coordinates, whose inverse mass matrix is the leading block of this one."""

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

    def observed(self, position: Position, gradient: Position) -> Float[Array, "observed"]:
        return position

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros((0,), position.dtype)

    def learned(self, count: Scalar, mean: Float[Array, "observed"], squares: Array) -> "IdentityMetric":
        return self

    def with_covariance(self, covariance: Array) -> "IdentityMetric":
        return self

    def leading(self, count: int) -> "IdentityMetric":
        return self

    def inverse_mass_matrix(self, position: Position) -> Array:
        return jnp.ones_like(position)


class AbstractDiagonalMetric(AbstractMetric):
    """M^-1 = diag(scale^2): one scale per coordinate, in the units of the position."""

    scale: eqx.AbstractVar[Float[Array, "dim"]]

    def to_position(self, momentum: Position) -> Position:
        return self.scale * momentum

    def to_momentum(self, gradient: Position) -> Position:
        return self.scale * gradient

    def textbook_momentum(self, momentum: Position) -> Position:
        return momentum / self.scale

    def inverse_mass_matrix(self, position: Position) -> Array:
        return self.scale**2


class DiagonalMetric(AbstractDiagonalMetric):
    """A diagonal M^-1 learned from positions: their variances."""

    scale: Float[Array, "dim"]

    def observed(self, position: Position, gradient: Position) -> Float[Array, "observed"]:
        return position

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros_like(position)

    def learned(self, count: Scalar, mean: Float[Array, "observed"], squares: Array) -> "DiagonalMetric":
        return self.with_covariance(shrunk_covariance(count, squares))

    def with_covariance(self, covariance: Array) -> "DiagonalMetric":
        return DiagonalMetric(scale=jnp.sqrt(covariance))

    def leading(self, count: int) -> "DiagonalMetric":
        return DiagonalMetric(scale=self.scale[:count])


class GradientDiagonalMetric(AbstractDiagonalMetric):
    """A diagonal M^-1 learned from positions and gradients: M^-1_ii = sqrt(Var q_i / Var g_i).

    This minimises the Fisher divergence between the density and a normal with that diagonal. On independent normals
    it is exact from the second draw on, because gradients are positions over variances; under correlation it lies
    between the variance and the inverse of the precision, Sigma_ii and 1 / (Sigma^-1)_ii, as their geometric mean. A
    coordinate whose gradient did not vary gets its variance, as in `DiagonalMetric`. Source: Seyboldt, Carlson and
    Carpenter 2024 (nutpie).
    """

    scale: Float[Array, "dim"]

    def observed(self, position: Position, gradient: Position) -> Float[Array, "observed"]:
        return jnp.concatenate([position, gradient])

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros((2 * position.size,), position.dtype)

    def learned(self, count: Scalar, mean: Float[Array, "observed"], squares: Array) -> "GradientDiagonalMetric":
        of_positions, of_gradients = jnp.split(squares, 2)
        mean_gradient = jnp.split(mean, 2)[1]
        varies = of_gradients > count * (NO_VARIATION * mean_gradient) ** 2
        ratio = of_positions / jnp.where(varies, of_gradients, 1.0)
        usable = varies & (ratio > 0) & jnp.isfinite(ratio)
        fisher = jnp.sqrt(jnp.where(usable, ratio, 1.0))
        return self.with_covariance(jnp.where(usable, fisher, shrunk_covariance(count, of_positions)))

    def with_covariance(self, covariance: Array) -> "GradientDiagonalMetric":
        return GradientDiagonalMetric(scale=jnp.sqrt(covariance))

    def leading(self, count: int) -> "GradientDiagonalMetric":
        return GradientDiagonalMetric(scale=self.scale[:count])


class DenseMetric(AbstractMetric):
    """M^-1 = L L^T with a lower triangular factor L, of which the upper half is not kept.

    A product with L waits for memory, so L is held as panels: some whole rows each, as far as their last diagonal
    element. Eight of them hold little more than half of the square.
    """

    keeps_force: ClassVar[bool] = True
    panels: tuple[Float[Array, "rows columns"], ...]

    def __init__(self, factor: Float[Array, "dim dim"]):
        """The metric with this L, lower triangular with a positive diagonal."""
        edges = _panel_edges(factor.shape[0])
        self.panels = tuple(factor[low:high, :high] for low, high in itertools.pairwise(edges))

    @property
    def factor(self) -> Float[Array, "dim dim"]:
        """L as a square."""
        dim = self.panels[-1].shape[1]
        return jnp.concatenate([jnp.pad(panel, ((0, 0), (0, dim - panel.shape[1]))) for panel in self.panels])

    def to_position(self, momentum: Position) -> Position:
        return jnp.concatenate([panel @ momentum[: panel.shape[1]] for panel in self.panels])

    def to_momentum(self, gradient: Position) -> Position:
        total = jnp.zeros_like(gradient)
        for panel in self.panels:
            rows, high = panel.shape
            total = total + jnp.pad(gradient[high - rows : high] @ panel, (0, gradient.size - high))
        return total

    def textbook_momentum(self, momentum: Position) -> Position:
        parts = []
        for panel in reversed(self.panels):  # back substitution in L^T p = w
            rows, high = panel.shape
            block, left = panel[:, high - rows :], panel[:, : high - rows]
            part = lax.linalg.triangular_solve(
                block, momentum[high - rows :], left_side=True, lower=True, transpose_a=True
            )
            momentum = momentum[: high - rows] - part @ left
            parts.append(part)
        return jnp.concatenate(parts[::-1])

    def observed(self, position: Position, gradient: Position) -> Float[Array, "observed"]:
        return position

    def blank_moments(self, position: Position) -> Array:
        return jnp.zeros((position.size, position.size), position.dtype)

    def learned(self, count: Scalar, mean: Float[Array, "observed"], squares: Array) -> "DenseMetric":
        covariance = shrunk_covariance(count, squares)
        is_variance = jnp.eye(covariance.shape[0], dtype=bool)
        kept = 1 - correlation_shrinkage(count, covariance)
        return self.with_covariance(jnp.where(is_variance, covariance, kept * covariance))

    def with_covariance(self, covariance: Array) -> "DenseMetric":
        return DenseMetric(factor=jnp.linalg.cholesky(covariance))

    def leading(self, count: int) -> "DenseMetric":
        return DenseMetric(factor=self.factor[:count, :count])

    def inverse_mass_matrix(self, position: Position) -> Array:
        factor = self.factor
        return factor @ factor.T


def _panel_edges(dim: int) -> list[int]:
    """Where the panels of a triangular matrix begin, and its end: one panel for each 256 rows begun, at most 8."""
    count = min(LARGEST_PANELS, -(-dim // PANEL_ROWS))
    return [dim * index // count for index in range(count + 1)]


def shrunk_covariance(count: Scalar, squares: Array) -> Array:
    """Sample covariance shrunk towards 1e-3 I, as Stan does: n / (n + 5) S + 1e-3 * 5 / (n + 5) I.

    Args:
        count: observations n.
        squares: sums of squared deviations `[dim]`, or of their products `[dim, dim]`.
    """
    covariance = squares / jnp.maximum(count - 1, 1)
    floor = SHRINKAGE * 5 / (count + 5)
    if squares.ndim == 2:
        return count / (count + 5) * covariance + floor * jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    return count / (count + 5) * covariance + floor


def correlation_shrinkage(count: Scalar, covariance: Float[Array, "dim dim"]) -> Scalar:
    """The share of every correlation that a dense metric leaves out: 5 / (n + 5) / (1 + (n / dim)^4) + rounding.

    Stan's floor is absolute, in the units of the position: of fewer draws than dimensions, spread wider than 1, it
    leaves a matrix without a Cholesky factor in single precision, or one with directions far too narrow.
    So correlations shrink with the weight that Stan gives its guess beside n draws, which hardly counts beyond twice
    as many draws as dimensions; variances stay Stan's. The other term is the rounding of sums of n products.
    """
    dim = covariance.shape[0]
    rounding = jnp.finfo(covariance.dtype).eps * jnp.sqrt(dim * count)
    return 5 / (count + 5) / (1 + (count / dim) ** 4) + rounding


_METRICS = ("identity", "diagonal", "diagonal-gradient", "dense")


def metric_names() -> tuple[str, ...]:
    """The names that kernels, settings files and the command line take."""
    return _METRICS


def first_metric(name: str, position: Position) -> AbstractMetric:
    """The metric that a warm-up starts from: the identity, in the shape that `name` will learn."""
    if name == "identity":
        return IdentityMetric()
    if name == "diagonal":
        return DiagonalMetric(scale=jnp.ones_like(position))
    if name == "diagonal-gradient":
        return GradientDiagonalMetric(scale=jnp.ones_like(position))
    return DenseMetric(factor=jnp.eye(position.size, dtype=position.dtype))
