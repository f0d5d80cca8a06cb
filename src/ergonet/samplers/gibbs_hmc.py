"""Gibbs sampling of hyperparameters, Hamiltonian updates of the weights.

Draw every precision from its distribution given the weights, tau | w ~ Gamma((alpha + n) / 2, rate (alpha / omega +
sum w^2) / 2), and the noise precision likewise from the residuals; then move the weights with the precisions held, by
any trajectory. Step sizes are adapted, or Neal's e_i = eta / sqrt(curvature_i) from the present precisions. Use it
where precisions are well determined by many weights or rows; where they are not, weights and precisions hold each
other and a joint kernel on a non-centred prior moves faster. References: Neal 1996, sections 3.2 to 3.5; Choo 2000,
chapter 3; Lau 2018, Algorithm 15.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._errors import SettingError, suggest
from ergonet._types import Array, Flag, Float, Position, PRNGKey, Scalar
from ergonet.hamiltonian.metric import AbstractMetric, DiagonalMetric, IdentityMetric
from ergonet.models.target import HierarchicalTarget, Target
from ergonet.samplers.base import AbstractKernel, Info, State, Tuning, WarmupNeeds
from ergonet.samplers.blocks import WeightsGiven, require_blocks
from ergonet.samplers.hmc import HMC
from ergonet.samplers.nuts import NUTS
from ergonet.samplers.windowed_hmc import WindowedHMC
from ergonet.samplers.xhmc import XHMC

GIBBS_KEY = 0x6A09E667  # folded into the transition's key; beyond any coordinate that the update counts
_UPDATES = {"nuts": NUTS, "hmc": HMC, "xhmc": XHMC, "windowed": WindowedHMC}


class GibbsTrajectory(eqx.Module):
    """The update's trajectory with the hyperparameters held.

    It is `fresh` until the gradient given the new hyperparameters has been evaluated, which is the first advance.
    """

    update: eqx.Module
    weights: Float[Array, "weights"]
    hyperparameters: Float[Array, "hyperparameters"]
    metric: AbstractMetric
    key: PRNGKey
    fresh: Flag

    def given(self, target: Target) -> WeightsGiven:
        """The density of the weights."""
        return WeightsGiven(target=target, hyperparameters=self.hyperparameters, dim=self.weights.size)

    def moved(self, update: eqx.Module) -> "GibbsTrajectory":
        """With the update's trajectory further on, and so no longer fresh."""
        return eqx.tree_at(lambda t: (t.update, t.fresh), self, (update, jnp.zeros((), bool)))


class AbstractStepSizes(eqx.Module):
    """Where the metric of the weights comes from."""

    @abc.abstractmethod
    def needs(self) -> tuple[str, ...]:
        """Capabilities of the target."""

    @abc.abstractmethod
    def metric(self, target: HierarchicalTarget, tuning: Tuning, hyperparameters: Array) -> AbstractMetric:
        """Of the weights, given the hyperparameters."""


class Adapted(AbstractStepSizes):
    """What the warm-up has learned."""

    def needs(self) -> tuple[str, ...]:
        return ("gibbs",)

    def metric(self, target: HierarchicalTarget, tuning: Tuning, hyperparameters: Array) -> AbstractMetric:
        return tuning.metric.leading(target.num_weights)


class Curvature(AbstractStepSizes):
    """Neal's e_i = eta / sqrt(curvature_i); the step size is eta."""

    def needs(self) -> tuple[str, ...]:
        return ("gibbs", "weight curvature")

    def metric(self, target: HierarchicalTarget, tuning: Tuning, hyperparameters: Array) -> AbstractMetric:
        return DiagonalMetric(scale=jax.lax.rsqrt(target.weight_curvature(hyperparameters)))


_STEP_SIZES = {"adapted": Adapted, "curvature": Curvature}


