"""Ready-made warm-ups: functions that turn the needs of a kernel into stages.

Stan's schedule has 75 transitions for the step size alone, windows of 25, 50, 100, ... transitions for step size and
metric (the metric is replaced at the end of each), and 50 transitions for the step size again; it is scaled down for
short warm-ups (Stan reference manual, section 15.2; Lau2018, section 2.5). Kernels that learn a length get a stage for
it after the last metric, in which the step size settles. Unlike in Stan, every recipe ends with at most 50 transitions
in which the step size settles (`dual_averaging.py`); otherwise it would end too small.
"""

from typing import Any

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet.adaptation.energy_variance import EnergyVarianceLearner
from ergonet.adaptation.learner import AbstractLearner
from ergonet.adaptation.length import LengthLearner
from ergonet.adaptation.memory import MemoryLearner
from ergonet.adaptation.metric import MetricLearner
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.adaptation.step_size import StepSizeLearner
from ergonet.samplers import _settings as check
from ergonet.samplers.base import EnergyVariance, WarmupNeeds

__all__ = [
    "AbstractLearner",
    "EnergyVarianceLearner",
    "LengthLearner",
    "MemoryLearner",
    "MetricLearner",
    "Stage",
    "StepSizeLearner",
    "Warmup",
    "burn_in_then_step_size",
    "stan_windows",
    "step_size_only",
]

FIRST_BUFFER = 75
LAST_BUFFER = 50
FIRST_WINDOW = 25
LENGTH_SHARE = 0.3  # of a warm-up
STEP_SHARE = 0.25  # of these; lengths cannot be compared while the step size oscillates


def default_learner(name: str, needs: WarmupNeeds) -> AbstractLearner:
    """The default learner of a field of `Tuning`."""
    if name == "num_steps":
        return LengthLearner(needs.fewest_steps)
    fixed = {"metric": MetricLearner, "memory": MemoryLearner}
    return fixed[name]() if name in fixed else _of_step_size(needs)


def recipe_of(choice: Any, needs: WarmupNeeds, num_warmup: int) -> Warmup:
    """Return a recipe unchanged, or the default recipe for None.

    Raises:
        SettingError: `choice` is neither, or learns the step size in a way that is not for the kernel.
    """
    if choice is None:
        return stan_windows(needs, num_warmup)
    if not isinstance(choice, Warmup):
        raise SettingError(
            f"`warmup` must be a recipe such as `recipes.step_size_only(kernel.warmup(), 500)`, got {choice!r}."
        )
    _require_fit(choice, needs)
    return choice


def _require_fit(warmup: Warmup, needs: WarmupNeeds) -> None:
    """Check that a kernel whose step size is learned has what the learners of step sizes aim at."""
    if isinstance(needs.step_size_aim, EnergyVariance):
        kind, aim = StepSizeLearner, "an acceptance, which only a kernel with a Metropolis correction has"
    else:
        kind, aim = EnergyVarianceLearner, "a size of energy errors, for kernels without a Metropolis correction"
    learners = (one for stage in warmup.stages for one in stage.learners)
    if "step_size" in needs.learned and any(isinstance(one, kind) for one in learners):
        raise SettingError(
            f"`warmup` has a stage with `{kind.__name__}`, whose aim is {aim}. Make the recipe for the kernel that is "
            f"sampled, such as `recipes.step_size_only(kernel.warmup(), 500)`."
        )


def stan_windows(needs: WarmupNeeds, num_warmup: int) -> Warmup:
    """The default recipe for what a kernel needs.

    Args:
        needs: what the kernel needs to learn.
        num_warmup: total number of transitions, at least 0.
    """
    check_num_warmup(num_warmup)
    lasting = [default_learner(name, needs) for name in ("num_steps", "memory") if name in needs.learned]
    num_length = round(LENGTH_SHARE * num_warmup) if lasting else 0
    stages = _windows(needs, num_warmup - num_length)
    if num_length:
        found = round(STEP_SHARE * num_length)
        length = [
            *([Stage("step size", found, _step_size(needs))] if found else []),
            Stage("length", num_length - found, (*lasting, *_step_size(needs, settles=True))),
        ]
        renewals = [index for index, stage in enumerate(stages) if any(one.rescales for one in stage.learners)]
        place = (renewals[-1] if renewals else 0) + 1  # always after the first stage, which finds the posterior
        stages = [*stages[:place], *length, *stages[place:]]
    return Warmup(tuple(_scheduled(stages, needs)))


