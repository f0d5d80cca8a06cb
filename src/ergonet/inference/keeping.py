"""Which draws of a minibatch run are stored: a long run visits more networks than one wants on disk."""

import abc
from dataclasses import dataclass

from ergonet._errors import SettingError


class AbstractKeep(abc.ABC):
    """A choice among the draws that come after the warm-up."""

    @abc.abstractmethod
    def room(self, num_draws: int) -> int:
        """Draws that will be stored of so many."""

    @abc.abstractmethod
    def place(self, draw: int, num_draws: int) -> int | None:
        """Where draw number `draw` (from 0) of `num_draws` is stored; None: nowhere."""


@dataclass(frozen=True)
class Every(AbstractKeep):
    """One of every so many draws, the last of each group."""

    thin: int = 1

    def __post_init__(self):
        _check("Every", "thin", self.thin)

    def room(self, num_draws: int) -> int:
        return num_draws // self.thin

    def place(self, draw: int, num_draws: int) -> int | None:
        return draw // self.thin if (draw + 1) % self.thin == 0 else None


@dataclass(frozen=True)
class Last(AbstractKeep):
    """The last so many draws."""

    count: int

    def __post_init__(self):
        _check("Last", "count", self.count)

    def room(self, num_draws: int) -> int:
        return min(self.count, num_draws)

    def place(self, draw: int, num_draws: int) -> int | None:
        first = num_draws - self.room(num_draws)
        return draw - first if draw >= first else None


def _check(owner: str, name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingError(f"`{owner}({name}=...)` must be an integer of at least 1, got {value!r}.")
