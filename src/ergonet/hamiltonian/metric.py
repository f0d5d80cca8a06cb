"""Metrics: identity, diagonal and dense inverse mass matrices, and how each is learned.

A metric is represented by a factor L of its inverse mass matrix, M^-1 = L L^T. Trajectories carry standardized momenta
(`phase.py`), so a leapfrog step needs only products with the factor, L^T g for each kick and L r for the drift; the
generalized no-U-turn criterion and the kinetic energy need no product.

During the warm-up, the moments of what a metric observes in each state are accumulated, and the metric of the same kind
is made from them.
"""

import abc
import itertools
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from ergonet._errors import SettingError
from ergonet._types import Array, Float, Position, Scalar

SHRINKAGE = 1e-3
PANEL_ROWS, LARGEST_PANELS = 256, 8
NO_VARIATION = 1e-4  # a gradient whose sd is a smaller fraction of its mean is constant up to rounding


class AbstractMetric(eqx.Module):
    """Inverse mass matrix M^-1 = L L^T of the kinetic energy p'M^-1 p / 2.

    Attributes:
        keeps_force: whether recomputing the force L^T g costs more than carrying it from one step to the next.
        is_diagonal: whether M is diagonal, so that the coordinates drift independently.
    """

    keeps_force: ClassVar[bool] = False
    is_diagonal: ClassVar[bool] = False

    @abc.abstractmethod
    def to_position(self, momentum: Position) -> Position:
        """L r: the velocity M^-1 p of a standardized momentum r."""

    @abc.abstractmethod
    def to_momentum(self, gradient: Position) -> Position:
        """L^T g: the force that the potential gradient g exerts on the standardized momentum."""

    @abc.abstractmethod
    def textbook_momentum(self, momentum: Position) -> Position:
        """The textbook momentum p = L^-T r, which is N(0, M)."""

    @abc.abstractmethod
    def observed(self, position: Position, gradient: Position) -> Float[Array, "observed"]:
        """The part of a state (position and potential gradient) that this metric learns from."""

    @abc.abstractmethod
    def blank_moments(self, position: Position) -> Array:
        """Zeros in the shape of the second moments that this metric needs: `[observed(, observed)]` or `[0]`."""

    @abc.abstractmethod
    def learned(self, count: Scalar, mean: Float[Array, "observed"], squares: Array) -> "AbstractMetric":
        """Make the metric of the same kind from the moments of the observations.

        Args:
            count: number of observations, above 1.
            mean: mean of the observations.
            squares: sums of squared deviations (or of products of deviations) in the shape of `blank_moments`.
        """

    @abc.abstractmethod
    def with_covariance(self, covariance: Array) -> "AbstractMetric":
        """The metric of the same kind whose inverse mass matrix is `covariance`."""

    @abc.abstractmethod
    def leading(self, count: int) -> "AbstractMetric":
        """The metric of the first `count` coordinates; its inverse mass matrix is the leading submatrix."""

    @abc.abstractmethod
    def inverse_mass_matrix(self, position: Position) -> Array:
        """M^-1, as `[dim]` if it is diagonal and `[dim, dim]` otherwise."""


