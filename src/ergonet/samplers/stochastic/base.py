"""The contract of a minibatch kernel: one step for each minibatch that it is given.

A driver cuts the shuffled rows into minibatches and calls `step`, once or many times for each draw that it keeps. The
step size is an argument, so a schedule or a search never recompiles.
"""

import abc
import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Array, Count, Float, Position, PRNGKey, Scalar
from ergonet.models.target import Origin, Target, count_rows
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.schedule import AbstractSchedule, Constant


class Pace(eqx.Module):
    """Where a run is.

    Attributes:
        step_size: of this step, after the schedule; above 0. What it multiplies is the kernel's own.
        number: minibatch steps before this one.
    """

    step_size: Scalar
    number: Count


class StepInfo(eqx.Module):
    """Diagnostics of one step.

    Attributes:
        potential: minibatch estimate where the gradient was taken.
        temperature: kinetic temperature |momentum|^2 / (dim x its variance); 1 in a well-behaved run, NaN without
            momentum or at temperature 0.
        acceptance: of a test on all rows, or mean over a tree; NaN where there was neither.
        gradients: minibatch gradients that the step cost.
        clipped: share of the coordinates whose friction is below the estimate of the gradient's noise.
    """

    potential: Float[Array, "..."]
    temperature: Float[Array, "..."]
    acceptance: Float[Array, "..."]
    gradients: Count
    clipped: Float[Array, "..."]


class AbstractMinibatchKernel(eqx.Module):
    """A Markov transition that sees some rows at a time.

    Attributes:
        learning_rate: the first step size; None: to be searched for.
        batch_size: rows of a minibatch.
        steps_per_draw: minibatch steps from one draw to the next; None: as many as an epoch has.
        schedule: of the step size.
    """

    learning_rate: eqx.AbstractVar[float | None]
    batch_size: eqx.AbstractVar[int]
    steps_per_draw: eqx.AbstractVar[int | None]
    schedule: eqx.AbstractVar[AbstractSchedule]

    @property
    def memory(self) -> float:
        """Steps after which a momentum is forgotten; 1 where every step draws its own."""
        return 1.0

    def with_rate_named(self, value: str) -> str:
        """The kernel with a learning rate, as messages call it."""
        return f"{type(self).__name__}(learning_rate={value})"

    def without_rate(self) -> "AbstractMinibatchKernel":
        """The same kernel with no learning rate of its own, for compiling: programs take it as an argument."""
        bare = object.__new__(type(self))
        for one in dataclasses.fields(self):
            object.__setattr__(bare, one.name, None if one.name == "learning_rate" else getattr(self, one.name))
        return bare

    @abc.abstractmethod
    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> Any:
        """The state of a chain at `position`; its own position is called `position`."""

    @abc.abstractmethod
    def step(self, key: PRNGKey, target: Target, state: Any, rows: Any, pace: Pace) -> tuple[Any, StepInfo]:
        """One step on a minibatch."""


class OnRows(Target):
    """A target as one minibatch shows it: its potential is the minibatch's."""

    target: Target
    minibatch: Any
    dim: int = eqx.field(static=True)

    def __init__(self, target: Target, minibatch: Any):
        self.target, self.minibatch = target, minibatch
        self.dim = target.dim

    @property
    def num_rows(self) -> int:
        return self.target.num_rows

    def potential(self, position: Position) -> Scalar:
        return self.target.minibatch_potential(position, self.minibatch)

    def unravel(self, position: Position) -> Any:
        return self.target.unravel(position)

    def initial_position(self, key: PRNGKey) -> Position:
        return self.target.initial_position(key)

    def offers(self, capability: str) -> bool:
        return self.target.offers(capability)

    def monitor(self, position: Position) -> Float[Array, "quantity"]:
        return self.target.monitor(position)

    def log_likelihood(self, position: Position) -> Float[Array, "rows"]:
        return self.target.log_likelihood(position)

    def rows(self) -> Any:
        return self.target.rows()

    def minibatch_potential(self, position: Position, rows: Any) -> Scalar:
        return self.target.minibatch_potential(position, rows)

    def origin(self, position: Position) -> Origin:
        return Origin(jnp.zeros((), position.dtype))

    def around(self, origin: Origin) -> "OnRows":
        return self

    def explain(self, position: Position) -> str:
        return self.target.explain(position)


def minibatch_gradient(target: Target, position: Position, rows: Any) -> tuple[Scalar, Position]:
    """The minibatch potential and its gradient."""
    return jax.value_and_grad(target.minibatch_potential)(position, rows)


def gradient_noise(target: Target, position: Position, rows: Any, *, at_once: int = 50) -> Position:
    """Variance of the minibatch gradient by coordinate, (N^2 / n) (1 - n / N) Var_i(g_i), from per-example gradients.

    The diagonal of the empirical Fisher matrix (algorithms.md, section 6). It costs as much as one gradient for each
    row of the minibatch, `at_once` of them held in memory at a time.
    """
    count = count_rows(rows)
    size = max(divisor for divisor in range(1, min(at_once, count) + 1) if count % divisor == 0)
    parts = jax.tree.map(lambda leaf: leaf.reshape(count // size, size, 1, *leaf.shape[1:]), rows)

    def of_row(row: Any) -> Position:
        return jax.grad(target.minibatch_potential)(position, row)

    def add(sums: tuple[Array, Array], part: Any) -> tuple[tuple[Array, Array], None]:
        gradients = jax.vmap(of_row)(part)
        shifted = gradients - centre
        return (sums[0] + jnp.sum(shifted, axis=0), sums[1] + jnp.sum(shifted**2, axis=0)), None

    centre = of_row(jax.tree.map(lambda leaf: leaf[0, 0], parts))
    blank = jnp.zeros_like(position), jnp.zeros_like(position)
    (total, squares), _ = jax.lax.scan(add, blank, parts)
    variance = jnp.maximum(squares - total**2 / count, 0.0) / max(count - 1, 1)
    return variance / count * (1 - count / target.num_rows)


def without_test(potential: Scalar, temperature: Scalar | None = None, clipped: Scalar | None = None) -> StepInfo:
    """The diagnostics of a step of one gradient."""
    nothing = jnp.full_like(potential, jnp.nan)
    return StepInfo(
        potential=potential,
        temperature=nothing if temperature is None else temperature,
        acceptance=nothing,
        gradients=jnp.ones((), jnp.int32),
        clipped=jnp.zeros_like(potential) if clipped is None else clipped,
    )


def check_stream(owner: str, batch_size: int, steps_per_draw: int | None, learning_rate: float | None) -> None:
    """The settings that every minibatch kernel has."""
    check.require_integer(owner, "batch_size", batch_size, 1)
    if steps_per_draw is not None:
        check.require_integer(owner, "steps_per_draw", steps_per_draw, 1)
    if learning_rate is not None:
        check.require_positive(owner, "learning_rate", learning_rate)


CONSTANT = Constant()
