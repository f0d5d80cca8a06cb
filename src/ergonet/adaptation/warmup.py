"""Warm-up recipes as data: a tuple of stages, folded over by the run loop.

A stage says how many transitions it has and what they teach. Stan's schedule is 75 transitions for the step size
alone, windows of 25, 50, 100, ... for step size and metric (the metric is renewed at the end of each), and 50 for the
step size again; it is scaled down for short warm-ups (Stan reference manual, section 15.2; Lau 2018, section 2.5).
Kernels that tune a length get a stage for it after the last metric. Other than in Stan, every recipe ends with at most
50 transitions in which the step size settles (`dual_averaging.py`), without which it would end too small.
"""

from numbers import Integral
from typing import Any

import equinox as eqx

from ergonet._errors import SettingError
from ergonet.samplers.base import WarmupNeeds

FIRST_BUFFER = 75
LAST_BUFFER = 50
FIRST_WINDOW = 25
LENGTH_SHARE = 0.3


class Stage(eqx.Module):
    """A part of the warm-up.

    Attributes:
        name: for progress and logs.
        num_transitions: at least 1.
        tune_step_size: dual averaging runs after each transition.
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


class Warmup(eqx.Module):
    """Stages and the acceptance that the step size is tuned to."""

    stages: tuple[Stage, ...]
    target_acceptance: float = eqx.field(static=True)

    @property
    def num_transitions(self) -> int:
        """Transitions of all stages."""
        return sum(stage.num_transitions for stage in self.stages)


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
        place = max((index + 1 for index, stage in enumerate(stages) if stage.learn_metric), default=0)
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
    if isinstance(burn_in, bool) or not isinstance(burn_in, int | float) or not 0 <= burn_in < 1:
        raise SettingError(f"`burn_in_then_step_size(burn_in=...)` must be at least 0 and below 1, got {burn_in!r}.")
    first = int(burn_in * num_warmup)
    burning = [Stage(name="burn-in", num_transitions=first, tune_step_size=False)] if first else []
    stages = (*burning, *_step_size_alone(needs, num_warmup - first))
    return Warmup(stages=stages, target_acceptance=needs.target_acceptance)


def check_num_warmup(num_warmup: Any) -> None:
    """`num_warmup` must be an integer of at least 0."""
    if isinstance(num_warmup, bool) or not isinstance(num_warmup, Integral) or num_warmup < 0:
        raise SettingError(f"`num_warmup` must be an integer of at least 0, got {num_warmup!r}.")


def _step_size_alone(needs: WarmupNeeds, total: int) -> list[Stage]:
    """Most of the transitions find the step size, in the others it settles."""
    last = min(LAST_BUFFER, total // 2)
    stages = (
        Stage(name="step size", num_transitions=total - last, tune_step_size=needs.tune_step_size),
        Stage(name="last step size", num_transitions=last, tune_step_size=needs.tune_step_size, settle=True),
    )
    return [stage for stage in stages if stage.num_transitions]


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
