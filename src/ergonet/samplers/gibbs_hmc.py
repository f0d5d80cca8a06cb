"""Gibbs sampling of hyperparameters, Hamiltonian updates of the weights.

Draw every precision from its conditional distribution given the weights, tau | w ~ Gamma((alpha + n) / 2, rate (alpha /
omega + sum w^2) / 2), and the noise precision in the same way given the residuals; then update the weights at fixed
precisions with any trajectory kernel. Step sizes are adapted, or are Neal's e_i = eta / sqrt(curvature_i), computed
from the current precisions. Use it if the precisions are well determined by many weights or rows; otherwise weights and
precisions constrain each other, and a joint kernel with a non-centered prior mixes faster. References: Neal1996,
sections 3.2 to 3.5; Choo2000, chapter 3; Lau2018, Algorithm 15.
"""

import abc
from collections.abc import Callable
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError, suggest
from ergonet._types import Array, Flag, Float, Position, PRNGKey, Scalar
from ergonet.draws.statistics import Statistic
from ergonet.hamiltonian.metric import AbstractMetric, DiagonalMetric, IdentityMetric
from ergonet.samplers.base import AbstractInfo, AbstractKernel, State, Tuning, WarmupNeeds
from ergonet.samplers.delayed_rejection_hmc import DelayedRejectionHMC
from ergonet.samplers.hmc import HMC, AbstractAroundHMC
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.tree import AbstractTreeKernel
from ergonet.samplers.windowed_hmc import WindowedHMC
from ergonet.samplers.xhmc import XHMC
from ergonet.target.capabilities import Capability, GibbsBlock, WeightCurvature
from ergonet.target.contract import AbstractDensity, require
from ergonet.target.views import WeightsGiven

GIBBS_KEY = 0x6A09E667  # folded into the transition's key; larger than any counter used by the update
_UPDATES = {
    "nuts": NUTS,
    "hmc": HMC,
    "delayed-rejection": DelayedRejectionHMC,
    "xhmc": XHMC,
    "windowed": WindowedHMC,
}


class GibbsTrajectory(eqx.Module):
    """The update's trajectory at fixed hyperparameters.

    It is `fresh` until the first advance, which evaluates the gradient given the new hyperparameters.
    """

    update: eqx.Module
    weights: Float[Array, "weights"]
    hyperparameters: Float[Array, "hyperparameters"]
    metric: AbstractMetric
    key: PRNGKey
    fresh: Flag

    def given(self, target: AbstractDensity) -> WeightsGiven:
        """The conditional density of the weights."""
        return WeightsGiven(target=target, hyperparameters=self.hyperparameters, dim=self.weights.size)

    def moved(self, update: eqx.Module) -> "GibbsTrajectory":
        """Replace the update's trajectory after an advance; the result is no longer fresh."""
        return eqx.tree_at(lambda t: (t.update, t.fresh), self, (update, jnp.zeros((), bool)))


class AbstractStepSizes(eqx.Module):
    """The source of the metric of the weights."""

    @abc.abstractmethod
    def needs(self) -> tuple[type[Capability], ...]:
        """The capabilities that are needed of the target."""

    @abc.abstractmethod
    def metric(self, target: AbstractDensity, tuning: Tuning, hyperparameters: Array) -> AbstractMetric:
        """The metric of the weights, given the hyperparameters."""


class Adapted(AbstractStepSizes):
    """The metric learned by the warm-up."""

    def needs(self) -> tuple[type[Capability], ...]:
        return (GibbsBlock,)

    def metric(self, target: AbstractDensity, tuning: Tuning, hyperparameters: Array) -> AbstractMetric:
        return tuning.metric.leading(_blocks(target).num_weights)


class Curvature(AbstractStepSizes):
    """Neal's e_i = eta / sqrt(curvature_i); the step size is eta."""

    def needs(self) -> tuple[type[Capability], ...]:
        return (GibbsBlock, WeightCurvature)

    def metric(self, target: AbstractDensity, tuning: Tuning, hyperparameters: Array) -> AbstractMetric:
        curvature = require(target, WeightCurvature, "GibbsHMC")
        return DiagonalMetric(scale=jax.lax.rsqrt(curvature.of_weights(hyperparameters)))


_STEP_SIZES = {"adapted": Adapted, "curvature": Curvature}


