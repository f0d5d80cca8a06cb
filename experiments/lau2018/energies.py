"""Trajectories computed in both float32 and float64, and potentials for any number of rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet.target.padding import padded_index
from experiments.lau2018.digits import data, target

PIXEL_NOISE = 0.1  # scale of the random numbers that make all rows differ
ACCEPTED = 0.8
LARGEST_STEP, SMALLEST_STEP = 0.5, 0.005  # at 500 rows; in proportion to rows^-1/2
HALVINGS = 8  # number of halvings of the interval between them, on the logarithmic scale
SEARCH_POINTS = 10


@dataclass(frozen=True)
class Both:
    """A posterior in both precisions, and the classes of its rows for every starting point `[point, rows]`."""

    single: Any
    double: Any
    classes: np.ndarray

    @property
    def num_rows(self) -> int:
        """Number of rows of the data."""
        return self.classes.shape[1]


@dataclass(frozen=True)
class Ends:
    """Ends of trajectories and their energies, as NumPy float64.

    Attributes:
        positions: positions `[point, dim]`.
        momenta: momenta `[point, dim]`.
        whole: energies H = U + p'p / 2 `[point]`.
        around: energies less U at the start of the trajectory `[point]`, computed as samplers do
            (`AbstractTarget.relative_to`).
    """

    positions: np.ndarray
    momenta: np.ndarray
    whole: np.ndarray
    around: np.ndarray


def training_rows(hidden: tuple[int, ...], priors: Mapping[str, Any], count: int) -> Both:
    """The posterior given the training rows, the same for each of `count` points."""
    classes = np.asarray(data().y_train, np.int32)
    single = target(hidden, 1.0, is_double=False, priors=priors)
    with jax.enable_x64(True):
        double = target(hidden, 1.0, is_double=True, priors=priors)
    return Both(single, double, np.broadcast_to(classes, (count, len(classes))))


def different_rows(units: int, rows: int, count: int, seed: int) -> tuple[Both, np.ndarray]:
    """Posteriors of so many different rows under the normal prior, and a draw of each, `[point, dim]` in float32.

    Weights are drawn from the prior, then the classes of the rows from the network that has them: such weights are
    an exact draw of the posterior given these classes.
    """
    random = np.random.default_rng([seed, rows])
    x = np.asarray(data().x_train, np.float32)[np.arange(rows) % len(data().x_train)]
    x += PIXEL_NOISE * random.standard_normal(x.shape, np.float32)
    model, nothing = target((units,), 1.0, is_double=False).model, np.zeros(rows, np.int32)
    single = model.condition(x, nothing)
    with jax.enable_x64(True):
        double = model.condition(x.astype(np.float64), nothing)
    positions = random.standard_normal((count, model.dim), np.float32)
    keys = jax.random.split(jax.random.key(seed), count)
    classes = _drawn_classes(model, single.inputs, jnp.asarray(positions), keys)
    return Both(single, double, np.asarray(classes)), positions


@eqx.filter_jit
def _drawn_classes(model: Any, inputs: jax.Array, positions: jax.Array, keys: jax.Array) -> jax.Array:
    def one(point: tuple[jax.Array, jax.Array]) -> jax.Array:
        position, key = point
        outputs = model.outputs(position, inputs)
        return jax.random.categorical(key, outputs, axis=0)

    return jax.lax.map(one, (positions, keys))


def follow(
    posterior: Any,
    classes: np.ndarray,
    starts: tuple[np.ndarray, np.ndarray],
    step_size: np.floating,
    lengths: Sequence[int],
) -> dict[int, Ends]:
    """All trajectories by length, 0 for the start; computed in the precision of the step size."""
    first, momenta = (jnp.asarray(part, step_size.dtype) for part in starts)
    shown, positions, found = jnp.asarray(classes), first, {}
    for before, length in pairwise((0, 0, *lengths)):
        count = jnp.asarray(length - before)
        positions, momenta = _leapfrog(
            posterior, (shown, first), (positions, momenta), step_size=jnp.asarray(step_size), count=count
        )
        found[length] = energies(posterior, classes, first, (positions, momenta))
    return found


def energies(posterior: Any, classes: np.ndarray, first: Any, ends: tuple[Any, Any]) -> Ends:
    """The energies at the ends of trajectories that started at `first`, in the precision of the posterior."""
    dtype = posterior.padded_inputs.dtype
    points = (jnp.asarray(classes), *(jnp.asarray(part, dtype) for part in (first, *ends)))
    whole, around = np.asarray(_energies(posterior, points), np.float64).T
    positions, momenta = (np.asarray(part, np.float64) for part in ends)
    return Ends(positions, momenta, whole, around)


@eqx.filter_jit
def _energies(posterior: Any, points: tuple[jax.Array, ...]) -> jax.Array:
    """Energies `[point, 2]`: whole, and relative to the start."""

    def one(point: tuple[jax.Array, ...]) -> jax.Array:
        classes, first, position, momentum = point
        given, moved = _given(posterior, classes, first)
        return jnp.stack([given.potential(position), moved.potential(position)]) + 0.5 * jnp.dot(momentum, momentum)

    return jax.lax.map(one, points)


@eqx.filter_jit
def potentials(posterior: Any, classes: jax.Array, positions: jax.Array) -> jax.Array:
    """Potentials `[point, 2]`: whole, and relative to the first position, all with the same classes."""
    given, moved = _given(posterior, classes, positions[0])
    return jax.lax.map(lambda position: jnp.stack([given.potential(position), moved.potential(position)]), positions)


@eqx.filter_jit
def _leapfrog(
    posterior: Any,
    of_points: tuple[jax.Array, jax.Array],
    ends: tuple[jax.Array, jax.Array],
    *,
    step_size: jax.Array,
    count: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """`count` leapfrog steps of every point under the identity metric."""

    def one(point: tuple[jax.Array, ...]) -> tuple[jax.Array, jax.Array]:
        classes, first, position, momentum = point
        gradient = jax.grad(_given(posterior, classes, first)[1].potential)

        def step(_: jax.Array, state: Any) -> Any:
            position, momentum, force = state
            momentum = momentum - 0.5 * step_size * force
            position = position + step_size * momentum
            force = gradient(position)
            return position, momentum - 0.5 * step_size * force, force

        return jax.lax.fori_loop(0, count, step, (position, momentum, gradient(position)))[:2]

    return jax.lax.map(one, (*of_points, *ends))


def _given(posterior: Any, classes: jax.Array, first: jax.Array) -> tuple[Any, Any]:
    """The posterior given other classes, whole and relative to a position."""
    like = posterior.padded_targets
    shown = jax.nn.one_hot(classes[padded_index(classes.size)], like.shape[0], axis=0, dtype=like.dtype)
    given = eqx.tree_at(lambda one: one.padded_targets, posterior, shown)
    return given, given.relative_to(given.reference_point(first))


def acceptance(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Metropolis acceptance probability of energies; 0 where they are not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.nan_to_num(np.exp(np.minimum(0.0, start - end)), nan=0.0)


def accepted_step(both: Both, starts: tuple[np.ndarray, np.ndarray], length: int) -> np.float32:
    """Approximate step size with a mean acceptance of 0.8, found with some of the trajectories in float32."""
    some = tuple(part[:SEARCH_POINTS] for part in starts)
    unit = (len(data().x_train) / both.num_rows) ** 0.5
    low, high = SMALLEST_STEP * unit, LARGEST_STEP * unit
    for _ in range(HALVINGS):
        middle = np.float32((low * high) ** 0.5)
        ends = follow(both.single, both.classes[:SEARCH_POINTS], (some[0], some[1]), middle, (length,))
        if np.mean(acceptance(ends[0].around, ends[length].around)) > ACCEPTED:
            low = middle
        else:
            high = middle
    return np.float32((low * high) ** 0.5)
