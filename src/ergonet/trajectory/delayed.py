"""A trajectory of fixed length that gets a second, more careful one if its end is rejected.

From z = (q, r), the first proposal is z1 = F z: L steps of size e, then the momentum negated. Where z1 is rejected, the
second is z2 = S z: L steps of size e / reduction, likewise negated. With a(z) = min(1, e^(H(z) - H(F z))), it is
accepted with probability

    min(1, [e^-H(z2) (1 - a(z2))] / [e^-H(z) (1 - a(z))])

which balances because F and S are involutions that preserve volume: whoever is at z2 must have rejected F z2 as well.
That costs a third trajectory, from z2 and of size e. One uniform u decides both, because (u - a) / (1 - a) is uniform
where u is not below a: the second proposal is accepted if u < a(z) + min(1 - a(z), e^(H(z) - H(z2)) (1 - a(z2))), and
the third trajectory is left out where no a(z2) could make that true. Source: Modi2024, where the second trajectory has
as long a time in place of as many steps.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import like
from ergonet._types import Count, Flag, Scalar
from ergonet.hamiltonian.energy import acceptance, rejection
from ergonet.hamiltonian.integrator import Composition
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.hamiltonian.phase import Phase
from ergonet.target.contract import AbstractDensity

FIRST, SECOND, BACK, DONE = 0, 1, 2, 3  # the trajectory that is under way


class DelayedTrajectory(eqx.Module):
    """The start, the current end of the trajectory that is under way, and the second proposal.

    Energies of what has not been reached are infinite.
    """

    start: Phase
    phase: Phase
    second: Phase
    energy_start: Scalar
    energy: Scalar  # of `phase`
    first_energy: Scalar
    second_energy: Scalar
    stage: Count
    steps_left: Count  # of the trajectory that is under way
    num_steps: Count  # of each
    taken: Count  # of all
    step_size: Scalar  # of the first
    uniform: Scalar  # decides acceptance; drawn at the start, so that tests can set it

    @property
    def probabilities(self) -> tuple[Scalar, Scalar]:
        """Of the first proposal, and of the second, once the way back from it is known."""
        first = acceptance(self.energy_start, self.first_energy)
        way_back = rejection(self.second_energy, self.energy)
        balanced = jnp.where(way_back > 0, self._second_weight * way_back, 0.0)  # the weight may be infinite
        return first, jnp.minimum(rejection(self.energy_start, self.first_energy), balanced)

    @property
    def is_first(self) -> Flag:
        """Whether the first proposal is accepted."""
        return self.uniform < self.probabilities[0]

    @property
    def is_second(self) -> Flag:
        """Whether the second proposal is accepted."""
        return ~self.is_first & (self.uniform < sum(self.probabilities))

    @property
    def can_be_second(self) -> Flag:
        """Whether the second proposal would be accepted if the way back from it were surely rejected."""
        return self.uniform < self.probabilities[0] + self._second_weight

    @property
    def _second_weight(self) -> Scalar:
        """e^(H(z) - H(z2)), 0 where H(z2) is not finite."""
        weight = jnp.exp(self.energy_start - self.second_energy)
        return jnp.where(jnp.isfinite(self.second_energy), weight, 0.0)


class Delayed(eqx.Module):
    """A trajectory of `num_steps` steps, and another of steps divided by `reduction` if the first end is rejected."""

    integrator: Composition
    reduction: float

    def begin(self, start: Phase, step_size: Scalar, num_steps: Count, uniform: Scalar) -> DelayedTrajectory:
        """Begin the first trajectory at its start."""
        energy = start.energy
        never, none = jnp.full_like(energy, jnp.inf), jnp.zeros_like(num_steps)
        return DelayedTrajectory(
            start=start,
            phase=start,
            second=start,
            energy_start=energy,
            energy=energy,
            first_energy=never,
            second_energy=never,
            stage=none,
            steps_left=num_steps,
            num_steps=num_steps,
            taken=none,
            step_size=step_size,
            uniform=uniform,
        )

    def advance(
        self, target: AbstractDensity, metric: AbstractMetric, trajectory: DelayedTrajectory
    ) -> DelayedTrajectory:
        """Take one integrator step, and go over to the next trajectory at the end of one."""
        careful = trajectory.step_size / like(self.reduction, trajectory.step_size)
        step_size = jnp.where(trajectory.stage == SECOND, careful, trajectory.step_size)
        phase = self.integrator.step(target, metric, step_size, trajectory.phase)
        moved = replace(
            trajectory,
            phase=phase,
            energy=phase.energy,
            steps_left=trajectory.steps_left - 1,
            taken=trajectory.taken + 1,
        )
        is_ended = (moved.steps_left <= 0) | ~jnp.isfinite(moved.energy)
        return _where(is_ended, self._ended(moved), moved)

    def finished(self, trajectory: DelayedTrajectory) -> Flag:
        """True once it is known which state the transition leaves."""
        return trajectory.stage == DONE

    def _ended(self, at: DelayedTrajectory) -> DelayedTrajectory:
        """What comes after a trajectory that has ended."""
        is_first, is_second = at.stage == FIRST, at.stage == SECOND
        turned = replace(at.phase, momentum=-at.phase.momentum)
        known = replace(
            at,
            first_energy=jnp.where(is_first, at.energy, at.first_energy),
            second_energy=jnp.where(is_second, at.energy, at.second_energy),
            second=_where(is_second, turned, at.second),
            steps_left=at.num_steps,
        )
        goes_on = (is_first & ~known.is_first) | (is_second & known.can_be_second)
        again = replace(
            known,
            phase=_where(is_first, at.start, turned),
            energy=jnp.where(is_first, at.energy_start, at.energy),
            stage=at.stage + 1,
        )
        return _where(goes_on, again, replace(known, stage=jnp.full_like(at.stage, DONE)))


def _where(condition: Flag, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda one, other: jnp.where(condition, one, other), yes, no)
