"""A warm-up as data: stages, each with a number of transitions and the learners that are active in it.

`recipes.py` has ready-made warm-ups. A custom one is `Warmup(stages)`; the stages after the last one that learns a
metric must learn the step size, and the length if the kernel needs it.
"""

from dataclasses import fields

import equinox as eqx

from ergonet._errors import SettingError, suggest
from ergonet.adaptation.learner import AbstractLearner
from ergonet.samplers import _settings as check
from ergonet.samplers.base import Tuning


class Stage(eqx.Module):
    """A part of the warm-up.

    Attributes:
        name: name of the stage, for readers and error messages.
        num_transitions: number of transitions, at least 1; at least 3 if a metric is learned.
        learners: the learners that are active, at most one of each kind; without any, nothing is adapted. A learner of
            a setting that the user has given to the kernel does nothing.
    """

    name: str = eqx.field(static=True)
    num_transitions: int = eqx.field(static=True)
    learners: tuple[AbstractLearner, ...] = ()

    def __check_init__(self):
        check.require_integer("Stage", "num_transitions", self.num_transitions, 1)
        wanted = "learners such as `(StepSizeLearner(0.8),)`"
        check.require_tuple("Stage", "learners", self.learners, AbstractLearner, wanted)
        if len({type(learner) for learner in self.learners}) < len(self.learners):
            raise SettingError(
                f"`Stage(learners=...)` must contain at most one learner of each kind, got {self.learners!r}."
            )
        known = [field.name for field in fields(Tuning)]
        for learner in self.learners:
            kind = type(learner).__name__
            if learner.learns not in known:
                raise SettingError(
                    f"`{kind}.learns` must name a field of `Tuning`, got {learner.learns!r}. "
                    f"{suggest(str(learner.learns), known)}"
                )
            if self.num_transitions < learner.fewest_transitions:
                raise SettingError(
                    f"`Stage(num_transitions=...)` must be at least {learner.fewest_transitions} for a "
                    f"`{kind}`, got {self.num_transitions}."
                )


class Warmup(eqx.Module):
    """The stages of a warm-up, in order.

    Attributes:
        stages: everything that is learned must also be learned after the last stage that replaces the metric.
    """

    stages: tuple[Stage, ...]

    def __check_init__(self):
        check.require_tuple("Warmup", "stages", self.stages, Stage, "`Stage` records")
        renewing = [index for index, stage in enumerate(self.stages) if any(one.rescales for one in stage.learners)]
        if not renewing:
            return
        last = renewing[-1]
        later = {one.learns for stage in self.stages[last + 1 :] for one in stage.learners}
        for learner in (one for stage in self.stages for one in stage.learners):
            if not learner.rescales and learner.learns not in later:
                raise SettingError(
                    f"`Warmup(stages=...)` replaces the metric at the end of stage {self.stages[last].name!r}, but no "
                    f"later stage learns `{learner.learns}`, so its value would belong to another metric. Add "
                    f"one, such as `Stage('last', 50, ({learner!r},))`."
                )

    @property
    def num_transitions(self) -> int:
        """Number of transitions of all stages."""
        return sum(stage.num_transitions for stage in self.stages)

    @property
    def target_acceptance(self) -> float | None:
        """The target acceptance of the last learner that has one; None without one."""
        aims = [learner.aim for stage in self.stages for learner in stage.learners]
        return next((aim for aim in reversed(aims) if aim is not None), None)
