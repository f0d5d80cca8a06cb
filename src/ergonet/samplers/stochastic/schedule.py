"""Schedules of the step size of minibatch kernels."""

import abc
import math

import jax.numpy as jnp

from ergonet._numbers import AbstractSettings, integer, real, whole
from ergonet._types import Count, Flag, Scalar
from ergonet.samplers import _settings as check


class AbstractSchedule(AbstractSettings):
    """The step size as a multiple of the initial one."""

    @abc.abstractmethod
    def factor(self, number: Count) -> Scalar:
        """The factor of step `number`, counted from 0; in (0, 1]."""

    @abc.abstractmethod
    def samples(self, number: Count) -> Flag:
        """Whether a draw after this step counts in averages."""


class Constant(AbstractSchedule):
    """A constant step size."""

    def factor(self, number: Count) -> Scalar:
        return jnp.ones(())

    def samples(self, number: Count) -> Flag:
        return jnp.ones((), bool)


class Polynomial(AbstractSchedule):
    """(1 + t / scale)^-power after t steps: a (b + t)^-gamma of WellingTeh2011, with b = scale and gamma = power.

    Averages weight each draw by its step size (ChenReport, section 4.2).
    """

    scale: float
    power: float

    def __init__(self, *, scale: float = 1000.0, power: float = 0.55):
        """Check and keep the settings.

        Args:
            scale: number of steps after which the step size has decreased to 2^-power, above 0.
            power: above 0; in (0.5, 1] the sum of the step sizes diverges while the sum of their squares converges.
        """
        check.require_positive("Polynomial", "scale", scale)
        check.require_positive("Polynomial", "power", power)
        self.scale, self.power = real(scale), real(power)

    def factor(self, number: Count) -> Scalar:
        return (1.0 + number / self.scale) ** -self.power

    def samples(self, number: Count) -> Flag:
        return jnp.ones((), bool)


class Cyclical(AbstractSchedule):
    """Half a cosine from 1 to 0 in each cycle; draws count only in the last part of a cycle.

    Large steps find a mode, small steps sample it. Source: Zhang2020, equation 1.
    """

    period: int
    exploration: float

    def __init__(self, *, period: int, exploration: float = 0.8):
        """Check and keep the settings.

        Args:
            period: number of minibatch steps of a cycle, at least 2.
            exploration: fraction of a cycle before its draws count, in [0, 1).
        """
        check.require_integer("Cyclical", "period", period, 2)
        check.require_share("Cyclical", "exploration", exploration)
        self.period, self.exploration = integer(period), real(exploration)

    def factor(self, number: Count) -> Scalar:
        period = whole(self.period)
        left = (period - number % period) / period
        # This form of the half cosine does not round to 0 at the end of a long cycle.
        return jnp.sin(0.5 * math.pi * left) ** 2

    def samples(self, number: Count) -> Flag:
        return self._phase(number) >= self.exploration

    def _phase(self, number: Count) -> Scalar:
        period = whole(self.period)
        return (number % period) / period
