"""Calls the learners around the transitions of a chain, as part of one compiled program.

The learners of a run are the same in all stages of its warm-up and during sampling. Which of them are active, and with
which settings, is an argument, so that one program runs a chain from beginning to end.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ergonet._types import AnyArray, Flag, PRNGKey
from ergonet.adaptation.learner import AbstractLearner, Ending, Transition
from ergonet.adaptation.recipes import default_learner
from ergonet.adaptation.stages import Warmup
from ergonet.samplers.base import AbstractKernel, State, Tuning, WarmupNeeds
from ergonet.target.contract import AbstractDensity

ORDER = (
    "metric",
    "num_steps",
    "memory",
    "step_size",
)  # the step size comes last, because it is searched for the metric, length and memory just learned


class Adaptation(eqx.Module):
    """The learners of a run during one stage, or during sampling.

    Attributes:
        learners: the learners, with the settings of this stage.
        active: which of them the stage names.
        active_next: which of them the next stage names.
        rescaled: whether the end of the stage invalidates what other learners have learned.
    """

    learners: tuple[AbstractLearner, ...]
    active: tuple[Flag, ...]
    active_next: tuple[Flag, ...]
    rescaled: Flag

    def init(self, target: AbstractDensity, state: State, tuning: Tuning) -> tuple[Any, ...]:
        """The learners' memories before any transition."""
        return tuple(learner.init(target, state, tuning) for learner in self.learners)

    def propose(self, memories: tuple[Any, ...], tuning: Tuning) -> Tuning:
        """The tuning of the next transition."""
        for learner, active, memory in zip(self.learners, self.active, memories, strict=True):
            tuning = _select(active, learner.propose(memory, tuning), tuning)
        return tuning

    def observe(
        self, memories: tuple[Any, ...], tuning: Tuning, transition: Transition
    ) -> tuple[tuple[Any, ...], Tuning]:
        """Memories and tuning after a transition with `tuning`."""
        after: list[Any] = []
        for learner, active, memory in zip(self.learners, self.active, memories, strict=True):

            def learn(memory: Any, tuning: Tuning, learner: AbstractLearner = learner) -> tuple[Any, Tuning]:
                return learner.observe(memory, tuning, transition)

            if learner.is_cheap:
                changed, tuning = _select(active, learn(memory, tuning), (memory, tuning))
            else:
                changed, tuning = lax.cond(active, learn, lambda *same: same, memory, tuning)
            after.append(changed)
        return tuple(after), tuning

    def finish(
        self,
        memories: tuple[Any, ...],
        tuning: Tuning,
        *,
        kernel: AbstractKernel,
        target: AbstractDensity,
        state: State,
        key: PRNGKey,
    ) -> tuple[tuple[Any, ...], Tuning]:
        """Memories and tuning after the stage; every learner sees the results of the learners before it."""
        after: list[Any] = []
        for index, (learner, memory) in enumerate(zip(self.learners, memories, strict=True)):
            ending = Ending(
                kernel=kernel,
                target=target,
                state=state,
                key=key,
                active=self.active[index],
                active_next=self.active_next[index],
                rescaled=self.rescaled,
            )
            changed, tuning = learner.finish(memory, tuning, ending)
            after.append(changed)
        return tuple(after), tuning

    def report(self, memories: tuple[Any, ...]) -> dict[str, AnyArray]:
        """The learners' arrays for the record of a run, by name."""
        pairs = zip(self.learners, memories, strict=True)
        return {name: value for learner, memory in pairs for name, value in learner.report(memory).items()}


def _select(flag: Flag, new: Any, old: Any) -> Any:
    """`new` if the flag is set, otherwise `old`; nothing is computed for leaves that are identical."""
    return jax.tree.map(lambda one, other: other if one is other else jnp.where(flag, one, other), new, old)


@dataclass(frozen=True)
class Adaptations:
    """The learners of a run from beginning to end, as arguments of the same shapes.

    Attributes:
        search: no learner is active; an initial step size is searched at its end.
        stages: one entry per stage.
        sampling: no learner is active.
    """

    search: Adaptation
    stages: tuple[Adaptation, ...]
    sampling: Adaptation

    @staticmethod
    def of(warmup: Warmup, needs: WarmupNeeds) -> "Adaptations":
        """The adaptations of a warm-up for a kernel, without learners of settings that the user has given.

        Learners that the kernel needs but no stage names are included, so that warm-ups of any length share a program.
        """
        everyone = _everyone(warmup, needs)
        named = [stage.learners for stage in warmup.stages]
        pairs = zip(named, [*named[1:], ()], strict=False)
        return Adaptations(
            search=_during((), (), everyone, rescaled=True),
            stages=tuple(_during(now, after, everyone) for now, after in pairs),
            sampling=_during((), (), everyone),
        )


def _everyone(warmup: Warmup, needs: WarmupNeeds) -> list[AbstractLearner]:
    """One learner of each kind that the kernel needs, in the order in which they are called."""
    named = {type(learner): learner for stage in warmup.stages for learner in stage.learners}
    found = [learner for learner in named.values() if learner.learns in needs.learned]
    covered = {learner.learns for learner in found}
    found += [default_learner(name, needs) for name in needs.learned if name not in covered]
    return sorted(found, key=lambda learner: ORDER.index(learner.learns))


def _during(
    named: tuple[AbstractLearner, ...],
    named_next: tuple[AbstractLearner, ...],
    everyone: list[AbstractLearner],
    *,
    rescaled: bool = False,
) -> Adaptation:
    now, after = ({type(learner): learner for learner in some} for some in (named, named_next))
    return Adaptation(
        learners=tuple(_on_device(now.get(type(learner), learner)) for learner in everyone),
        active=tuple(_on_device(type(learner) in now) for learner in everyone),
        active_next=tuple(_on_device(type(learner) in after) for learner in everyone),
        rescaled=_on_device(rescaled or any(learner.rescales for learner in named)),
    )


def _on_device(settings: Any) -> Any:
    """Convert numbers and booleans to arrays via NumPy, because `jnp.asarray` would compile a program for each kind."""
    arrays = jax.tree.map(np.asarray, settings)
    return jax.device_put(jax.tree.map(lambda one: one.astype(jax.dtypes.canonicalize_dtype(one.dtype)), arrays))
