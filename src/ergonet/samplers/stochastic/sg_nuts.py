"""The no-U-turn sampler on minibatches, with the friction and noise of stochastic gradient HMC.

The leaves of a doubling tree are steps q <- q + s r, r <- (1 - e C) r - s g(q) + N(0, 2 e C), with s = e forward and
s = -e backward. Friction and noise are the same in both directions, as in ChenReport, so a backward step does not undo
a forward step and the sampler is not exact. One minibatch is used for a whole tree, so that its energies are
comparable; but then a tree follows the posterior of its own minibatch, and the draws are too wide: long trees give them
a variance of about N / n times the truth or more for n of N rows. Termination criteria and selections are those of
`NUTS`. Use it for a few steps from poor initial values, then continue with the cheaper `SGHMC` (`SequentialKernel`).
References: ChenReport, section 5; HoffmanGelman2014.
"""

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._numbers import like, optional_integer, optional_real, real
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic, statistics
from ergonet.hamiltonian.integrator import AbstractIntegrator
from ergonet.hamiltonian.metric import AbstractMetric, first_metric
from ergonet.hamiltonian.phase import AbstractPoint, Phase, phase_at
from ergonet.samplers import _settings as check
from ergonet.samplers.stochastic.base import (
    CONSTANT,
    AbstractMinibatchKernel,
    Pace,
    TestedInfo,
    check_stream,
    rows_of,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.samplers.tree import LARGEST_DOUBLINGS
from ergonet.target.contract import AbstractDensity
from ergonet.target.views import OnRows
from ergonet.trajectory.criterion import AbstractCriterion
from ergonet.trajectory.doubling import Doubling, DoublingTrajectory
from ergonet.trajectory.packing import packed_while_loop
from ergonet.trajectory.registry import CRITERIA, SELECTIONS
from ergonet.trajectory.selection import AbstractSelection

TREE_KEY = 0x1F83D9AB  # folded into the step's key, for directions and selection


class FrictionStep(AbstractIntegrator):
    """An integrator step with friction and noise; the noise is data.

    Attributes:
        decay: e C, the fraction of the momentum that a step dissipates, in (0, 1).
        noise: N(0, 1) draws by coordinate.
    """

    decay: Scalar
    noise: Position

    @property
    def gradients_per_step(self) -> int:
        return 1

    def step(self, target: AbstractDensity, metric: AbstractMetric, step_size: Scalar, start: AbstractPoint) -> Phase:
        position = start.position + step_size * metric.to_position(start.momentum)
        there = phase_at(target, position, start.momentum)
        momentum = (1 - self.decay) * start.momentum - step_size * metric.to_momentum(there.gradient)
        return replace(there, momentum=momentum + jnp.sqrt(2 * self.decay) * self.noise)


class SGNUTSState(eqx.Module):
    """The state of a chain."""

    position: Position


class SGNUTS(AbstractMinibatchKernel):
    """The no-U-turn sampler on minibatches; see the module's docstring. One step is one tree."""

    learning_rate: float | None
    momentum_decay: float
    max_doublings: int = eqx.field(static=True)
    criterion: AbstractCriterion
    selection: AbstractSelection
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        momentum_decay: float = 0.01,
        max_doublings: int = 6,
        criterion: str | AbstractCriterion = "generalized",
        selection: str | AbstractSelection = "multinomial",
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ):
        """Check and keep the settings.

        Args:
            learning_rate: e^2, above 0; None: found by a stability search.
            momentum_decay: e C, in [0, 1).
            max_doublings: maximum tree depth, 1 to 20; a tree has at most 2^max_doublings - 1 steps.
            criterion: termination criterion, as in `NUTS`.
            selection: selection of the state, as in `NUTS`.
            batch_size: number of rows of a minibatch, at least 1.
            steps_per_draw: number of trees per draw, at least 1; None: the number of minibatches of an epoch.

        Raises:
            SettingError: a setting is out of range.
        """
        check_stream("SGNUTS", batch_size, steps_per_draw, learning_rate)
        check.require_share("SGNUTS", "momentum_decay", momentum_decay)
        check.require_doublings("SGNUTS", max_doublings, LARGEST_DOUBLINGS)
        self.learning_rate = optional_real(learning_rate)
        self.momentum_decay = real(momentum_decay)
        self.max_doublings = int(max_doublings)
        self.criterion = CRITERIA.resolve(criterion, owner="SGNUTS")
        self.selection = SELECTIONS.resolve(selection, owner="SGNUTS")
        self.schedule = CONSTANT
        self.batch_size = int(batch_size)
        self.steps_per_draw = optional_integer(steps_per_draw)

    @property
    def remedies(self) -> str:
        return (
            "raise `batch_size` (a tree follows the posterior of its own minibatch), or take trees for the first steps "
            "only, with `SequentialKernel(SGNUTS(...), SGHMC(...), after=...)`"
        )

    def statistics(self) -> tuple[Statistic, ...]:
        return statistics(TestedInfo)

    def init(self, key: PRNGKey, target: AbstractDensity, position: Position, step_size: Scalar) -> SGNUTSState:
        return SGNUTSState(position)

    def step(
        self, key: PRNGKey, target: AbstractDensity, state: SGNUTSState, rows: Any, pace: Pace
    ) -> tuple[SGNUTSState, TestedInfo]:
        seen = OnRows(data=rows_of(target), minibatch=rows, dim=target.dim)
        metric = first_metric("identity", state.position)
        momentum = normals(key, target.dim, state.position.dtype)
        start = phase_at(seen, state.position, momentum)
        tree = self._doubling(jnp.zeros_like(momentum)).begin(jax.random.fold_in(key, TREE_KEY), metric, start)

        def grow(tree: DoublingTrajectory) -> DoublingTrajectory:
            noise = normals(jax.random.fold_in(key, 1 + tree.subtree.num_states), target.dim, momentum.dtype)
            return self._doubling(noise).advance(seen, metric, jnp.sqrt(pace.step_size), tree)

        tree = packed_while_loop(lambda tree: ~tree.finished, grow, tree)
        draw, leaves = tree.draw, tree.subtree
        return SGNUTSState(draw.position), TestedInfo(
            potential=draw.potential,
            temperature=2 * (draw.energy - draw.potential) / target.dim,
            acceptance=leaves.sum_acceptance / jnp.maximum(leaves.num_states, 1),
            gradients=1 + leaves.num_states,
        )

    def _doubling(self, noise: Position) -> Doubling:
        integrator = FrictionStep(decay=like(self.momentum_decay, noise), noise=noise)
        return Doubling(self.criterion, self.selection, integrator, self.max_doublings)
