"""Stochastic gradient Hamiltonian Monte Carlo.

v <- (1 - a) v - l g(q) + N(0, 2 (a T - b) l), then q <- q + v, with g the gradient of the minibatch potential, l the
learning rate, a the momentum decay, T the temperature, 1 for the posterior, and b = l V / 2 the part of the noise that
the gradient brings itself (V its variance): friction takes 2 a l T from a velocity of variance l T. In the other
parametrisation, with step size e, friction C, mass M and noise B = e V / 2: l = e^2 / M, a = e C / M, b = e B / M,
v = e r / M (`SGHMC.from_friction`). Where a schedule changes l, v is rescaled by the root of the change (its variance
is l T), so that the momentum r keeps its temperature. At temperature 0 it is gradient descent with momentum 1 - a. Use
it for large data and networks, and watch the kinetic temperature |v|^2 / (dim l T), which is 1 where friction outweighs
the gradient's noise. References: Chen, Fox and Guestrin 2014; 002, sections 2.3 and 4.2 (with b = e B / M where it says
l B / M); 000, section 3.3.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import (
    AbstractMinibatchKernel,
    Pace,
    StepInfo,
    check_stream,
    minibatch_gradient,
    without_test,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.noise_model import AbstractNoiseModel, EstimatedNoise, resolve_noise
from ergonet.samplers.stochastic.schedule import AbstractSchedule, Constant, resolve_schedule

RESAMPLING_KEY = 0x510E527F  # folded into the step's key for a fresh momentum


class SGHMCState(eqx.Module):
    """Where a chain is, its velocity, and the variance of the gradient's noise as known so far."""

    position: Position
    velocity: Position
    noise: Any
    learning_rate: Scalar  # that the velocity is of


class SGHMC(AbstractMinibatchKernel):
    """Stochastic gradient Hamiltonian Monte Carlo; see the module's docstring for the step."""

    learning_rate: float | None = eqx.field(static=True)
    momentum_decay: float = eqx.field(static=True)
    noise: AbstractNoiseModel
    resample_every: int = eqx.field(static=True)
    schedule: AbstractSchedule
    temperature: float = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True)

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
            learning_rate: l = e^2 / M, above 0; None: found by a short search on the loss.
            momentum_decay: a = e C / M, in (0, 1).
            noise: what is known of the gradient's noise: `none`, `estimated`, or an object
                (`noise_models.GivenNoise(variance)`, `noise_models.EstimatedNoise(...)`).
            resample_every: steps after which the velocity is drawn afresh from N(0, l), at least 0; 0: never.
            schedule: how the learning rate changes; as in `SGLD`.
            temperature: at least 0; 1 samples the posterior, 0 is gradient descent with momentum.
            batch_size: rows of a minibatch, at least 1.
            steps_per_draw: minibatch steps of a draw, at least 1; None: an epoch.

        Raises:
            SettingError: a setting is out of its range.
        """
        check_stream("SGHMC", batch_size, steps_per_draw, learning_rate)
        check.require_positive("SGHMC", "momentum_decay", momentum_decay)
        check.require_between("SGHMC", "momentum_decay", momentum_decay, 0, 1)
        check.require_integer("SGHMC", "resample_every", resample_every, 0)
        check.require_at_least("SGHMC", "temperature", temperature, 0.0)
        self.learning_rate = learning_rate
        self.momentum_decay = float(momentum_decay)
        self.noise = resolve_noise(noise)
        if isinstance(self.noise, EstimatedNoise) and batch_size == 1:
            raise SettingError(
                "`SGHMC(noise='estimated', batch_size=1)`: noise is estimated from how the rows of a minibatch differ. "
                "Raise `batch_size`, or give the variance (`noise_models.GivenNoise`)."
            )
        self.resample_every = int(resample_every)
        self.schedule = resolve_schedule(schedule)
        self.temperature = float(temperature)
        self.batch_size = int(batch_size)
        self.steps_per_draw = None if steps_per_draw is None else int(steps_per_draw)

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
        """The same sampler in terms of e, C and M: `learning_rate` e^2 / M, `momentum_decay` e C / M.

        Args:
            step_size: e, above 0.
            friction: C, above 0.
            mass: M, the same for every coordinate, above 0.
            noise: as in `SGHMC`; the variance V of the gradient, of which B = e V / 2.
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

    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> SGHMCState:
        spread = jnp.sqrt(self.temperature * step_size)
        return SGHMCState(
            position=position,
            velocity=spread * normals(key, target.dim, position.dtype),
            noise=self.noise.begin(position),
            learning_rate=step_size,
        )

    def step(
        self, key: PRNGKey, target: Target, state: SGHMCState, rows: Any, pace: Pace
    ) -> tuple[SGHMCState, StepInfo]:
        noise = self.noise.update(state.noise, target, state.position, rows, pace.number)
        potential, gradient = minibatch_gradient(target, state.position, rows)
        velocity = self._resampled(key, self._at_rate(state, pace), pace)
        velocity = (1 - self.momentum_decay) * velocity - pace.step_size * gradient
        clipped = jnp.zeros_like(potential)
        if self.temperature > 0:
            wanted = self.momentum_decay * self.temperature
            lacking = wanted - 0.5 * pace.step_size * self.noise.variance(noise)
            clipped = jnp.mean(lacking < 0, dtype=potential.dtype)
            spread = jnp.sqrt(2 * pace.step_size * jnp.maximum(lacking, 0))
            velocity = velocity + spread * normals(key, target.dim, velocity.dtype)
        temperature = kinetic_temperature(velocity, self.temperature * pace.step_size) if self.temperature else None
        position = state.position + velocity
        state = SGHMCState(position=position, velocity=velocity, noise=noise, learning_rate=pace.step_size)
        return state, without_test(potential, temperature, clipped)

    def _at_rate(self, state: SGHMCState, pace: Pace) -> Position:
        """The velocity for another learning rate: v = sqrt(l) r, and the momentum r stays."""
        if self.temperature == 0 or isinstance(self.schedule, Constant):
            return state.velocity
        return state.velocity * jnp.sqrt(pace.step_size / state.learning_rate)

    def _resampled(self, key: PRNGKey, velocity: Position, pace: Pace) -> Position:
        if not self.resample_every:
            return velocity
        spread = jnp.sqrt(self.temperature * pace.step_size)
        return jax.lax.cond(
            pace.number % self.resample_every == 0,
            lambda: spread * normals(jax.random.fold_in(key, RESAMPLING_KEY), velocity.size, velocity.dtype),
            lambda: velocity,
        )


def kinetic_temperature(velocity: Position, variance: Scalar) -> Scalar:
    """|v|^2 / (dim variance): 1 on average where the velocity has its stationary variance, l T."""
    return jnp.sum(velocity**2) / (velocity.size * variance)
