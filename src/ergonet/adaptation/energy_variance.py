"""The learner of step sizes for kernels without a Metropolis correction: energy errors of a given size.

The mean square of the energy error of a step, divided by the dimension, grows as e^6. If the errors of a transition
have the mean square r, the step size that gives v is e (r / v)^(-1/6). It is learned from a weighted mean of r / e^6
over transitions, which forgets at a rate of (150 - 1) / (150 + 1) a step, so that it follows about the last 75 steps.
The weight of a transition, exp(-(log xi)^2 / (2 (6 s)^2)) with xi = r / v + 1e-8 and s = 1.5, decreases with the
factor by which its step size was wrong. Unlike in the source, step sizes change after transitions, not after steps.

A step whose energy is not finite multiplies the largest allowed step size by 0.8, and the transition counts without
that step. A schedule v, v f, v f^2, ... allows large steps at first. Source: Robnik2023, and BlackJAX.
"""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from ergonet._types import Flag, Scalar
from ergonet.adaptation.initial_step import find_first_step, with_step_size
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.samplers import _settings as check
from ergonet.samplers.base import State, Tuning
from ergonet.samplers.mclmc import MCLMCInfo
from ergonet.target.contract import AbstractDensity

ORDER = 6  # the variance of the energy error grows as e^6
TRUST = 1.5
SMALLEST_RATIO = 1e-8
FORGETTING = (150 - 1) / (150 + 1)
SHRINKING = 0.8
LARGEST_LOG = 40.0


class EnergyErrors(eqx.Module):
    """Weighted mean of squared energy errors.

    Attributes:
        count: number of transitions of the stage so far.
        weight: sum of the weights.
        ratio: weighted mean of r / v, expressed at the present step size.
        log_limit: largest log step size.
        aim: v of the last transition.
    """

    count: Scalar
    weight: Scalar
    ratio: Scalar
    log_limit: Scalar
    aim: Scalar


class EnergyVarianceLearner(AbstractLearner):
    """Aims at a variance of energy errors; see the module's docstring.

    Attributes:
        energy_variance: mean square of the energy error of a step, per dimension, for the first transition of the
            stage; above 0.
        factor: what it is multiplied by after each transition, above 0.
    """

    learns: ClassVar[str] = "step_size"
    is_cheap: ClassVar[bool] = True

    energy_variance: Scalar | float
    factor: Scalar | float = 1.0

    def __check_init__(self):
        check.require_positive("EnergyVarianceLearner", "energy_variance", self.energy_variance)
        check.require_positive("EnergyVarianceLearner", "factor", self.factor)

    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> EnergyErrors:
        return blank(tuning.step_size)

    def observe(self, memory: EnergyErrors, tuning: Tuning, transition: Transition) -> tuple[EnergyErrors, Tuning]:
        info = transition.info
        assert isinstance(info, MCLMCInfo), "only a kernel without a Metropolis correction has an energy variance"
        aim = self.energy_variance * self.factor**memory.count
        memory, log_step = update(
            memory,
            jnp.log(tuning.step_size),
            info.energy_variance,
            aim=aim.astype(tuning.step_size.dtype),
            num_steps=info.num_steps.astype(tuning.step_size.dtype),
            nonfinite=info.nonfinite,
            is_known=info.moved | (info.energy_variance > 0),
        )
        return memory, with_step_size(tuning, jnp.exp(log_step))

    def finish(self, memory: EnergyErrors, tuning: Tuning, ending: Ending) -> tuple[EnergyErrors, Tuning]:
        searched = find_first_step(ending.kernel, ending.key, ending.target, ending.state, tuning)
        step_size = jnp.where(ending.rescaled, searched, tuning.step_size)
        fresh = blank(step_size)
        memory = jax.tree.map(lambda new, old: jnp.where(ending.rescaled, new, old), fresh, memory)
        return eqx.tree_at(lambda one: one.count, memory, fresh.count), with_step_size(tuning, step_size)


def blank(step_size: Scalar) -> EnergyErrors:
    """Of zero transitions."""
    zero = jnp.zeros_like(step_size)
    return EnergyErrors(zero, zero, jnp.ones_like(zero), jnp.full_like(zero, LARGEST_LOG), jnp.ones_like(zero))


def update(
    errors: EnergyErrors,
    log_step: Scalar,
    variance: Scalar,
    *,
    aim: Scalar,
    num_steps: Scalar,
    nonfinite: Flag,
    is_known: Flag,
) -> tuple[EnergyErrors, Scalar]:
    """The errors with those of one more transition, and the next log step size.

    Args:
        errors: errors so far, at the step size of the transition.
        log_step: log step size of the transition.
        variance: mean square of the energy error of its steps, per dimension.
        aim: the variance at which the next step size aims.
        num_steps: number of steps of the transition.
        nonfinite: whether the energy of one of them was not finite.
        is_known: whether that of another was finite.
    """
    ratio = variance / aim + SMALLEST_RATIO
    weight = jnp.where(is_known, num_steps * jnp.exp(-0.5 * (jnp.log(ratio) / (ORDER * TRUST)) ** 2), 0.0)
    old = errors.weight * FORGETTING**num_steps
    total = old + weight
    known = errors.ratio * errors.aim / aim
    mean = jnp.where(total > 0, (old * known + weight * ratio) / jnp.where(total > 0, total, 1.0), 1.0)
    mean = jnp.maximum(mean, SMALLEST_RATIO)
    lower = jnp.minimum(errors.log_limit, log_step + math.log(SHRINKING))
    log_limit = jnp.where(nonfinite, lower, errors.log_limit)
    log_next = jnp.clip(jnp.minimum(log_step - jnp.log(mean) / ORDER, log_limit), -LARGEST_LOG, LARGEST_LOG)
    at_next = mean * jnp.exp(ORDER * (log_next - log_step))
    return EnergyErrors(errors.count + 1, total, at_next, log_limit, aim), log_next
