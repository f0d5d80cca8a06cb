"""Warm-up recipes as data: a tuple of stages, folded over by the run loop.

A stage says how many transitions it has and what they teach. Stan's schedule is 75 transitions for the step size
alone, windows of 25, 50, 100, ... for step size and metric (the metric is renewed at the end of each), and 50 for the
step size again; it is scaled down for short warm-ups (Stan reference manual, section 15.2; Lau 2018, section 2.5).
Kernels that tune a length get a stage for it after the last metric. Other than in Stan, every recipe ends with at most
50 transitions in which the step size settles (`dual_averaging.py`), without which it would end too small.

A recipe of one's own is `Warmup(stages, target_acceptance)` with any stages that leave a step size, and a length where
one is tuned, for the metric that they end with.
"""

from typing import Any

import equinox as eqx

from ergonet._checks import is_integer
from ergonet._errors import SettingError
from ergonet.samplers import _settings as check
from ergonet.samplers.base import WarmupNeeds

FIRST_BUFFER = 75
LAST_BUFFER = 50
FIRST_WINDOW = 25
LENGTH_SHARE = 0.3
FEWEST_OBSERVED = 3  # transitions that a metric can be learned from
_TUNED = {  # what a metric is tuned for, and a stage that does it
    "tune_step_size": "Stage('last step size', 50, settle=True)",
    "tune_length": "Stage('length', 300, tune_length=True)",
}


class Stage(eqx.Module):
    """A part of the warm-up.

    Attributes:
        name: for the reader, and for errors.
        num_transitions: at least 1; at least 3 where the metric is learned.
        tune_step_size: dual averaging runs after each transition; the average stays where the next stage does not tune.
        learn_metric: positions are observed; the metric is renewed at the end, and the step size starts over.
        tune_length: candidate lengths take turns; the best is taken at the end.
        settle: the step size is tuned in small moves around the one found so far (`dual_averaging.py`).
    """

    name: str = eqx.field(static=True)
    num_transitions: int = eqx.field(static=True)
    tune_step_size: bool = eqx.field(static=True, default=True)
    learn_metric: bool = eqx.field(static=True, default=False)
    tune_length: bool = eqx.field(static=True, default=False)
    settle: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        check.require_integer("Stage", "num_transitions", self.num_transitions, 1)
        if self.learn_metric and self.num_transitions < FEWEST_OBSERVED:
            raise SettingError(
                f"`Stage(num_transitions=...)` must be at least {FEWEST_OBSERVED} where a metric is learned, got "
                f"{self.num_transitions}."
            )
        for flag in ("tune_step_size", "learn_metric", "tune_length", "settle"):
            check.require_flag("Stage", flag, getattr(self, flag))


class Warmup(eqx.Module):
    """Stages and the acceptance that the step size is tuned to.

    Attributes:
        stages: in their order. What is tuned at all, of step size and length, has to be tuned after the last stage
            that learns a metric, for it is renewed at that stage's end.
        target_acceptance: in (0, 1).
    """

    stages: tuple[Stage, ...]
    target_acceptance: float = eqx.field(static=True)

    def __check_init__(self):
        check.require_between("Warmup", "target_acceptance", self.target_acceptance, 0, 1)
        if not isinstance(self.stages, tuple) or not all(isinstance(stage, Stage) for stage in self.stages):
            raise SettingError(f"`Warmup(stages=...)` must be a tuple of `Stage` records, got {self.stages!r}.")
        renewals = [index for index, stage in enumerate(self.stages) if stage.learn_metric]
        last = renewals[-1] if renewals else -1
        for flag, example in _TUNED.items():
            tunes = [getattr(stage, flag) for stage in self.stages]
            if any(tunes) and not any(tunes[last + 1 :]):
                raise SettingError(
                    f"`Warmup(stages=...)` renews the metric at the end of stage {self.stages[last].name!r}, and no "
                    f"stage after it has `{flag}`, so what was tuned would be for another metric. Add one, such as "
                    f"`{example}`."
                )

    @property
    def num_transitions(self) -> int:
        """Transitions of all stages."""
        return sum(stage.num_transitions for stage in self.stages)

    def tuning_rests_after(self, index: int) -> bool:
        """Whether the stage after that one, if any, leaves the step size alone."""
        return not any(stage.tune_step_size for stage in self.stages[index + 1 : index + 2])


