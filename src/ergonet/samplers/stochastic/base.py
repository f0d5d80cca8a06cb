"""The contract of a minibatch kernel: one step per minibatch.

A driver lays out minibatches in the kernel's `ordering` and calls `step`, once or many times per draw. The step size is
an argument, so that a schedule or a search never recompiles.
"""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._numbers import AbstractSettings
from ergonet._types import Array, Count, Float, Int, Position, PRNGKey, Scalar
from ergonet.draws.statistics import (
    FLOAT,
    KNOWN_MEAN,
    MEAN,
    MINUS_MEAN,
    SUM,
    AbstractDiagnostics,
    Statistic,
    statistic,
)
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.ordering import SHUFFLED, AbstractOrdering
from ergonet.samplers.stochastic.schedule import AbstractSchedule, Constant
from ergonet.target.capabilities import Rows
from ergonet.target.contract import AbstractDensity, require
from ergonet.target.layout import count_rows


class Pace(eqx.Module):
    """The position within a run.

    Attributes:
        step_size: step size of this step, after the schedule, above 0; each kernel defines what it multiplies.
        number: number of minibatch steps before this one.
    """

    step_size: Scalar
    number: Count


class AbstractStepInfo(AbstractDiagnostics):
    """Diagnostics of one step of any kernel.

    Attributes:
        potential: minibatch estimate of the potential at the point of the gradient.
        gradients: number of minibatch gradients of the step.
    """

    potential: Float[Array, "..."] = statistic("lp", FLOAT, MINUS_MEAN)
    gradients: Int[Array, "..."] = statistic("gradients", np.int32, SUM)


class GradientInfo(AbstractStepInfo):
    """Diagnostics of a step without momentum."""


def one_gradient(potential: Scalar) -> GradientInfo:
    """Diagnostics of a step without momentum that costs one gradient."""
    return GradientInfo(potential=potential, gradients=jnp.ones((), jnp.int32))


class MomentumInfo(AbstractStepInfo):
    """Diagnostics of a step with a momentum.

    Attributes:
        temperature: kinetic temperature |momentum|^2 / (dim x its variance); 1 in a well-behaved run.
    """

    temperature: Float[Array, "..."] = statistic("kinetic_temperature", FLOAT, MEAN)


class FrictionInfo(AbstractStepInfo):
    """Diagnostics of a step with friction.

    Attributes:
        temperature: as in `MomentumInfo`.
        clipped: fraction of the coordinates whose friction is below the estimated gradient noise.
    """

    temperature: Float[Array, "..."] = statistic("kinetic_temperature", FLOAT, MEAN)
    clipped: Float[Array, "..."] = statistic("clipped", FLOAT, MEAN)


class TestedInfo(AbstractStepInfo):
    """Diagnostics of a step with a momentum that has a Metropolis correction or is a tree.

    Attributes:
        temperature: as in `MomentumInfo`.
        acceptance: acceptance of the Metropolis correction on all rows, NaN in a step without one; or mean over a tree.
    """

    temperature: Float[Array, "..."] = statistic("kinetic_temperature", FLOAT, MEAN)
    acceptance: Float[Array, "..."] = statistic("acceptance_rate", FLOAT, KNOWN_MEAN)


class AbstractMinibatchKernel(AbstractSettings):
    """A Markov transition that uses a minibatch of rows at a time.

    Attributes:
        learning_rate: the initial step size; None: found by search.
        batch_size: number of rows of a minibatch.
        steps_per_draw: number of minibatch steps per draw; None: an epoch.
        schedule: schedule of the step size.
    """

    learning_rate: eqx.AbstractVar[float | None]
    batch_size: eqx.AbstractVar[int]
    steps_per_draw: eqx.AbstractVar[int | None]
    schedule: eqx.AbstractVar[AbstractSchedule]

    @property
    def memory(self) -> float:
        """Number of steps after which a momentum is forgotten; 1 if every step resamples it."""
        return 1.0

    @property
    def is_corrected(self) -> bool:
        """Whether a Metropolis correction on all rows rejects a divergent trajectory, however hot it is."""
        return False

    @property
    def remedies(self) -> str:
        """What to change if the kinetic temperature is far from 1, by settings of this kernel; empty if nothing is."""
        return "lower `learning_rate` or raise `batch_size`"

    @property
    def ordering(self) -> AbstractOrdering:
        """How the rows of minibatches are chosen."""
        return SHUFFLED

    def with_rate_named(self, value: str) -> str:
        """The kernel with a learning rate, as it is named in messages."""
        return f"{type(self).__name__}(learning_rate={value})"

    @abc.abstractmethod
    def statistics(self) -> tuple[Statistic, ...]:
        """The declared statistics: `statistics(...)` of the record that `step` returns."""

    @abc.abstractmethod
    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> Any:
        """The state of a chain at `position`; it has a field `position`."""

    @abc.abstractmethod
    def step(
        self, key: PRNGKey, target: AbstractDensity, state: Any, rows: Any, pace: Pace
    ) -> tuple[Any, AbstractStepInfo]:
        """Take one step on a minibatch."""


def rows_of(target: AbstractDensity) -> Rows:
    """The rows of the target, which every minibatch kernel needs."""
    return require(target, Rows, "minibatch_gradient")


def minibatch_gradient(target: AbstractDensity, position: Position, rows: Any) -> tuple[Scalar, Position]:
    """The minibatch potential and its gradient."""
    return jax.value_and_grad(rows_of(target).minibatch_potential)(position, rows)


def gradient_noise(target: AbstractDensity, position: Position, rows: Any, *, at_once: int = 50) -> Position:
    """Variance of the minibatch gradient by coordinate, (N^2 / n) (1 - n / N) Var_i(g_i), from per-example gradients.

    This is the diagonal of the empirical Fisher matrix. It costs as much as one gradient per row of the minibatch, with
    `at_once` of them in memory at a time.
    """
    data, count = rows_of(target), count_rows(rows)
    size = max(divisor for divisor in range(1, min(at_once, count) + 1) if count % divisor == 0)
    parts = jax.tree.map(lambda leaf: leaf.reshape(count // size, size, 1, *leaf.shape[1:]), rows)

    def of_row(row: Any) -> Position:
        return jax.grad(data.minibatch_potential)(position, row)

    def add(sums: tuple[Array, Array], part: Any) -> tuple[tuple[Array, Array], None]:
        gradients = jax.vmap(of_row)(part)
        shifted = gradients - center
        return (sums[0] + jnp.sum(shifted, axis=0), sums[1] + jnp.sum(shifted**2, axis=0)), None

    center = of_row(jax.tree.map(lambda leaf: leaf[0, 0], parts))
    blank = jnp.zeros_like(position), jnp.zeros_like(position)
    (total, squares), _ = jax.lax.scan(add, blank, parts)
    variance = jnp.maximum(squares - total**2 / count, 0.0) / max(count - 1, 1)
    return variance / count * (1 - count / data.num_rows)


def check_stream(owner: str, batch_size: int, steps_per_draw: int | None, learning_rate: float | None) -> None:
    """Check the settings shared by all minibatch kernels."""
    check.require_integer(owner, "batch_size", batch_size, 1)
    if steps_per_draw is not None:
        check.require_integer(owner, "steps_per_draw", steps_per_draw, 1)
    if learning_rate is not None:
        check.require_positive(owner, "learning_rate", learning_rate)


CONSTANT = Constant()