class GibbsHMC(AbstractKernel):
    """Gibbs sampling of hyperparameters, Hamiltonian updates of the weights; see the module's docstring."""

    update: AbstractKernel
    step_sizes: AbstractStepSizes

    def __init__(self, update: str | AbstractKernel = "nuts", *, step_sizes: str | AbstractStepSizes = "adapted"):
        """Check and keep the settings.

        Args:
            update: of the weights: `nuts`, `hmc`, `xhmc`, `windowed`, or a kernel such as `HMC(num_steps=400)`.
            step_sizes: `adapted` (the update's own metric), or `curvature`, where the update's `step_size` is eta.

        Raises:
            SettingError: a name is not known.
        """
        if isinstance(update, str) and update not in _UPDATES:
            raise SettingError(f"`GibbsHMC(update={update!r})` is not known. {suggest(update, _UPDATES)}")
        chosen = _UPDATES[update]() if isinstance(update, str) else update
        if not isinstance(chosen, NUTS | HMC | WindowedHMC):
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
        """Of the update's trees; None where it grows none."""
        return getattr(self.update, "max_doublings", None)

    def init(self, target: Target, position: Position) -> State:
        require_blocks("GibbsHMC", target, *self.step_sizes.needs())
        return self.update.init(target, position)

    def begin(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> GibbsTrajectory:
        blocks = require_blocks("GibbsHMC", target)
        hyperparameters = blocks.gibbs(jax.random.fold_in(key, GIBBS_KEY), state.position)
        metric = self.step_sizes.metric(blocks, tuning, hyperparameters)
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

    def advance(self, target: Target, trajectory: GibbsTrajectory, tuning: Tuning) -> GibbsTrajectory:
        given, tuning = trajectory.given(target), _with(tuning, trajectory.metric)
        update = jax.lax.cond(
            trajectory.fresh,
            lambda _: self._started(given, trajectory, tuning),
            lambda moving: self.update.advance(given, moving, tuning),
            trajectory.update,
        )
        return trajectory.moved(update)

    def complete(self, target: Target, trajectory: GibbsTrajectory, tuning: Tuning) -> GibbsTrajectory:
        given, tuning = trajectory.given(target), _with(tuning, trajectory.metric)
        return trajectory.moved(self.update.complete(given, self._started(given, trajectory, tuning), tuning))

    def _started(self, given: WeightsGiven, trajectory: GibbsTrajectory, tuning: Tuning) -> eqx.Module:
        return self.update.begin(trajectory.key, given, self.update.init(given, trajectory.weights), tuning)

    def finished(self, trajectory: GibbsTrajectory) -> Flag:
        return ~trajectory.fresh & self.update.finished(trajectory.update)

    def conclude(self, trajectory: GibbsTrajectory) -> tuple[State, Info]:
        state, info = self.update.conclude(trajectory.update)
        held = trajectory.hyperparameters
        whole = State(
            position=jnp.concatenate([state.position, held]),
            potential=state.potential,
            gradient=jnp.concatenate(
                [state.gradient, jnp.zeros_like(held)]
            ),  # of the weights; no one asks for the rest
        )
        return whole, eqx.tree_at(lambda one: one.gradients, info, info.gradients + 1)

    def tuning(self, target: Target, position: Position) -> Tuning:
        tuning = self.update.tuning(target, position)
        return _with(tuning, IdentityMetric()) if isinstance(self.step_sizes, Curvature) else tuning

    def warmup(self) -> WarmupNeeds:
        needs = self.update.warmup()
        return WarmupNeeds(
            target_acceptance=needs.target_acceptance,
            tune_step_size=needs.tune_step_size,
            learn_metric=needs.learn_metric and isinstance(self.step_sizes, Adapted),
            tune_length=needs.tune_length,
        )

    def probe(self, key: PRNGKey, target: Target, state: State, tuning: Tuning) -> Scalar:
        blocks = require_blocks("GibbsHMC", target)
        count = blocks.num_weights
        held = state.position[count:]
        part = State(position=state.position[:count], potential=state.potential, gradient=state.gradient[:count])
        metric = self.step_sizes.metric(blocks, tuning, held)
        given = WeightsGiven(target=target, hyperparameters=held, dim=count)
        return self.update.probe(key, given, part, _with(tuning, metric))


def _with(tuning: Tuning, metric: AbstractMetric) -> Tuning:
    return Tuning(step_size=tuning.step_size, metric=metric, num_steps=tuning.num_steps)
