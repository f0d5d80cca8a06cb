"""What is left of the time limit of `ergonet fit`."""

import time
from dataclasses import dataclass

from ergonet.cli.signals import last_end

LEAST_RESERVE, SHARE = 10.0, 1 / 5  # seconds for scores and report, and the most that is kept for them
LAST_SECONDS = 3.0  # of the process, to write what there is
PER_STARTED = 4.0  # seconds for scores and report, for each of imports and loading: a slow machine is slow at both
PER_TEST_ROW = 1e-4  # seconds to score a test row, for the baselines to predict it, and for the report


@dataclass(frozen=True)
class Deadline:
    """The time limit of a command.

    Attributes:
        limit: seconds; None: there is no limit.
        began: `time.perf_counter()` at the start of the command.
        num_test: test rows, which are predicted at the end.
        started: seconds that imports and loading took.
    """

    limit: float | None
    began: float
    num_test: int
    started: float = 0.0

    @property
    def until(self) -> float | None:
        """The end, by `time.perf_counter`."""
        return None if self.limit is None else self.began + self.limit

    @property
    def last(self) -> float | None:
        """When no more scores are waited for, since the process will be ended, by `time.perf_counter`."""
        return None if self.limit is None else last_end(self.limit, self.began) - LAST_SECONDS

    @property
    def left(self) -> float | None:
        """Seconds left."""
        return None if self.until is None else self.until - time.perf_counter()

    @property
    def left_to_sample(self) -> float | None:
        """Seconds left for sampling, above 0: ten seconds or more, but at most a fifth, are for scores and report."""
        if self.limit is None or self.left is None:
            return None
        least = max(LEAST_RESERVE, PER_STARTED * self.started)
        reserve = min(least + PER_TEST_ROW * self.num_test, SHARE * self.limit)
        return max(self.left - reserve, 1e-3)
