"""Which draws of a minibatch run are stored: a long run visits more networks than one wants on disk."""

import abc
from dataclasses import dataclass

from ergonet._checks import is_integer
from ergonet._errors import SettingError


class AbstractKeep(abc.ABC):
    """A choice among the draws that come after the warm-up."""

    @abc.abstractmethod
    def room(self, num_draws: int) -> int:
        """Draws that will be stored of so many."""

    @abc.abstractmethod
    def chooses(self, draw: int) -> bool:
        """Whether draw number `draw` (from 0) is one of them, as far as one can know when it is drawn."""

    @property
    @abc.abstractmethod
    def newest(self) -> int | None:
        """How many of the chosen draws are kept, the newest; they are stored at the end. None: all, at once."""


@dataclass(frozen=True)
class Every(AbstractKeep):
    """One of every so many draws, the last of each group."""

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
class Last(AbstractKeep):
    """The last so many draws; those before a stop, where the run is stopped. They wait in memory for the end."""

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
