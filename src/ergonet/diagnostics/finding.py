"""What a check of a run found, and how its figures are read and shown."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

DRAWS: Final = "draws"
MODES: Final = "modes"
MODEL: Final = "model"
COST: Final = "cost"


@dataclass(frozen=True)
class Finding:
    """One problem with a run, or one thing to know about it.

    Attributes:
        problem: True if the results should not be trusted as they are.
        sentence: what is wrong and what to change, in plain words.
        subject: `DRAWS`, whether they are draws from the posterior; `MODES`, that the chains are in different ones;
            `MODEL`, which does not describe the held-out rows; or `COST`, which was higher than necessary.
    """

    problem: bool
    sentence: str
    subject: str = DRAWS


def number(record: Mapping[str, Any], name: str) -> float:
    """The figure of this name; NaN if it is absent or None."""
    value = record.get(name)
    return float("nan") if value is None else float(value)


def listed(noun: str, indices: Sequence[int]) -> str:
    """``Chain 2 (counted from 0)``, or ``Chains 2 and 5 (counted from 0)``."""
    names = [str(index) for index in indices]
    if len(names) == 1:
        return f"{noun} {names[0]} (counted from 0)"
    return f"{noun}s {', '.join(names[:-1])} and {names[-1]} (counted from 0)"


def shown_rhat(value: float) -> str:
    """Two digits above one: ``1.012``, ``2.35`` or ``infinite``."""
    return "infinite" if math.isinf(value) else f"{value:.3f}" if value < 1.1 else f"{value:.2f}"
