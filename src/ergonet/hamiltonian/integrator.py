"""Symplectic integrators as palindromic lists of coefficients.

A step alternates kicks `w -= b e L^T grad U(q)` and drifts `q += a e L w`, with coefficients
b1, a1, b2, ..., a1, b1 that read the same in both directions, so every integrator here is reversible,
volume preserving and symmetric. The gradient at the end of a step is carried to the next, so a step costs
one gradient per drift. Sources: leapfrog, Neal 2011 section 2.3; two-stage minimum-norm, Blanes, Casas and
Sanz-Serna 2014; fourth order, Yoshida 1990.
"""

import abc
from collections.abc import Callable

import equinox as eqx
from jax import lax

from ergonet._checks import is_number
from ergonet._errors import SettingError, suggest
from ergonet._types import Position, Scalar
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase, phase_at
from ergonet.models.target import Target

PositionMap = Callable[[Position, Position], tuple[Position, Position]]


class AbstractIntegrator(eqx.Module):
    """One step along a trajectory."""

    @property
    @abc.abstractmethod
    def gradients_per_step(self) -> int:
        """Potential gradients that one step costs."""

    @abc.abstractmethod
    def step(self, target: Target, metric: AbstractMetric, step_size: Scalar, phase: Phase) -> Phase:
        """One step of signed size `step_size` from `phase`, with a force at its end if it began with one."""


class Composition(AbstractIntegrator):
    """A palindromic kick-drift-kick integrator.

    Attributes:
        coefficients: b1, a1, b2, ..., b1 of odd length; kicks and drifts each sum to one.
        after_drift: applied to (position, momentum) after each drift, for walls that reflect; None for free space.
    """

    coefficients: tuple[float, ...] = eqx.field(static=True)
    after_drift: PositionMap | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        if not all(is_number(one) for one in self.coefficients):
            raise SettingError(f"`Composition(coefficients=...)` must be numbers, got {self.coefficients}.")
        kicks, drifts = self.coefficients[::2], self.coefficients[1::2]
        if len(self.coefficients) < 3 or len(self.coefficients) % 2 == 0:
            raise SettingError(
                "`Composition(coefficients=...)` must have an odd length of at least 3 (kick, drift, ..., kick), "
                f"got {len(self.coefficients)}."
            )
        if self.coefficients != self.coefficients[::-1]:
            raise SettingError(
                f"`Composition(coefficients=...)` must be palindromic, or the integrator is not reversible; "
                f"got {self.coefficients}."
            )
        if abs(sum(kicks) - 1) > 1e-6 or abs(sum(drifts) - 1) > 1e-6:
            raise SettingError(
                "`Composition(coefficients=...)`: kicks (even places) and drifts (odd places) must each sum to 1, "
                f"got {sum(kicks)} and {sum(drifts)}."
            )

    @property
    def gradients_per_step(self) -> int:
        return len(self.coefficients) // 2

    def step(self, target: Target, metric: AbstractMetric, step_size: Scalar, phase: Phase) -> Phase:
        kicks, drifts = self.coefficients[::2], self.coefficients[1::2]
        keeps_force = phase.force is not None
        force = metric.to_momentum(phase.gradient) if phase.force is None else phase.force
        momentum = phase.momentum - (kicks[0] * step_size) * force
        for kick, drift in zip(kicks[1:], drifts, strict=True):
            position = phase.position + (drift * step_size) * metric.to_position(momentum)
            if self.after_drift is not None:
                position, momentum = self.after_drift(position, momentum)
            position = lax.optimization_barrier(position)  # else XLA works it out anew for each of its readers
            phase = phase_at(target, position, momentum)
            force = metric.to_momentum(phase.gradient)
            momentum = momentum - (kick * step_size) * force
        return Phase(phase.position, momentum, phase.potential, phase.gradient, force if keeps_force else None)


_B_TWO_STAGE = 0.21178
_CUBE = 2.0 ** (1.0 / 3.0)
_YOSHIDA_OUTER = 1.0 / (2.0 - _CUBE)
_YOSHIDA_INNER = 1.0 - 2.0 * _YOSHIDA_OUTER

_COEFFICIENTS = {
    "leapfrog": (0.5, 1.0, 0.5),
    "two-stage": (_B_TWO_STAGE, 0.5, 1.0 - 2.0 * _B_TWO_STAGE, 0.5, _B_TWO_STAGE),
    "yoshida": (
        _YOSHIDA_OUTER / 2,
        _YOSHIDA_OUTER,
        (_YOSHIDA_OUTER + _YOSHIDA_INNER) / 2,
        _YOSHIDA_INNER,
        (_YOSHIDA_OUTER + _YOSHIDA_INNER) / 2,
        _YOSHIDA_OUTER,
        _YOSHIDA_OUTER / 2,
    ),
}


def integrator_names() -> tuple[str, ...]:
    """Known integrators: leapfrog (order 2), two-stage minimum-norm (order 2), yoshida (order 4)."""
    return tuple(_COEFFICIENTS)


def integrator(name: str) -> Composition:
    """The integrator of that name; an unknown name is a `SettingError` with the nearest ones."""
    if name not in _COEFFICIENTS:
        raise SettingError(f"`integrator={name!r}` is not known. {suggest(name, _COEFFICIENTS)}")
    return Composition(coefficients=_COEFFICIENTS[name])
