"""Whether single precision resolves a log density: a few points near its mode in both precisions, before sampling.

Trajectories need differences of the log density to within about 0.1. Single precision has seven digits, so a constant
of 1e8 that belongs to the log density rounds every value of it to a multiple of 8: the draws are too wide, and no
diagnostic of the draws shows it. Targets that subtract a reference summand by summand, as networks do, need no check.
"""

import time
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._keys import key_of
from ergonet._types import Position, Scalar
from ergonet.target.contract import AbstractTarget, ReferencePoint

LARGEST_ERROR = 0.5  # of a difference of log densities; less changes a standard deviation by about one percent
NUM_NEIGHBORS = 6
MOST_EVALUATIONS, MOST_SECONDS = 50, 1.0  # of the way to the mode
MOST_STARTS = 5
LARGEST_SCALE, MOST_HALVINGS = 2.0**20, 60  # of the distance of neighbors


def rounding_alarm(target: AbstractTarget, init: np.ndarray | None) -> str | None:
    """A sentence if single precision does not resolve the log density; None if it does, or if that cannot be told.

    A few steps of L-BFGS in double precision lead to the region of the draws, where neighbors are drawn so far apart
    that the log density changes by about as much as from draw to draw. The alarm is raised if the errors of single
    precision differ among these points by more than 0.5, and by more than rounding the positions explains. The latter
    is so far from the mode, where the density is steep and its value large, and harmless.

    Args:
        target: what will be sampled.
        init: initial values `[chain, dim]`; None: drawn by the target.
    """
    if jax.config.jax_enable_x64:
        return None
    drawn = (target.initial_position(key_of(seed)) for seed in range(MOST_STARTS))
    starts = (np.asarray(start, np.float64) for start in (drawn if init is None else init[:MOST_STARTS]))
    try:
        if target.relative_to(ReferencePoint(jnp.zeros(()))) is not target:
            return None
        with jax.enable_x64(True):
            found = _neighbors(target, starts)
    except Exception:  # noqa: BLE001  what cannot be computed in double precision cannot be compared
        return None
    if found is None:
        return None
    points, exact, allowed = found
    single = np.array([_potential(target, jnp.asarray(point, jnp.float32)) for point in points], np.float64)
    error = float(np.ptp(single - exact))
    if not error > LARGEST_ERROR + allowed:
        return None
    return (
        f"Single precision does not resolve the log density, which is about {-exact[0]:.3g} near its mode: "
        f"its differences are wrong by up to {error:.2g} between neighboring points, so the draws will be too wide, "
        f"and R-hat will not show it. Subtract the constant part of the log density and of its terms, or use double "
        'precision: call `jax.config.update("jax_enable_x64", True)` before anything else, and make the target again.'
    )


def _neighbors(target: AbstractTarget, starts: Iterator[np.ndarray]) -> tuple[np.ndarray, np.ndarray, float] | None:
    """Points of single precision near the mode, their exact potentials, and what rounding the positions changes."""
    start = next((one for one in starts if np.isfinite(_look(target, one)[0])), None)
    if start is None:
        return None
    mode = _single(_descent(target, start))
    lowest, gradient = _look(target, mode)
    found, scale = [(mode, lowest, gradient)], LARGEST_SCALE
    for direction in np.random.default_rng(0).normal(size=(NUM_NEIGHBORS, target.dim)):
        for halving in range(MOST_HALVINGS):
            point = _single(mode + scale * 0.5**halving * direction)
            value, gradient = _look(target, point)
            if abs(value - lowest) <= 10.0 + target.dim:
                found.append((point, value, gradient))
                scale *= 0.5 ** (halving - 2)
                break
    points, exact, gradients = (np.array(one) for one in zip(*found, strict=True))
    return points, exact, float(np.finfo(np.float32).eps * np.abs(points * gradients).sum(axis=1).max())


def _look(target: AbstractTarget, position: np.ndarray) -> tuple[float, np.ndarray]:
    """The potential and its gradient in double precision."""
    value, gradient = _value_and_gradient(target, jnp.asarray(position))
    return float(value), np.asarray(gradient, np.float64)


def _descent(target: AbstractTarget, start: np.ndarray) -> np.ndarray:
    """A point near the mode, or as far on the way to it as a second allows."""
    from scipy.optimize import minimize

    began, highest = time.perf_counter(), 1e10 + abs(_look(target, start)[0])

    def function(position: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _look(target, position)
        usable = np.isfinite(value) and np.isfinite(gradient).all()
        return (value, gradient) if usable else (highest, np.zeros_like(gradient))

    def stop_in_time(*_: Any) -> None:
        if time.perf_counter() - began > MOST_SECONDS:
            raise StopIteration

    options = {"maxfun": MOST_EVALUATIONS}
    return minimize(function, start, jac=True, method="L-BFGS-B", options=options, callback=stop_in_time).x


def _single(position: np.ndarray) -> np.ndarray:
    return position.astype(np.float32).astype(np.float64)


@eqx.filter_jit
def _potential(target: AbstractTarget, position: Position) -> Scalar:
    return target.potential(position)


@eqx.filter_jit
def _value_and_gradient(target: AbstractTarget, position: Position) -> tuple[Scalar, Position]:
    return jax.value_and_grad(target.potential)(position)
