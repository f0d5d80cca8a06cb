"""The contract of an executor."""

import abc
import threading
from concurrent.futures import Executor
from typing import ClassVar

from ergonet._errors import ErgonetError


class WorkerError(ErgonetError, RuntimeError):
    """Workers are gone, do not answer, or cannot do what was asked of them; says which, and what to do next."""


class Slot(threading.local):
    """Which worker of its process the current thread is; each has a device of its own, as far as there are enough."""

    index: int = 0


slot = Slot()


class AbstractExecutor(Executor, abc.ABC):
    """An executor that knows how many calls it runs at a time.

    Attributes:
        is_remote: whether calls are made in other processes, which have compiled programs of their own.
        is_in_unison: whether each call is made in several processes at the same time, and none in one alone.
    """

    is_remote: ClassVar[bool] = True
    is_in_unison: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def num_workers(self) -> int:
        """Number of calls that run at a time, at least 1."""

    def in_unison(self, processes: frozenset[int]) -> "AbstractExecutor | None":
        """An executor that makes each call in all of these processes at the same time; None: there is none.

        Args:
            processes: numbers of the processes, as `jax.distributed` counts them.
        """
        return None