def recipe_of(choice: Any, needs: WarmupNeeds, num_warmup: int) -> Warmup:
    """A recipe as it is; None: the default one.

    Raises:
        SettingError: it is neither.
    """
    if choice is None:
        return stan_windows(needs, num_warmup)
    if not isinstance(choice, Warmup):
        raise SettingError(
            f"`warmup` must be a recipe such as `recipes.step_size_only(kernel.warmup(), 500)`, got {choice!r}."
        )
    return choice


def stan_windows(needs: WarmupNeeds, num_warmup: int) -> Warmup:
    """The default recipe for what a kernel needs.

    Args:
        needs: what has to be learned.
        num_warmup: transitions in all, at least 0.
    """
    check_num_warmup(num_warmup)
    num_length = round(LENGTH_SHARE * num_warmup) if needs.tune_length else 0
    stages = _windows(needs, num_warmup - num_length)
    if num_length:
        length = Stage(name="length", num_transitions=num_length, tune_step_size=needs.tune_step_size, tune_length=True)
        renewals = [index for index, stage in enumerate(stages) if stage.learn_metric]
        place = (renewals[-1] if renewals else 0) + 1  # past the first stage in any case: it finds the posterior
        stages = [*stages[:place], length, *stages[place:]]
    return Warmup(stages=tuple(stages), target_acceptance=needs.target_acceptance)


def step_size_only(needs: WarmupNeeds, num_warmup: int) -> Warmup:
    """All transitions for the step size, with a fixed metric and length."""
    check_num_warmup(num_warmup)
    return Warmup(stages=tuple(_step_size_alone(needs, num_warmup)), target_acceptance=needs.target_acceptance)


def burn_in_then_step_size(needs: WarmupNeeds, num_warmup: int, *, burn_in: float = 0.2) -> Warmup:
    """Ask's schedule: nothing is tuned at first, then the step size; metric and length stay as they are.

    The burn-in runs with the kernel's own step size, or with the first one found where it has none. Source: Ask 2022,
    sections 6.3.3 and 7.3.3.1 (20 % and 80 %, which the author took from TensorFlow Probability).

    Args:
        needs: what has to be learned.
        num_warmup: transitions in all, at least 0.
        burn_in: share of them that tunes nothing, in [0, 1).

    Raises:
        SettingError: a setting is out of its range.
    """
    check_num_warmup(num_warmup)
    check.require_share("burn_in_then_step_size", "burn_in", burn_in)
    first = int(burn_in * num_warmup)
    burning = [Stage(name="burn-in", num_transitions=first, tune_step_size=False)] if first else []
    stages = (*burning, *_step_size_alone(needs, num_warmup - first))
    return Warmup(stages=stages, target_acceptance=needs.target_acceptance)


def check_num_warmup(num_warmup: Any) -> None:
    """`num_warmup` must be an integer of at least 0."""
    if not is_integer(num_warmup) or num_warmup < 0:
        raise SettingError(f"`num_warmup` must be an integer of at least 0, got {num_warmup!r}.")


def _step_size_alone(needs: WarmupNeeds, total: int) -> list[Stage]:
    """Most of the transitions find the step size, in the others it settles."""
    last, tune = min(LAST_BUFFER, total // 2), needs.tune_step_size
    stages = [Stage(name="step size", num_transitions=total - last, tune_step_size=tune)] if total else []
    if last:
        stages.append(Stage(name="last step size", num_transitions=last, tune_step_size=tune, settle=True))
    return stages


def _windows(needs: WarmupNeeds, total: int) -> list[Stage]:
    if not needs.learn_metric or total < 20:
        return _step_size_alone(needs, total)
    tune = needs.tune_step_size
    first, last, window = FIRST_BUFFER, LAST_BUFFER, FIRST_WINDOW
    if first + last + window > total:
        first, last = int(0.15 * total), int(0.1 * total)
        window = total - first - last
    stages = [Stage(name="first step size", num_transitions=first, tune_step_size=tune)] if first else []
    left = total - first - last
    while left:
        size = left if left < 3 * window else window
        stages.append(Stage(name="metric", num_transitions=size, tune_step_size=tune, learn_metric=True))
        left -= size
        window *= 2
    if last:
        stages.append(Stage(name="last step size", num_transitions=last, tune_step_size=tune, settle=True))
    return stages
