"""The learner of step sizes: dual averaging toward a target acceptance, from an initial step size found by search."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from ergonet._types import Flag, Scalar
from ergonet.adaptation import dual_averaging
from ergonet.adaptation.dual_averaging import DualAveraging
from ergonet.adaptation.initial_step import find_first_step, with_step_size
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.samplers import _settings as check
from ergonet.samplers.base import AbstractProposalInfo, State, Tuning
from ergonet.target.contract import AbstractDensity


class StepSizeLearner(AbstractLearner):
    """Dual averaging (`dual_averaging.py`).

    Every transition of its stages updates the step size; the average is used if the next stage does not name it. Before
    the first transition, and after the metric has been replaced, it searches for a step size and restarts from there.

    Attributes:
        target_acceptance: the target acceptance, in (0, 1).
        settles: whether updates in this stage are small and start at the step size found so far, and divergences limit
            the step size.
    """

    learns: ClassVar[str] = "step_size"
    is_cheap: ClassVar[bool] = True

    target_acceptance: Scalar | float
    settles: Flag | bool = False

    def __check_init__(self):
        check.require_between("StepSizeLearner", "target_acceptance", self.target_acceptance, 0, 1)
        check.require_flag("StepSizeLearner", "settles", self.settles)

    @property
    def aim(self) -> float:
        return float(self.target_acceptance)

    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> DualAveraging:
        return dual_averaging.restart(tuning.step_size)

    def propose(self, memory: DualAveraging, tuning: Tuning) -> Tuning:
        begins = self.settles & ~memory.settled
        return with_step_size(tuning, jnp.where(begins, dual_averaging.averaged(memory), tuning.step_size))

    def observe(self, memory: DualAveraging, tuning: Tuning, transition: Transition) -> tuple[DualAveraging, Tuning]:
        info, aim = transition.info, self.target_acceptance
        assert isinstance(info, AbstractProposalInfo), "only a kernel with a Metropolis correction has an acceptance"
        memory, step_size = dual_averaging.update(
            memory, info.acceptance, aim, settling=self.settles, diverging=info.diverging
        )
        return memory, with_step_size(tuning, step_size)

    def finish(self, memory: DualAveraging, tuning: Tuning, ending: Ending) -> tuple[DualAveraging, Tuning]:
        rests = ending.active & ~ending.active_next & (memory.count > 0)
        average = dual_averaging.averaged(memory)
        step_size = jnp.where(rests, average, tuning.step_size)
        first = with_step_size(tuning, average)
        searched = find_first_step(ending.kernel, ending.key, ending.target, ending.state, first)
        step_size = jnp.where(ending.rescaled, searched, step_size)
        restarted = dual_averaging.restart(step_size)
        memory = jax.tree.map(lambda new, old: jnp.where(ending.rescaled, new, old), restarted, memory)
        return memory, with_step_size(tuning, step_size)
