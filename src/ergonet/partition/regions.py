"""Partitions of the space into boxes: some coordinates are cut at some points.

s coordinates with a cut each make 2^s boxes, which share no position and leave none out. Source: Kim2018, section
3.3.2.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ergonet._checks import is_integer, is_number
from ergonet._errors import SettingError, shown
from ergonet._keys import derived_seed
from ergonet.hamiltonian.box import Box
from ergonet.target.contract import AbstractTarget

MOST_PARTS = 4096
CHOICE = 0x43757473  # purpose of the seed of random coordinates

Points = Float[np.ndarray, "point dim"]


@dataclass(frozen=True)
class Partition:
    """All combinations of intervals between cuts. Parts are numbered from 0; the last coordinate changes fastest.

    Attributes:
        dim: number of coordinates of a position.
        cuts: by coordinate, in ascending order: the points at which it is cut, ascending.
    """

    dim: int
    cuts: Mapping[int, tuple[float, ...]]

    def __len__(self) -> int:
        return math.prod(len(points) + 1 for points in self.cuts.values())

    @cached_property
    def boxes(self) -> tuple[Box, ...]:
        """The parts."""
        edges = [list(itertools.pairwise((-math.inf, *points, math.inf))) for points in self.cuts.values()]
        return tuple(self._box(walls) for walls in itertools.product(*edges))

    def _box(self, walls: Sequence[tuple[float, float]]) -> Box:
        lower, upper = np.full(self.dim, -math.inf), np.full(self.dim, math.inf)
        for coordinate, (low, high) in zip(self.cuts, walls, strict=True):
            lower[coordinate], upper[coordinate] = low, high
        return Box(lower, upper)

    @property
    def shares(self) -> Float[np.ndarray, "part"] | None:
        """The shares of the parts in the mass, if they are known; None: to be estimated by bridge sampling."""
        return np.ones(1) if len(self) == 1 else None

    def part_of(self, positions: Any) -> Int[np.ndarray, "..."]:
        """The number of the part of each position `[..., dim]`; cuts are rounded to the precision of the positions."""
        at = np.asarray(positions)
        at = at if np.issubdtype(at.dtype, np.floating) else at.astype(float)
        number = np.zeros(at.shape[:-1], int)
        for coordinate, points in self.cuts.items():
            interval = np.searchsorted(np.asarray(points, at.dtype), at[..., coordinate], side="right")
            number = number * (len(points) + 1) + interval
        return number

    def describe(self, number: int) -> str:
        """A part in words, such as `q[3] < 0, q[5] >= 1.5`."""
        lower, upper = (np.asarray(walls) for walls in (self.boxes[number].lower, self.boxes[number].upper))
        return ", ".join(_interval(f"q[{one}]", lower[one], upper[one]) for one in self.cuts) or "everywhere"

    def __str__(self) -> str:
        where = ", ".join(f"q[{one}] at {_listed(points)}" for one, points in self.cuts.items())
        return f"{len(self)} parts: {where}" if where else "1 part"


@dataclass(frozen=True)
class Mirrored(Partition):
    """Parts that symmetries of the density map onto each other, so that all have exactly the same mass.

    Attributes:
        flips: for each cut coordinate, the signs by which the symmetry multiplies the coordinates, `[cut, dim]`; it
            negates this cut coordinate and no other one. All cuts are at 0.
    """

    flips: Float[np.ndarray, "cut dim"]

    @property
    def shares(self) -> Float[np.ndarray, "part"]:
        return np.full(len(self), 1 / len(self))

    def moved_to(self, number: int, positions: Any) -> np.ndarray:
        """The images of positions `[..., dim]` in the part with that number, where they are as probable."""
        at = np.asarray(positions)
        differing = self.part_of(at) ^ number
        last = len(self.flips) - 1
        for bit, signs in enumerate(self.flips):
            flipped = ((differing >> (last - bit)) & 1).astype(bool)
            at = np.where(flipped[..., None], signs.astype(at.dtype) * at, at)
        return at


def split(target: AbstractTarget, at: Mapping[Any, Any] | Iterable[Any]) -> Partition:
    """Split given coordinates at given points.

    Args:
        target: what is sampled.
        at: the point, or the points, at which a coordinate is cut, by coordinate: `{3: 0.0, 7: [-1.0, 1.0]}`; or the
            coordinates, which are cut at 0.

    Raises:
        SettingError: a coordinate or point is not known, or there are too many parts.
    """
    points = dict(at) if isinstance(at, Mapping) else dict.fromkeys(at, 0.0)
    return Partition(target.dim, checked_cuts(target.dim, points))


def split_at_random(target: AbstractTarget, num_coordinates: int, *, seed: int, pilot: Any = None) -> Partition:
    """Split coordinates that are drawn at random.

    Args:
        target: what is sampled.
        num_coordinates: number of coordinates s, at least 1; there are 2^s parts.
        seed: the seed of the choice, 0 to 2^63 - 1.
        pilot: draws `[..., dim]`, at whose medians the coordinates are cut; None: at 0.

    Raises:
        SettingError: an argument is out of range.
    """
    if not is_integer(num_coordinates) or not 1 <= num_coordinates <= target.dim:
        raise SettingError(
            f"`num_coordinates` must be an integer from 1 to {target.dim}, the number of coordinates, got "
            f"{shown(num_coordinates)}."
        )
    require_room(2 ** int(num_coordinates))
    draws = None if pilot is None else pilot_points(pilot, target.dim)
    rng = np.random.default_rng(derived_seed(seed, CHOICE))
    chosen = rng.choice(target.dim, int(num_coordinates), replace=False)
    return split(target, {int(one): 0.0 if draws is None else float(np.median(draws[:, one])) for one in chosen})


def checked_cuts(dim: int, points: Mapping[Any, Any]) -> dict[int, tuple[float, ...]]:
    """The cuts in order.

    Raises:
        SettingError: a coordinate or a point is not known, or there are too many parts.
    """
    found: dict[int, tuple[float, ...]] = {}
    for coordinate, given in points.items():
        if not is_integer(coordinate) or not 0 <= coordinate < dim:
            raise SettingError(f"`at` must have coordinates from 0 to {dim - 1}, got {shown(coordinate)}.")
        values = [given] if is_number(given) else list(given) if isinstance(given, Iterable) else []
        if not values or not all(is_number(one) and math.isfinite(one) for one in values):
            raise SettingError(f"`at` must have finite numbers as cuts of coordinate {coordinate}, got {shown(given)}.")
        found[int(coordinate)] = tuple(sorted({float(one) for one in values}))
    require_room(math.prod(len(cuts) + 1 for cuts in found.values()))
    return dict(sorted(found.items()))


def require_room(num_parts: int) -> None:
    """Check that so many parts can be sampled one by one.

    Raises:
        SettingError: they are too many.
    """
    if num_parts > MOST_PARTS:
        raise SettingError(
            f"The cuts make {shown(num_parts)} parts, each of which is sampled on its own; at most {MOST_PARTS} are "
            "supported. Cut fewer coordinates."
        )


def pilot_points(pilot: Any, dim: int) -> Points:
    """The draws of a pilot run, `[..., dim]`, in a row.

    Raises:
        SettingError: they have another shape, or are not finite.
    """
    draws = np.asarray(pilot)
    if draws.ndim < 2 or draws.shape[-1] != dim or not draws.size:
        raise SettingError(f"`pilot` must be draws [..., {dim}], such as `samples.positions`, got {list(draws.shape)}.")
    draws = draws.reshape(-1, dim)
    if not np.all(np.isfinite(draws)):
        raise SettingError("`pilot` contains values that are not finite. Look at `samples.alarms()` of the pilot run.")
    return draws


def _interval(name: str, low: float, high: float) -> str:
    if math.isinf(low):
        return f"{name} < {high:g}"
    return f"{name} >= {low:g}" if math.isinf(high) else f"{low:g} <= {name} < {high:g}"


def _listed(points: Sequence[float]) -> str:
    return " and ".join(f"{one:g}" for one in points)
