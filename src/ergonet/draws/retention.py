"""Retention: which draws of a run are stored."""

import abc
from dataclasses import dataclass

from ergonet._checks import is_integer
from ergonet._errors import SettingError


class AbstractRetention(abc.ABC):
    """Chooses which of the draws after the warm-up are stored.

    Attributes:
        thin: draws made for each that is stored, while they are being stored.
    """

    thin: int = 1

    @abc.abstractmethod
    def room(self, num_draws: int) -> int:
        """Number of draws that will be stored out of `num_draws`."""

    @abc.abstractmethod
    def chooses(self, draw: int) -> bool:
        """Whether draw number `draw` (from 0) is a candidate for storage when it is drawn."""

    @property
    @abc.abstractmethod
    def newest(self) -> int | None:
        """How many of the newest candidates are stored, at the end of the run; None: all are stored at once."""


@dataclass(frozen=True)
class Every(AbstractRetention):
    """Store every n-th draw."""

    thin: int = 1

    def __post_init__(self):
        _check("Every", "thin", self.thin)

    def room(self, num_draws: int) -> int:
        return num_draws // self.thin

    def chooses(self, draw: int) -> bool:
        return (draw + 1) % self.thin == 0

    @property
    def newest(self) -> None:
        return None


@dataclass(frozen=True)
class Last(AbstractRetention):
    """Store the last draws of the run, or the last before it is stopped; until then they are held in memory."""

    count: int

    def __post_init__(self):
        _check("Last", "count", self.count)

    def room(self, num_draws: int) -> int:
        return min(self.count, num_draws)

    def chooses(self, draw: int) -> bool:
        return True

    @property
    def newest(self) -> int:
        return self.count


def _check(owner: str, name: str, value: int) -> None:
    if not is_integer(value) or value < 1:
        raise SettingError(f"`{owner}({name}=...)` must be an integer of at least 1, got {value!r}.")