class IdentityMetric(AbstractMetric):
    """M = I; nothing is learned."""

    is_diagonal: ClassVar[bool] = True

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

    is_diagonal: ClassVar[bool] = True
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
    """A diagonal M^-1 with the variances of the positions."""

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

    This choice minimizes the Fisher divergence between the density and a normal distribution with that diagonal
    covariance. For independent normals it is exact from the second draw on, because the gradient is the position
    divided by the variance; for correlated normals it is the geometric mean of Sigma_ii and 1 / (Sigma^-1)_ii. A
    coordinate whose gradient does not vary gets its variance, as in `DiagonalMetric`. Source: Seyboldt2026 (nutpie).
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
    """M^-1 = L L^T with a lower triangular factor L, stored without most of its upper half.

    Products with L are limited by memory bandwidth, so L is stored as panels of whole rows, each cut off at its last
    diagonal element. Eight panels hold little more than half of the square matrix.
    """

    keeps_force: ClassVar[bool] = True
    panels: tuple[Float[Array, "rows columns"], ...]

    def __init__(self, factor: Float[Array, "dim dim"]):
        """Make the metric with this factor L, lower triangular with a positive diagonal."""
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
        for panel in reversed(self.panels):  # back substitution in L^T p = r
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
    """First rows of the panels of a triangular matrix, and its end: a panel per 256 rows (rounded up), at most 8."""
    count = min(LARGEST_PANELS, -(-dim // PANEL_ROWS))
    return [dim * index // count for index in range(count + 1)]


def shrunk_covariance(count: Scalar, squares: Array) -> Array:
    """Shrink the sample covariance S toward 1e-3 I as Stan does: n / (n + 5) S + 1e-3 * 5 / (n + 5) I.

    Args:
        count: number of observations n.
        squares: sums of squared deviations `[dim]`, or of their products `[dim, dim]`.
    """
    covariance = squares / jnp.maximum(count - 1, 1)
    floor = SHRINKAGE * 5 / (count + 5)
    if squares.ndim == 2:
        return count / (count + 5) * covariance + floor * jnp.eye(covariance.shape[0], dtype=covariance.dtype)
    return count / (count + 5) * covariance + floor


def correlation_shrinkage(count: Scalar, covariance: Float[Array, "dim dim"]) -> Scalar:
    """The fraction by which a dense metric shrinks every correlation: 5 / (n + 5) / (1 + (n / dim)^4) + rounding.

    Stan's regularization is absolute, in the units of the position. With fewer draws than dimensions and variances
    above 1, it can leave a matrix without a Cholesky factor in float32, or with directions that are far too narrow.
    Here, correlations are shrunk by the weight that Stan gives its prior guess at n draws, which becomes negligible for
    more than twice as many draws as dimensions; variances are as in Stan. The second term covers the rounding error of
    sums of n products.
    """
    dim = covariance.shape[0]
    rounding = jnp.finfo(covariance.dtype).eps * jnp.sqrt(dim * count)
    return 5 / (count + 5) / (1 + (count / dim) ** 4) + rounding


def first_metric(choice: str | AbstractMetric, position: Position) -> AbstractMetric:
    """The metric at the start of a chain: a given one, or the identity in the form that the named metric learns.

    Raises:
        SettingError: a given metric is of other dimensions than the position.
    """
    if isinstance(choice, AbstractMetric):
        metric = jax.tree.map(lambda leaf: jnp.asarray(leaf, position.dtype), choice)
        dim = metric.inverse_mass_matrix(position).shape[0]
        if dim != position.size:
            raise SettingError(f"`metric` is of dimension {dim}, but positions are of dimension {position.size}.")
        return metric
    if choice == "identity":
        return IdentityMetric()
    if choice == "diagonal":
        return DiagonalMetric(scale=jnp.ones_like(position))
    if choice == "diagonal-gradient":
        return GradientDiagonalMetric(scale=jnp.ones_like(position))
    return DenseMetric(factor=jnp.eye(position.size, dtype=position.dtype))


def require_usable(owner: str, metric: AbstractMetric) -> None:
    """Check that the factor of a given metric is finite and its diagonal positive.

    Values that are traced and metrics of other kinds are not checked.

    Raises:
        SettingError: it is not; names the first coordinate.
    """
    if not isinstance(metric, AbstractDiagonalMetric | DenseMetric):
        return
    factor = metric.scale if isinstance(metric, AbstractDiagonalMetric) else metric.factor
    if isinstance(factor, Tracer):
        return
    rows = np.atleast_1d(np.asarray(factor))
    diagonal = rows if rows.ndim == 1 else np.diagonal(rows)
    rows = rows.reshape(len(diagonal), -1)
    is_usable = np.isfinite(rows).all(axis=1) & (diagonal > 0)
    if not is_usable.all():
        first = int(np.argmin(is_usable))
        value = next((one for one in rows[first] if not np.isfinite(one)), diagonal[first])
        raise SettingError(
            f"`{owner}(metric=...)` must be finite, with scales above 0, but coordinate {first} (counted from 0) of "
            f"the `{type(metric).__name__}` has {value:g}. Give the standard deviation of each coordinate, or "
            f"the Cholesky factor of a covariance that is positive definite."
        )
