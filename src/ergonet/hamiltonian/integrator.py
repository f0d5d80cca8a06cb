"""Symplectic integrators as palindromic lists of coefficients.

A step alternates kicks `r -= b e L^T grad U(q)` and drifts `q += a e L r` with palindromic coefficients b1, a1, b2,
..., a1, b1, so every integrator here is reversible, volume preserving and symmetric. The gradient at the end of a step
is carried to the next, so a step costs one gradient per drift. Sources: leapfrog, Neal2011, section 2.3; two-stage,
Blanes2014; minimal norm, McLachlan1995; fourth order, Yoshida1990.
"""

import abc
from dataclasses import replace

import equinox as eqx
from jax import lax

from ergonet._checks import is_number
from ergonet._errors import SettingError
from ergonet._types import Position, Scalar
from ergonet.hamiltonian.box import AbstractSpace, FreeSpace
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import AbstractPoint, Phase, phase_at
from ergonet.target.contract import AbstractDensity


class AbstractIntegrator(eqx.Module):
    """One step along a trajectory."""

    @property
    @abc.abstractmethod
    def gradients_per_step(self) -> int:
        """Potential gradients that one step costs."""

    @abc.abstractmethod
    def step(self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, start: AbstractPoint) -> Phase:
        """Take one step of signed size `step_size` from `start`; the end has a force if the start has one."""


class Composition(AbstractIntegrator):
    """A palindromic kick-drift-kick integrator.

    Attributes:
        coefficients: b1, a1, b2, ..., b1 of odd length; kicks and drifts each sum to one.
        space: where positions may be; a box reflects drifts from its walls.
    """

    coefficients: tuple[float, ...] = eqx.field(static=True)
    space: AbstractSpace = eqx.field(default_factory=FreeSpace)

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

    def step(self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, start: AbstractPoint) -> Phase:
        kicks, drifts = self.coefficients[::2], self.coefficients[1::2]
        force = metric.to_momentum(start.gradient) if start.force is None else start.force
        momentum = start.momentum - (kicks[0] * step_size) * force
        phase = self._drift(target, metric, drifts[0] * step_size, start.position, momentum)
        for kick, drift in zip(kicks[1:-1], drifts[1:], strict=True):
            momentum = phase.momentum - (kick * step_size) * metric.to_momentum(phase.gradient)
            phase = self._drift(target, metric, drift * step_size, phase.position, momentum)
        force = metric.to_momentum(phase.gradient)
        momentum = phase.momentum - (kicks[-1] * step_size) * force
        return replace(phase, momentum=momentum, force=None if start.force is None else force)

    def _drift(
        self, target: AbstractDensity, metric: AbstractMetric, time: Scalar, position: Position, momentum: Position
    ) -> Phase:
        position, momentum = self.space.drift(metric, time, position, momentum)
        position = lax.optimization_barrier(position)  # otherwise XLA recomputes it for each of its readers
        return phase_at(target, position, momentum)


_B_TWO_STAGE = 0.21178
_B_MINIMAL_NORM = 0.1931833275037836
_CUBE = 2.0 ** (1.0 / 3.0)
_YOSHIDA_OUTER = 1.0 / (2.0 - _CUBE)
_YOSHIDA_INNER = 1.0 - 2.0 * _YOSHIDA_OUTER


def leapfrog() -> Composition:
    """Half a kick, a drift, half a kick: order 2, one gradient per step."""
    return Composition((0.5, 1.0, 0.5))


def two_stage() -> Composition:
    """Two stages: order 2, two gradients per step."""
    return Composition((_B_TWO_STAGE, 0.5, 1.0 - 2.0 * _B_TWO_STAGE, 0.5, _B_TWO_STAGE))


def minimal_norm() -> Composition:
    """Two stages with the smallest error norm: order 2, two gradients per step."""
    return Composition((_B_MINIMAL_NORM, 0.5, 1.0 - 2.0 * _B_MINIMAL_NORM, 0.5, _B_MINIMAL_NORM))


def yoshida() -> Composition:
    """Three leapfrog steps, the middle one backward: order 4, three gradients per step."""
    kicks = (_YOSHIDA_OUTER / 2, (_YOSHIDA_OUTER + _YOSHIDA_INNER) / 2)
    return Composition(
        (kicks[0], _YOSHIDA_OUTER, kicks[1], _YOSHIDA_INNER, kicks[1], _YOSHIDA_OUTER, kicks[0]),
    )
