"""Hamiltonian Monte Carlo in a box.

The target is restricted to the positions with lower <= q < upper: drifts are reflected from the walls
(`hamiltonian/box.py`), as often as a step needs, and everything else is the transition of another kernel, whose
trajectories may have a fixed length, windows, or be doubled until they make a U-turn; microcanonical directions are
reflected, too. The transition is exact under every metric: with the identity and diagonal ones, the bounces of a step
are one closed form; with a dense one, the path is followed from wall to wall. References: Neal2011, section 5.1;
Kim2018, Algorithm 2 (with one bounce only).
"""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._errors import SettingError, shown
from ergonet._types import Flag, Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic
from ergonet.hamiltonian.box import Box
from ergonet.hamiltonian.integrator import Composition
from ergonet.samplers.base import AbstractInfo, AbstractKernel, State, Tuning, WarmupNeeds
from ergonet.samplers.hmc import HMC, AbstractAroundHMC, AbstractStatic
from ergonet.samplers.mclmc import MCLMC
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.tree import AbstractTreeKernel
from ergonet.target.contract import AbstractDensity

_UPDATES = {"hmc": HMC, "nuts": NUTS}


class ConstrainedHMC(AbstractKernel):
    """Hamiltonian Monte Carlo in a box; see the module's docstring for the transition."""

    box: Box
    update: AbstractKernel

    def __init__(self, lower: Any = -math.inf, upper: Any = math.inf, *, update: str | AbstractKernel = "hmc"):
        """Check and keep the settings.

        Args:
            lower: lower walls `[dim]`, or a number for all coordinates; -inf: no wall.
            upper: upper walls, likewise; inf: no wall.
            update: kernel whose trajectories are reflected: `hmc`, `nuts`, or a kernel of them with settings, such as
                `NUTS(target_acceptance=0.9)`, or `XHMC`, `DelayedRejectionHMC`, `WindowedHMC`, `MALA`, `MAMS` or
                `MCLMC`.

        Raises:
            SettingError: a lower wall is not below the upper one, or a kernel has no such trajectories.
        """
        self.box = Box(lower, upper)
        chosen = _UPDATES[update]() if isinstance(update, str) and update in _UPDATES else update
        if not isinstance(chosen, AbstractStatic | AbstractAroundHMC | AbstractTreeKernel | MCLMC):
            raise SettingError(
                f"`ConstrainedHMC(update={shown(update)})` has no trajectories that walls can reflect. Use 'hmc', "
                "'nuts', or a kernel such as `ergonet.XHMC()`, `WindowedHMC()`, `MALA()`, `MAMS()` or `MCLMC()`."
            )
        self.update = chosen

    @property
    def max_doublings(self) -> int | None:
        """Maximum tree depth of the update; None if it has no trees."""
        return getattr(self.update, "max_doublings", None)

    @property
    def is_corrected(self) -> bool:
        return self.update.is_corrected

    @property
    def _inside(self) -> Any:
        """The update with every integrator in the box."""
        return jax.tree.map(
            lambda one: Composition(one.coefficients, self.box) if isinstance(one, Composition) else one,
            self.update,
            is_leaf=lambda one: isinstance(one, Composition),
        )

    def check_target(self, target: AbstractDensity) -> None:
        self.update.check_target(target)

    def check_starts(self, dim: int, positions: np.ndarray | None) -> None:
        self.box.check(dim, positions)

    def start_near(self, position: Position) -> Position:
        return self.box.folded(position)

    def statistics(self) -> tuple[Statistic, ...]:
        return self.update.statistics()

    @property
    def evaluate(self) -> Callable[[AbstractDensity, Position], State]:
        return self.update.evaluate

    def state_at(self, target: AbstractDensity, evaluated: State) -> State:
        return self.update.state_at(target, evaluated)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> eqx.Module:
        return self._inside.begin(key, target, state, tuning)

    def advance(self, target: AbstractDensity, trajectory: eqx.Module, tuning: Tuning) -> eqx.Module:
        return self._inside.advance(target, trajectory, tuning)

    def complete(self, target: AbstractDensity, trajectory: eqx.Module, tuning: Tuning) -> eqx.Module:
        return self._inside.complete(target, trajectory, tuning)

    def finished(self, trajectory: eqx.Module) -> Flag:
        return self.update.finished(trajectory)

    def conclude(self, trajectory: eqx.Module) -> tuple[State, AbstractInfo]:
        return self.update.conclude(trajectory)

    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        return self.update.tuning(target, position)

    def warmup(self) -> WarmupNeeds:
        return self.update.warmup()

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        return self._inside.probe(key, target, state, tuning)
