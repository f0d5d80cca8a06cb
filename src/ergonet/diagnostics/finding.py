"""What a check of a run found, and how its figures are read and shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Final

LARGEST_RHAT: Final = 1.01
SMALLEST_ESS_PER_CHAIN: Final = 100
DRAWS: Final = "draws"
MODES: Final = "modes"
UNJUDGED: Final = "unjudged"
MODEL: Final = "model"
SCALES: Final = "scales"
COPIES: Final = "test_copies"  # also in metrics: how many held-out rows are copies of training rows
COST: Final = "cost"
FALLBACK: Final = "fallback"  # in metrics and `about`: what predicts if there are no draws
RECALIBRATION: Final = "recalibration"  # in metrics: how predictions are recalibrated
UNTIL: Final = "until"  # in metrics and `about`: the stop rule, and whether it is met

_MOST_DECIMALS = 15


@dataclass(frozen=True)
class Finding:
    """One problem with a run, or one thing to know about it.

    Attributes:
        problem: True if the results should not be trusted as they are.
        sentence: what is wrong and what to change, in plain words.
        subject: `DRAWS`, whether they are draws from the posterior; `MODES`, that the chains are in different ones;
            `UNJUDGED`, the same without held-out rows to judge them; `SCALES`, that they do not mix, while predictions
            do; `MODEL`, which does not describe the held-out rows; `COPIES`, that these repeat training rows; or
            `COST`, which was higher than necessary.
    """

    problem: bool
    sentence: str
    subject: str = DRAWS


def number(record: Mapping[str, Any], name: str) -> float:
    """The figure of this name; NaN if it is absent or no number."""
    value = record.get(name)
    return float(value) if isinstance(value, Real) else float("nan")


def needed_ess(metrics: Mapping[str, Any]) -> int:
    """Smallest ESS of a prediction over all chains."""
    return SMALLEST_ESS_PER_CHAIN * int(metrics.get("num_chains") or 1)


def listed(noun: str, indices: Sequence[int]) -> str:
    """``Chain 2 (counted from 0)``, or ``Chains 2 and 5 (counted from 0)``."""
    names = [str(index) for index in indices]
    if len(names) == 1:
        return f"{noun} {names[0]} (counted from 0)"
    return f"{noun}s {', '.join(names[:-1])} and {names[-1]} (counted from 0)"


def shown_rhat(value: float, *limits: float) -> str:
    """Two digits above one, or as many as show on which side of a limit it is: ``1.012``, ``2.35`` or ``infinite``."""
    return beside(value, *limits, decimals=3 if value < 1.1 else 2)


def beside(value: float, *limits: float, decimals: int) -> str:
    """A figure for a sentence or table that says its limits: it lies on the same side of each as the value.

    It has so many decimals, or more where rounding would move it onto or across a limit: ``1.0102`` beside 1.01.
    """
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else "infinite" if value > 0 else "minus infinite"
    while decimals < _MOST_DECIMALS and any(_side(round(value, decimals), one) != _side(value, one) for one in limits):
        decimals += 1
    return f"{value:.{decimals}f}"


def _side(value: float, limit: float) -> int:
    return (value > limit) - (value < limit)


def stated(metrics: Mapping[str, Any], _diagnostics: Mapping[str, Any]) -> list[Finding]:
    """What a run says itself: what predicts instead of draws, and that its stop rule is not met."""
    instead, until = metrics.get(FALLBACK), metrics.get(UNTIL) or {"met": True}
    found = [Finding(problem=True, sentence=str(instead["sentence"]))] if instead else []
    return found if until["met"] else [*found, Finding(problem=False, sentence=str(until["sentence"]))]
