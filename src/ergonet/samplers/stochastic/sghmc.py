"""Stochastic gradient Hamiltonian Monte Carlo.

v <- (1 - a) v - l g(q) + N(0, 2 (a T - b) l), then q <- q + v, with g the gradient of the minibatch potential, l the
learning rate, a the momentum decay, T the temperature (1 for the posterior), and b = l V / 2 the part of the noise that
is already in the gradient (V is its variance). Friction dissipates 2 a l T from a velocity of variance l T. In terms of
step size e, friction C, mass M, momentum p and gradient noise B = e V / 2: l = e^2 / M, a = e C / M, b = e B / M and
v = e p / M (`SGHMC.from_friction`). If a schedule changes l, v is rescaled by the square root of the change (its
variance is l T), so that the momentum keeps its temperature. At temperature 0 this is gradient descent with momentum
1 - a. Use it for large data and networks, and check the kinetic temperature |v|^2 / (dim l T), which is 1 if friction
balances the gradient noise. References: Chen2014; ChenReport, sections 2.3 and 4.2 (with b = e B / M in place of
l B / M); Lau2018, section 3.3.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError
from ergonet._numbers import integer, like, optional_integer, optional_real, real, whole
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.samplers import _settings as check
from ergonet.samplers.registry import NOISE_MODELS, SCHEDULES
from ergonet.samplers.stochastic.base import (
    AbstractMinibatchKernel,
    AbstractStepInfo,
    FrictionInfo,
    GradientInfo,
    Pace,
    check_stream,
    minibatch_gradient,
    one_gradient,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.noise_model import AbstractNoiseModel, EstimatedNoise
from ergonet.samplers.stochastic.ordering import SHUFFLED, AbstractOrdering
from ergonet.samplers.stochastic.schedule import AbstractSchedule, Constant
from ergonet.target.contract import AbstractDensity

RESAMPLING_KEY = 0x510E527F  # folded into the step's key for momentum resampling


class SGHMCState(eqx.Module):
    """The position and velocity of a chain, and the current estimate of the gradient noise."""

    position: Position
    velocity: Position
    noise: Any
    learning_rate: Scalar  # to which the velocity belongs


class SGHMC(AbstractMinibatchKernel):
    """Stochastic gradient Hamiltonian Monte Carlo; see the module's docstring for the step."""

    learning_rate: float | None
    momentum_decay: float
    noise: AbstractNoiseModel
    resample_every: int | None
    schedule: AbstractSchedule
    temperature: float
    is_noisy: bool = eqx.field(static=True)  # above temperature 0
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        momentum_decay: float = 0.01,
        noise: str | AbstractNoiseModel = "none",
        resample_every: int = 0,
        schedule: str | AbstractSchedule = "constant",
        temperature: float = 1.0,
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ):
        """Check and keep the settings.

        Args:
            learning_rate: l = e^2 / M, above 0; None: found by a stability search.
            momentum_decay: a = e C / M, in (0, 1).
            noise: model of the gradient noise: `none`, `estimated`, or an object
                (`noise_models.GivenNoise(variance)`, `noise_models.EstimatedNoise(...)`). With a model other than
                `none`, minibatches are drawn independently instead of in shuffled epochs.
            resample_every: number of steps after which the velocity is resampled from N(0, l); 0: never.
            schedule: schedule of the learning rate, as in `SGLD`.
            temperature: at least 0; 1 samples the posterior, 0 is gradient descent with momentum.
            batch_size: number of rows of a minibatch, at least 1.
            steps_per_draw: number of minibatch steps per draw, at least 1; None: an epoch.

        Raises:
            SettingError: a setting is out of range.
        """
        check_stream("SGHMC", batch_size, steps_per_draw, learning_rate)
        check.require_positive("SGHMC", "momentum_decay", momentum_decay)
        check.require_between("SGHMC", "momentum_decay", momentum_decay, 0, 1)
        check.require_integer("SGHMC", "resample_every", resample_every, 0)
        check.require_at_least("SGHMC", "temperature", temperature, 0.0)
        self.learning_rate = optional_real(learning_rate)
        self.momentum_decay = real(momentum_decay)
        self.noise = NOISE_MODELS.resolve(noise, owner="SGHMC")
        if isinstance(self.noise, EstimatedNoise) and batch_size == 1:
            raise SettingError(
                "`SGHMC(noise='estimated', batch_size=1)`: noise is estimated from the differences between the rows "
                "of a "
                "minibatch. Raise `batch_size`, or give the variance (`noise_models.GivenNoise`)."
            )
        self.resample_every = integer(resample_every) if resample_every else None
        self.schedule = SCHEDULES.resolve(schedule, owner="SGHMC")
        self.temperature, self.is_noisy = real(temperature), temperature > 0
        self.batch_size = int(batch_size)
        self.steps_per_draw = optional_integer(steps_per_draw)

    @staticmethod
    def from_friction(
        *,
        step_size: float,
        friction: float,
        mass: float = 1.0,
        noise: str | AbstractNoiseModel = "none",
        resample_every: int = 0,
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ) -> "SGHMC":
        """Make the sampler from e, C and M: `learning_rate` is e^2 / M and `momentum_decay` e C / M.

        Args:
            step_size: e, above 0.
            friction: C, above 0.
            mass: M, the same for every coordinate, above 0.
            noise: as in `SGHMC`; a model of the variance V of the gradient, with B = e V / 2.
            resample_every: as in `SGHMC`.
            batch_size: as in `SGHMC`.
            steps_per_draw: as in `SGHMC`.

        Raises:
            SettingError: a setting is out of its range.
        """
        for name, value in (("step_size", step_size), ("friction", friction), ("mass", mass)):
            check.require_positive("SGHMC.from_friction", name, value)
        return SGHMC(
            learning_rate=step_size**2 / mass,
            momentum_decay=step_size * friction / mass,
            noise=noise,
            resample_every=resample_every,
            batch_size=batch_size,
            steps_per_draw=steps_per_draw,
        )

    @property
    def memory(self) -> float:
        return 1 / self.momentum_decay

    @property
    def remedies(self) -> str:
        unknown = self.ordering is SHUFFLED and self.batch_size > 1
        known = "lower `learning_rate`, raise `momentum_decay` or `batch_size`"
        return f"{known}, or set `noise='estimated'`" if unknown else known

    @property
    def ordering(self) -> AbstractOrdering:
        return self.noise.ordering if self.is_noisy else SHUFFLED

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(FrictionInfo if self.is_noisy else GradientInfo)

    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> SGHMCState:
        spread = jnp.sqrt(like(self.temperature, position) * step_size)
        return SGHMCState(
            position=position,
            velocity=spread * normals(key, target.dim, position.dtype),
            noise=self.noise.begin(position),
            learning_rate=step_size,
        )

    def step(
        self, key: PRNGKey, target: AbstractDensity, state: SGHMCState, rows: Any, pace: Pace
    ) -> tuple[SGHMCState, AbstractStepInfo]:
        noise = self.noise.update(state.noise, target, state.position, rows, pace.number)
        potential, gradient = minibatch_gradient(target, state.position, rows)
        velocity = self._resampled(key, self._at_rate(state, pace), pace)
        decay, temperature = like(self.momentum_decay, potential), like(self.temperature, potential)
        velocity = (1 - decay) * velocity - pace.step_size * gradient
        info: AbstractStepInfo = one_gradient(potential)
        if self.is_noisy:
            wanted = decay * temperature
            lacking = wanted - 0.5 * pace.step_size * self.noise.variance(noise)
            spread = jnp.sqrt(2 * pace.step_size * jnp.maximum(lacking, 0))
            velocity = velocity + spread * normals(key, target.dim, velocity.dtype)
            info = FrictionInfo(
                potential=potential,
                gradients=jnp.ones((), jnp.int32),
                temperature=kinetic_temperature(velocity, temperature * pace.step_size),
                clipped=jnp.mean(lacking < 0, dtype=potential.dtype),
            )
        position = state.position + velocity
        return SGHMCState(position=position, velocity=velocity, noise=noise, learning_rate=pace.step_size), info

    def _at_rate(self, state: SGHMCState, pace: Pace) -> Position:
        """The velocity for another learning rate: v scales with sqrt(l), and the momentum does not change."""
        if not self.is_noisy or isinstance(self.schedule, Constant):
            return state.velocity
        return state.velocity * jnp.sqrt(pace.step_size / state.learning_rate)

    def _resampled(self, key: PRNGKey, velocity: Position, pace: Pace) -> Position:
        if self.resample_every is None:
            return velocity
        spread = jnp.sqrt(like(self.temperature, velocity) * pace.step_size)
        return jax.lax.cond(
            pace.number % whole(self.resample_every) == 0,
            lambda: spread * normals(jax.random.fold_in(key, RESAMPLING_KEY), velocity.size, velocity.dtype),
            lambda: velocity,
        )


def kinetic_temperature(velocity: Position, variance: Scalar) -> Scalar:
    """|v|^2 / (dim variance): 1 on average if the velocity has its stationary variance, l T."""
    return jnp.sum(velocity**2) / (velocity.size * variance)