def step_size_only(needs: WarmupNeeds, num_warmup: int) -> Warmup:
    """A warm-up that learns only the step size, with a fixed metric and length."""
    check_num_warmup(num_warmup)
    return Warmup(tuple(_scheduled(_step_size_alone(needs, num_warmup), needs)))


def burn_in_then_step_size(needs: WarmupNeeds, num_warmup: int, *, burn_in: float = 0.2) -> Warmup:
    """A burn-in without adaptation, followed by learning the step size; metric and length are fixed.

    The burn-in uses the step size given to the kernel, or else the initial one found by search. Source: Ask2022,
    sections 6.3.3 and 7.3.3.1 (20 % and 80 %, taken from TensorFlow Probability).

    Args:
        needs: what the kernel needs to learn.
        num_warmup: total number of transitions, at least 0.
        burn_in: fraction of the transitions without adaptation, in [0, 1).

    Raises:
        SettingError: a setting is out of range.
    """
    check_num_warmup(num_warmup)
    check.require_share("burn_in_then_step_size", "burn_in", burn_in)
    first = int(burn_in * num_warmup)
    burning = [Stage("burn-in", first)] if first else []
    return Warmup((*burning, *_scheduled(_step_size_alone(needs, num_warmup - first), needs)))


def check_num_warmup(num_warmup: Any) -> None:
    """Check that `num_warmup` is an integer of at least 0."""
    if not is_integer(num_warmup) or num_warmup < 0:
        raise SettingError(f"`num_warmup` must be an integer of at least 0, got {num_warmup!r}.")


def _step_size(needs: WarmupNeeds, *, settles: bool = False) -> tuple[AbstractLearner, ...]:
    """The learner of the step size, if the kernel needs one."""
    return (_of_step_size(needs, settles=settles),) if "step_size" in needs.learned else ()


def _of_step_size(needs: WarmupNeeds, *, settles: bool = False) -> AbstractLearner:
    if isinstance(needs.step_size_aim, EnergyVariance):
        return EnergyVarianceLearner(needs.step_size_aim.last)
    return StepSizeLearner(needs.step_size_aim, settles)


def _scheduled(stages: list[Stage], needs: WarmupNeeds) -> list[Stage]:
    """The same stages, in which the aim for energy errors changes geometrically from the first to its last value."""
    aim, total = needs.step_size_aim, sum(stage.num_transitions for stage in stages)
    if not isinstance(aim, EnergyVariance) or aim.first == aim.last or not total:
        return stages
    factor, done, scheduled = (aim.last / aim.first) ** (1 / total), 0, []
    for stage in stages:
        learner = EnergyVarianceLearner(aim.first * factor**done, factor)
        learners = (learner if isinstance(one, EnergyVarianceLearner) else one for one in stage.learners)
        scheduled.append(Stage(stage.name, stage.num_transitions, tuple(learners)))
        done += stage.num_transitions
    return scheduled


def _step_size_alone(needs: WarmupNeeds, total: int) -> list[Stage]:
    """Most transitions find the step size; it settles in the others."""
    last = min(LAST_BUFFER, total // 2)
    stages = [Stage("step size", total - last, _step_size(needs))] if total else []
    if last:
        stages.append(Stage("last step size", last, _step_size(needs, settles=True)))
    return stages


def _windows(needs: WarmupNeeds, total: int) -> list[Stage]:
    if "metric" not in needs.learned or total < 20:
        return _step_size_alone(needs, total)
    first, last, window = FIRST_BUFFER, LAST_BUFFER, FIRST_WINDOW
    if first + last + window > total:
        first, last = int(0.15 * total), int(0.1 * total)
        window = total - first - last
    stages = [Stage("first step size", first, _step_size(needs))] if first else []
    left = total - first - last
    while left:
        size = left if left < 3 * window else window
        stages.append(Stage("metric", size, (MetricLearner(), *_step_size(needs))))
        left -= size
        window *= 2
    if last:
        stages.append(Stage("last step size", last, _step_size(needs, settles=True)))
    return stages
