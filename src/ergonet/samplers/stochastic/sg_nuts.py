"""The no-U-turn sampler on minibatches, with the friction and noise of stochastic gradient HMC.

A doubling tree whose leaves are steps q <- q + s r, r <- (1 - e C) r - s g(q) + N(0, 2 e C), s = e forwards and -e
backwards: friction and noise are the same in both directions, as the document has it, so a backward step does not
undo a forward one and no exactness is claimed. One minibatch serves a whole tree, so that its energies compare. Where
trees end and how a state is drawn are those of `NUTS`. Use it for few steps from a poor start; then go on with `SGHMC`,
which is cheaper (`HandOver`). References: 002, section 5; Hoffman and Gelman 2014.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError
from ergonet._types import Position, PRNGKey, Scalar
from ergonet.hamiltonian.integrator import AbstractIntegrator
from ergonet.hamiltonian.metric import AbstractMetric, first_metric
from ergonet.hamiltonian.phase import Phase, phase_at
from ergonet.models.target import Target
from ergonet.samplers import _settings as check
from ergonet.samplers.nuts import LARGEST_DOUBLINGS
from ergonet.samplers.stochastic.base import (
    CONSTANT,
    AbstractMinibatchKernel,
    OnRows,
    Pace,
    StepInfo,
    check_stream,
)
from ergonet.samplers.stochastic.noise import normals
from ergonet.samplers.stochastic.schedule import AbstractSchedule
from ergonet.trajectory.criterion import AbstractCriterion, resolve_criterion
from ergonet.trajectory.doubling import Doubling, DoublingTrajectory
from ergonet.trajectory.packing import packed_while_loop
from ergonet.trajectory.selection import AbstractSelection, resolve_selection

TREE_KEY = 0x1F83D9AB  # folded into the step's key for directions and selection


class FrictionStep(AbstractIntegrator):
    """An integrator step with friction and one step's worth of noise; the noise is data.

    Attributes:
        decay: e C, the share of the momentum that a step takes away; in (0, 1).
        noise: N(0, 1) by coordinate.
    """

    decay: float
    noise: Position

    @property
    def gradients_per_step(self) -> int:
        return 1

    def step(self, target: Target, metric: AbstractMetric, step_size: Scalar, phase: Phase) -> Phase:
        position = phase.position + step_size * metric.to_position(phase.momentum)
        there = phase_at(target, position, phase.momentum)
        momentum = (1 - self.decay) * phase.momentum - step_size * metric.to_momentum(there.gradient)
        momentum = momentum + jnp.sqrt(2 * self.decay) * self.noise
        return Phase(position=position, momentum=momentum, potential=there.potential, gradient=there.gradient)


class SGNUTSState(eqx.Module):
    """Where a chain is."""

    position: Position


class SGNUTS(AbstractMinibatchKernel):
    """The no-U-turn sampler on minibatches; see the module's docstring. One step is one tree."""

    learning_rate: float | None = eqx.field(static=True)
    momentum_decay: float = eqx.field(static=True)
    max_doublings: int = eqx.field(static=True)
    criterion: AbstractCriterion
    selection: AbstractSelection
    schedule: AbstractSchedule
    batch_size: int = eqx.field(static=True)
    steps_per_draw: int | None = eqx.field(static=True)

    def __init__(
        self,
        *,
        learning_rate: float | None = None,
        momentum_decay: float = 0.01,
        max_doublings: int = 6,
        criterion: str | AbstractCriterion = "generalised",
        selection: str | AbstractSelection = "multinomial",
        batch_size: int = 100,
        steps_per_draw: int | None = None,
    ):
        """Check and keep the settings.

        Args:
            learning_rate: e^2, above 0; None: found by a short search on the loss.
            momentum_decay: e C, in [0, 1).
            max_doublings: at most 2^max_doublings - 1 steps in a tree; 1 to 20.
            criterion: when a tree ends; as in `NUTS`.
            selection: how a state is drawn; as in `NUTS`.
            batch_size: rows of a minibatch, at least 1.
            steps_per_draw: trees of a draw, at least 1; None: as many as an epoch has minibatches.

        Raises:
            SettingError: a setting is out of its range.
        """
        check_stream("SGNUTS", batch_size, steps_per_draw, learning_rate)
        check.require_share("SGNUTS", "momentum_decay", momentum_decay)
        check.require_integer("SGNUTS", "max_doublings", max_doublings, 1)
        if max_doublings > LARGEST_DOUBLINGS:
            raise SettingError(f"`SGNUTS(max_doublings=...)` must be at most {LARGEST_DOUBLINGS}, got {max_doublings}.")
        self.learning_rate = learning_rate
        self.momentum_decay = float(momentum_decay)
        self.max_doublings = int(max_doublings)
        self.criterion = resolve_criterion("SGNUTS", criterion)
        self.selection = resolve_selection("SGNUTS", selection)
        self.schedule = CONSTANT
        self.batch_size = int(batch_size)
        self.steps_per_draw = None if steps_per_draw is None else int(steps_per_draw)

    def init(self, key: PRNGKey, target: Target, position: Position, step_size: Scalar) -> SGNUTSState:
        return SGNUTSState(position)

    def step(
        self, key: PRNGKey, target: Target, state: SGNUTSState, rows: Any, pace: Pace
    ) -> tuple[SGNUTSState, StepInfo]:
        seen = OnRows(target, rows)
        metric = first_metric("identity", state.position)
        momentum = normals(key, target.dim, state.position.dtype)
        start = phase_at(seen, state.position, momentum)
        tree = self._doubling(jnp.zeros_like(momentum)).begin(jax.random.fold_in(key, TREE_KEY), metric, start)

        def grow(tree: DoublingTrajectory) -> DoublingTrajectory:
            noise = normals(jax.random.fold_in(key, 1 + tree.subtree.num_states), target.dim, momentum.dtype)
            return self._doubling(noise).advance(seen, metric, jnp.sqrt(pace.step_size), tree)

        tree = packed_while_loop(lambda tree: ~tree.finished, grow, tree)
        draw, leaves = tree.draw, tree.subtree
        return SGNUTSState(draw.position), StepInfo(
            potential=draw.potential,
            temperature=2 * (draw.energy - draw.potential) / target.dim,
            acceptance=leaves.sum_acceptance / jnp.maximum(leaves.num_states, 1),
            gradients=1 + leaves.num_states,
            clipped=jnp.zeros_like(draw.potential),
        )

    def _doubling(self, noise: Position) -> Doubling:
        integrator = FrictionStep(decay=self.momentum_decay, noise=noise)
        return Doubling(self.criterion, self.selection, integrator, self.max_doublings)