class GibbsHMC(AbstractKernel):
    """Gibbs sampling of hyperparameters, Hamiltonian updates of the weights; see the module's docstring."""

    update: AbstractKernel
    step_sizes: AbstractStepSizes

    def __init__(self, update: str | AbstractKernel = "nuts", *, step_sizes: str | AbstractStepSizes = "adapted"):
        """Check and keep the settings.

        Args:
            update: kernel for the weights: `nuts`, `hmc`, `delayed-rejection`, `xhmc`, `windowed`, or a kernel such as
                `HMC(num_steps=400)`.
            step_sizes: `adapted` (the metric of the update), or `curvature`, with which the update's `step_size` is
                eta.

        Raises:
            SettingError: a name is unknown.
        """
        if isinstance(update, str) and update not in _UPDATES:
            raise SettingError(f"`GibbsHMC(update={update!r})` is not known. {suggest(update, _UPDATES)}")
        chosen = _UPDATES[update]() if isinstance(update, str) else update
        if not isinstance(chosen, AbstractTreeKernel | HMC | AbstractAroundHMC):
            known = ", ".join(_UPDATES)
            raise SettingError(f"`GibbsHMC(update=...)` must be a kernel of these: {known}; got {update!r}.")
        if isinstance(step_sizes, str) and step_sizes not in _STEP_SIZES:
            raise SettingError(
                f"`GibbsHMC(step_sizes={step_sizes!r})` is not known. {suggest(step_sizes, _STEP_SIZES)}"
            )
        self.update = chosen
        self.step_sizes = _STEP_SIZES[step_sizes]() if isinstance(step_sizes, str) else step_sizes

    @property
    def max_doublings(self) -> int | None:
        """Maximum tree depth of the update; None if it has no trees."""
        return getattr(self.update, "max_doublings", None)

    def statistics(self) -> tuple[Statistic, ...]:
        return self.update.statistics()

    @property
    def evaluate(self) -> Callable[[AbstractDensity, Position], State]:
        return self.update.evaluate

    def check_target(self, target: AbstractDensity) -> None:
        for kind in self.step_sizes.needs():
            require(target, kind, "GibbsHMC")

    def state_at(self, target: AbstractDensity, evaluated: State) -> State:
        return self.update.state_at(target, evaluated)

    def begin(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> GibbsTrajectory:
        blocks = _blocks(target)
        hyperparameters = blocks.draw(jax.random.fold_in(key, GIBBS_KEY), state.position)
        metric = self.step_sizes.metric(target, tuning, hyperparameters)
        weights = state.position[: blocks.num_weights]
        given = WeightsGiven(target=target, hyperparameters=hyperparameters, dim=blocks.num_weights)
        stale = State(position=weights, potential=state.potential, gradient=state.gradient[: blocks.num_weights])
        return GibbsTrajectory(
            update=self.update.begin(key, given, stale, _with(tuning, metric)),
            weights=weights,
            hyperparameters=hyperparameters,
            metric=metric,
            key=key,
            fresh=jnp.ones((), bool),
        )

    def advance(self, target: AbstractDensity, trajectory: GibbsTrajectory, tuning: Tuning) -> GibbsTrajectory:
        given, tuning = trajectory.given(target), _with(tuning, trajectory.metric)
        update = jax.lax.cond(
            trajectory.fresh,
            lambda _: self._started(given, trajectory, tuning),
            lambda moving: self.update.advance(given, moving, tuning),
            trajectory.update,
        )
        return trajectory.moved(update)

    def complete(self, target: AbstractDensity, trajectory: GibbsTrajectory, tuning: Tuning) -> GibbsTrajectory:
        given, tuning = trajectory.given(target), _with(tuning, trajectory.metric)
        return trajectory.moved(self.update.complete(given, self._started(given, trajectory, tuning), tuning))

    def _started(self, given: WeightsGiven, trajectory: GibbsTrajectory, tuning: Tuning) -> eqx.Module:
        return self.update.begin(trajectory.key, given, self.update.init(given, trajectory.weights), tuning)

    def finished(self, trajectory: GibbsTrajectory) -> Flag:
        return ~trajectory.fresh & self.update.finished(trajectory.update)

    def conclude(self, trajectory: GibbsTrajectory) -> tuple[State, AbstractInfo]:
        state, info = self.update.conclude(trajectory.update)
        held = trajectory.hyperparameters
        whole = State(
            position=jnp.concatenate([state.position, held]),
            potential=state.potential,
            # Gradient by the weights; the gradient by the hyperparameters is not read.
            gradient=jnp.concatenate([state.gradient, jnp.zeros_like(held)]),
        )
        return whole, eqx.tree_at(lambda one: one.gradients, info, info.gradients + 1)

    def tuning(self, target: AbstractDensity, position: Position) -> Tuning:
        tuning = self.update.tuning(target, position)
        return _with(tuning, IdentityMetric()) if isinstance(self.step_sizes, Curvature) else tuning

    def warmup(self) -> WarmupNeeds:
        needs = self.update.warmup()
        if isinstance(self.step_sizes, Adapted):
            return needs
        return replace(needs, learned=tuple(name for name in needs.learned if name != "metric"))

    def probe(self, key: PRNGKey, target: AbstractDensity, state: State, tuning: Tuning) -> Scalar:
        count = _blocks(target).num_weights
        held = state.position[count:]
        part = State(position=state.position[:count], potential=state.potential, gradient=state.gradient[:count])
        metric = self.step_sizes.metric(target, tuning, held)
        given = WeightsGiven(target=target, hyperparameters=held, dim=count)
        return self.update.probe(key, given, part, _with(tuning, metric))


def _blocks(target: AbstractDensity) -> GibbsBlock:
    return require(target, GibbsBlock, "GibbsHMC")


def _with(tuning: Tuning, metric: AbstractMetric) -> Tuning:
    return replace(tuning, metric=metric)
