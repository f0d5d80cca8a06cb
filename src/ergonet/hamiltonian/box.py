"""Where positions may be: everywhere, or in a box, from whose walls a drift is reflected.

In free space, a drift of time t is q <- q + t L r. In a box, it is the path of a billiard ball: at a wall with normal n
the velocity v = L r is reflected in the metric, v <- v - 2 (n'v / n'M^-1 n) M^-1 n, which preserves the kinetic energy
|r|^2 / 2. The map preserves volumes, and with r negated it returns to its start, so trajectories need no other
correction (Neal2011, section 5.1).

If M is diagonal, the coordinates move independently, and a wall negates the momentum of its own coordinate. Any number
of bounces between two walls is then one fold by a triangle wave of period 2 (upper - lower). Under correlated masses,
negating one momentum would change the kinetic energy; the path is followed from wall to wall instead.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._errors import SettingError
from ergonet._numbers import whole
from ergonet._types import AnyArray, Array, Bool, Count, Flag, Float, Position, Scalar
from ergonet.hamiltonian.metric import AbstractMetric

MOST_BOUNCES = 1000  # of one drift with a dense metric


class AbstractSpace(eqx.Module):
    """The positions that a trajectory may visit."""

    @abc.abstractmethod
    def drift(
        self, metric: AbstractMetric, time: Scalar, position: Position, momentum: Position
    ) -> tuple[Position, Position]:
        """Position and standardized momentum after a free motion of signed `time`, without forces."""


class FreeSpace(AbstractSpace):
    """All positions."""

    def drift(
        self, metric: AbstractMetric, time: Scalar, position: Position, momentum: Position
    ) -> tuple[Position, Position]:
        return position + time * metric.to_position(momentum), momentum


class Box(AbstractSpace):
    """The positions q with lower <= q < upper in every coordinate.

    The walls are data: compiled programs take them as arguments, so all boxes of a dimension share one program.

    Attributes:
        lower: lower walls, `[dim]`, or the one of all coordinates; -inf: no wall.
        upper: upper walls, likewise, above `lower`; inf: no wall.
    """

    lower: AnyArray | float
    upper: AnyArray | float

    def __init__(self, lower: Any, upper: Any):
        """Check and keep the walls.

        Args:
            lower: lower walls, `[dim]`; a number is the wall of all coordinates; -inf: no wall.
            upper: upper walls, likewise; inf: no wall.

        Raises:
            SettingError: the walls are no numbers, have different shapes, or a lower wall is not below the upper one.
        """
        low, high = _walls("lower", lower), _walls("upper", upper)
        if low.ndim and high.ndim and low.shape != high.shape:
            raise SettingError(
                f"`Box(lower=..., upper=...)` must have one wall per coordinate, got {low.size} and {high.size} walls."
            )
        low, high = (np.array(one)[()] for one in np.broadcast_arrays(low, high))
        wrong = np.flatnonzero(~(low < high))
        if wrong.size:
            first = int(wrong[0])
            where = f" in coordinate {first}" if low.ndim else ""
            raise SettingError(
                f"`lower` must be below `upper`, got lower {low.ravel()[first]:g} and upper {high.ravel()[first]:g}"
                f"{where}. Swap them, or use -inf and inf for no wall."
            )
        self.lower, self.upper = low, high

    @property
    def dim(self) -> int:
        """Number of coordinates with walls of their own; 1 if all share one pair."""
        return int(np.size(self.lower))

    def contains(self, positions: Any) -> Bool[AnyArray, "..."]:
        """Whether positions `[..., dim]` are inside; walls are rounded to the precision of the positions.

        Nothing is compiled for arrays of NumPy, whose number of positions may be another each time.
        """
        at = positions if isinstance(positions, jax.Array) else np.asarray(positions)
        inside = self._is_inside(at if jnp.issubdtype(at.dtype, jnp.floating) else at.astype(float)).all(axis=-1)
        return inside if isinstance(inside, jax.Array) else np.asarray(inside)

    def check(self, dim: int, positions: np.ndarray | None = None) -> None:
        """Check that the box fits a target, and that starts are inside.

        Args:
            dim: number of coordinates of the target.
            positions: starts, `[chain, dim]`; None: not known yet.

        Raises:
            SettingError: the number of walls is not `dim`, two walls are one number in the precision of the positions,
                or a start is outside; names the coordinate and the values.
        """
        if np.ndim(self.lower) and self.dim != dim:
            raise SettingError(
                f"A box with walls for {self.dim} coordinates does not fit a target of {dim}. Give one wall per "
                "coordinate, or a number for all."
            )
        dtype = jax.dtypes.canonicalize_dtype(float) if positions is None else positions.dtype
        lower, upper = (np.broadcast_to(np.asarray(one, dtype), dim) for one in (self.lower, self.upper))
        flat = np.flatnonzero(~(lower < upper))
        if flat.size:
            at = int(flat[0])
            raise SettingError(
                f"The walls of coordinate {at} are both {lower[at]:.9g} in {dtype}. Give a wider box, or sample in "
                "double precision."
            )
        if positions is None:
            return
        outside = np.argwhere(~((lower <= positions) & (positions < upper)))
        if outside.size:
            chain, at = (int(one) for one in outside[0])
            raise SettingError(
                f"`init` of chain {chain} is outside of the box: coordinate {at} is {positions[chain, at]:.9g}, and "
                f"its walls are {lower[at]:.9g} and {upper[at]:.9g}. Give a start inside, or leave `init` out."
            )

    def folded(self, position: Position) -> Position:
        """The position itself if it is inside, otherwise its image in the mirrors that the walls are."""
        at = jnp.asarray(position)
        return jnp.where(self._is_inside(at), at, self._fold(at, jnp.zeros_like(at))[0])

    def nearest(self, position: Float[Array, "..."]) -> Float[Array, "..."]:
        """The position inside that is nearest; infinite and undefined ones stay where there is no wall."""
        lower, upper = self._walls(position)
        last = jnp.where(jnp.isfinite(upper), jnp.nextafter(upper, lower), upper)
        return jnp.clip(position, lower, last)

    def drift(
        self, metric: AbstractMetric, time: Scalar, position: Position, momentum: Position
    ) -> tuple[Position, Position]:
        if metric.is_diagonal:
            position, turned = self._fold(position, time * metric.to_position(momentum))
            return position, jnp.where(turned, -momentum, momentum)
        return self._follow(metric, time, position, momentum)

    def _is_inside(self, position: AnyArray) -> Bool[AnyArray, "..."]:
        lower, upper = self._walls(position)
        return (lower <= position) & (position < upper)

    def _walls(self, position: AnyArray) -> tuple[Any, Any]:
        """The walls in the dtype of the position, as arrays of its kind."""
        as_array: Any = np.asarray if isinstance(position, np.ndarray) else jnp.asarray
        return as_array(self.lower, position.dtype), as_array(self.upper, position.dtype)

    def _fold(self, position: Position, shift: Position) -> tuple[Position, Bool[Array, "dim"]]:
        """The position after a shift of each coordinate, and whether its direction is reversed."""
        lower, upper = self._walls(position)
        has_lower, has_upper = jnp.isfinite(lower), jnp.isfinite(upper)
        origin = jnp.where(has_lower, lower, jnp.where(has_upper, upper, 0.0))
        moved = (position - origin) + shift  # rounded in the units of the box, not of its place
        width = jnp.where(has_lower & has_upper, upper - lower, 1.0)
        phase = jnp.mod(moved, 2 * width)
        between = width - jnp.abs(phase - width), phase > width
        above = jnp.abs(moved), moved < 0
        below = -jnp.abs(moved), moved > 0
        free = moved, jnp.zeros_like(has_lower)
        offset, turned = (
            jnp.where(has_lower, jnp.where(has_upper, two, low), jnp.where(has_upper, high, none))
            for two, low, high, none in zip(between, above, below, free, strict=True)
        )
        return self.nearest(origin + offset), turned

    def _follow(
        self, metric: AbstractMetric, time: Scalar, position: Position, momentum: Position
    ) -> tuple[Position, Position]:
        """Follow the path from wall to wall; not a number, which is rejected, beyond `MOST_BOUNCES`."""
        (lower, upper), sign = self._walls(position), jnp.sign(time)

        def until_wall(ball: _Ball) -> Array:
            """The time until each coordinate is at a wall."""
            wall = jnp.where(ball.velocity > 0, upper, lower)
            moves = (ball.velocity != 0) & jnp.isfinite(wall)
            wait = (wall - ball.position) / jnp.where(moves, ball.velocity, 1.0)
            return jnp.where(moves, jnp.maximum(wait, 0.0), jnp.inf)

        def bounce(ball: _Ball) -> _Ball:
            waits = until_wall(ball)
            index = jnp.argmin(waits)
            speed, here = ball.velocity[index], jnp.arange(waits.size) == index
            row = metric.to_momentum(here.astype(position.dtype))  # of L: the wall's normal in standardized coordinates
            momentum = ball.momentum - (2 * sign * speed / jnp.sum(row * row)) * row
            wall = jnp.broadcast_to(jnp.where(speed > 0, upper, lower), waits.shape)
            return _Ball(
                position=jnp.where(here, wall, ball.position + waits[index] * ball.velocity),
                momentum=momentum,
                velocity=jnp.where(here, -speed, sign * metric.to_position(momentum)),
                left=ball.left - waits[index],
                bounces=ball.bounces + 1,
            )

        def hits(ball: _Ball) -> Flag:
            return (jnp.min(until_wall(ball)) < ball.left) & (ball.bounces < MOST_BOUNCES)

        velocity = sign * metric.to_position(momentum)
        ball = lax.while_loop(hits, bounce, _Ball(position, momentum, velocity, jnp.abs(time), whole(0)))
        end = self.nearest(ball.position + ball.left * ball.velocity)
        return jnp.where(ball.bounces < MOST_BOUNCES, end, jnp.nan), ball.momentum


class _Ball(eqx.Module):
    """A drift between two bounces."""

    position: Position
    momentum: Position
    velocity: Position  # in the direction of the signed time
    left: Scalar
    bounces: Count


def _walls(name: str, value: Any) -> np.ndarray:
    """Walls as a double-precision array of at most one dimension."""
    try:
        walls = np.asarray(value, np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(f"`{name}` must be a number or an array of numbers, got {value!r}.") from error
    if walls.ndim > 1 or np.any(np.isnan(walls)):
        raise SettingError(
            f"`{name}` must be a number or an array `[dim]` without NaN, got {value!r}. Flatten the array, and use "
            "-inf or inf for no wall."
        )
    return walls
