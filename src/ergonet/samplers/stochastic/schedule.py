"""How the step size of a minibatch kernel changes along a run."""

import abc
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from ergonet import _named
from ergonet._types import Count, Flag, Scalar
from ergonet.samplers import _settings as check


class AbstractSchedule(eqx.Module):
    """The step size as a multiple of the first one."""

    @abc.abstractmethod
    def factor(self, number: Count) -> Scalar:
        """Of step `number`, counted from 0; in (0, 1]."""

    @abc.abstractmethod
    def samples(self, number: Count) -> Flag:
        """Whether a draw after that step counts in averages."""


class Constant(AbstractSchedule):
    """The same step size always."""

    def factor(self, number: Count) -> Scalar:
        return jnp.ones(())

    def samples(self, number: Count) -> Flag:
        return jnp.ones((), bool)


class Polynomial(AbstractSchedule):
    """(1 + t / scale)^-power after t steps: a (b + t)^-gamma of Welling and Teh 2011, with b = scale, gamma = power.

    Averages weigh each draw by its step size (002, section 4.2).
    """

    scale: float = eqx.field(static=True)
    power: float = eqx.field(static=True)

    def __init__(self, *, scale: float = 1000.0, power: float = 0.55):
        """Check and keep the settings.

        Args:
            scale: steps after which the step size has fallen to 2^-power, above 0.
            power: in (0.5, 1] for the step sizes' sum to diverge and that of their squares not to; above 0.
        """
        check.require_positive("Polynomial", "scale", scale)
        check.require_positive("Polynomial", "power", power)
        self.scale, self.power = float(scale), float(power)

    def factor(self, number: Count) -> Scalar:
        return (1.0 + number / self.scale) ** -self.power

    def samples(self, number: Count) -> Flag:
        return jnp.ones((), bool)


class Cyclical(AbstractSchedule):
    """Half a cosine from 1 to 0 in each cycle, then from 1 again; draws count in the last part of a cycle only.

    Zhang, Li, Zhang, Chen and Wilson 2020, equation 1: large steps find a mode, small ones sample it.
    """

    period: int = eqx.field(static=True)
    exploration: float = eqx.field(static=True)

    def __init__(self, *, period: int, exploration: float = 0.8):
        """Check and keep the settings.

        Args:
            period: minibatch steps of a cycle, at least 2.
            exploration: share of a cycle before its draws count, in [0, 1).
        """
        check.require_integer("Cyclical", "period", period, 2)
        check.require_share("Cyclical", "exploration", exploration)
        self.period, self.exploration = int(period), float(exploration)

    def factor(self, number: Count) -> Scalar:
        left = (self.period - number % self.period) / self.period
        # The half cosine in a form that does not round to 0 at the end of a long cycle.
        return jnp.sin(0.5 * math.pi * left) ** 2

    def samples(self, number: Count) -> Flag:
        return self._phase(number) >= self.exploration

    def _phase(self, number: Count) -> Scalar:
        return (number % self.period) / self.period


_SCHEDULES: dict[str, Callable[..., AbstractSchedule]] = {
    "constant": Constant,
    "polynomial": Polynomial,
    "cyclical": Cyclical,
}


def schedule(name: str, settings: Mapping[str, Any] | None = None) -> AbstractSchedule:
    """The schedule of that name; raises `SettingError` where the name or a setting is not known."""
    return _named.make("schedule", name, settings, _SCHEDULES)


def resolve_schedule(choice: str | AbstractSchedule) -> AbstractSchedule:
    """A schedule as it is, or the one of that name."""
    return choice if isinstance(choice, AbstractSchedule) else schedule(choice)
