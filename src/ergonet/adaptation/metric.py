"""The learner of metrics: accumulates moments of what a metric observes, and makes the metric from them."""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Count, Flag
from ergonet.adaptation import welford
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.adaptation.welford import Moments
from ergonet.hamiltonian.metric import AbstractMetric
from ergonet.samplers.base import State, Tuning
from ergonet.target.contract import AbstractDensity


class MetricMemory(eqx.Module):
    """Moments of the stage so far, and the number of learned metrics that were not finite."""

    moments: Moments
    rejected: Count


class MetricLearner(AbstractLearner):
    """Accumulates moments and replaces the metric at the end of its stage.

    A metric that is not finite would cause every later transition to be rejected. Such a metric is counted as rejected,
    and the previous metric is kept.
    """

    learns: ClassVar[str] = "metric"
    fewest_transitions: ClassVar[int] = 3
    rescales: ClassVar[bool] = True

    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> MetricMemory:
        observed = tuning.metric.observed(state.position, state.gradient)
        moments = welford.blank(observed, tuning.metric.blank_moments(state.position))
        return MetricMemory(moments=moments, rejected=jnp.zeros((), jnp.int32))

    def observe(self, memory: MetricMemory, tuning: Tuning, transition: Transition) -> tuple[MetricMemory, Tuning]:
        observed = tuning.metric.observed(transition.after.position, transition.after.gradient)
        return MetricMemory(welford.observe(memory.moments, observed), memory.rejected), tuning

    def finish(self, memory: MetricMemory, tuning: Tuning, ending: Ending) -> tuple[MetricMemory, Tuning]:
        moments = memory.moments
        renewed = tuning.metric.learned(moments.count, moments.mean, moments.squares)
        due, finite = ending.active & (moments.count >= self.fewest_transitions), _is_finite(renewed)
        metric = _where(due & finite, renewed, tuning.metric)
        blank = welford.blank(moments.mean, moments.squares)
        memory = MetricMemory(_where(ending.active, blank, moments), memory.rejected + (due & ~finite))
        return memory, eqx.tree_at(lambda one: one.metric, tuning, metric)

    def report(self, memory: MetricMemory) -> dict[str, Count]:
        return {"rejected_metrics": memory.rejected}


def _where(flag: Flag, new: Any, old: Any) -> Any:
    return jax.tree.map(lambda one, other: jnp.where(flag, one, other), new, old)


def _is_finite(metric: AbstractMetric) -> Flag:
    return jax.tree.reduce(lambda so_far, leaf: so_far & jnp.all(jnp.isfinite(leaf)), metric, jnp.ones((), bool))
