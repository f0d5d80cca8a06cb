"""Looks at a run while it goes on, at fixed numbers of draws, and stops it once it has enough by its rule `Until`.

Chains wait for each other at a look, so that all of them have the same number of draws. Which draws a run has when it
stops therefore depends on neither the machine nor interruptions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergonet._errors import ErgonetError, SettingError
from ergonet.diagnostics.finding import UNTIL
from ergonet.draws.contents import POSITIONS
from ergonet.draws.quantities import BLOCK, monitor
from ergonet.draws.recorder import Recorder
from ergonet.inference.drive import AbstractStopRule
from ergonet.inference.jobs import AbstractJob
from ergonet.inference.until import Until, Verdict, report
from ergonet.target.capabilities import Monitor
from ergonet.target.contract import AbstractTarget, offers


class Looks(AbstractStopRule):
    """Stops a run of full-batch kernels once its rule is met."""

    is_goal = True

    def __init__(self, rule: Until, target: AbstractTarget, recorder: Recorder, *, most: int, thin: int):
        """Check and keep the settings.

        Args:
            rule: the rule.
            target: has the predictions, if it monitors any.
            recorder: has the draws.
            most: draws of each chain at the end of the run.
            thin: transitions per draw, at least 1.
        """
        self._rule, self._target, self._recorder, self._most, self._thin = rule, target, recorder, most, thin
        self._next = 0  # draws of each chain at the next look
        self._verdict: Verdict | None = None
        self._held: np.ndarray | None = None  # predictions of whole blocks of draws, which are not computed again

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        """Looks if every chain has come to the look, and lets jobs go on to the next."""
        counts = recorder.drawn_by_chain
        if not self._next:
            # Looks that a chain has gone beyond have been made; one at which all chains stand may not have been.
            self._go_on(jobs, max(counts))
        if not self._is_met and min(counts) >= self._next:
            self._look(self._next)
            if not self._is_met:
                self._go_on(jobs, self._next + 1)
        return "its stop rule" if self._is_met else ""

    @property
    def _is_met(self) -> bool:
        return self._verdict is not None and self._verdict.is_met

    def _go_on(self, jobs: Sequence[AbstractJob], drawn: int) -> None:
        self._next = self._rule.next_look(drawn, self._most)
        for job in jobs:
            job.pause = job.total - (self._most - self._next) * self._thin

    def _look(self, count: int) -> None:
        self._verdict = self._rule.judge(self._values(count))

    def _values(self, count: int) -> Any:
        """The predictions of the first draws, or else their positions, `[chain, draw, quantity]`."""
        positions = self._recorder.store.field(POSITIONS)
        if not offers(self._target, Monitor):
            return np.asarray(positions[:, :count])
        begun = 0 if self._held is None else self._held.shape[1]
        fresh = [monitor(self._target, np.asarray(positions[chain, begun:count])) for chain in range(len(positions))]
        values = np.stack(fresh)
        values = values if self._held is None else np.concatenate([self._held, values], axis=1)
        self._held = values[:, : count // BLOCK * BLOCK]
        return values

    def notes(self) -> dict[str, Any]:
        """The rule and what the last look has found; there is one at the end of a run that was not stopped."""
        drawn = self._recorder.drawn
        if drawn == self._most and (self._verdict is None or self._verdict.num_draws < drawn):
            self._look(drawn)
        return {UNTIL: report(self._rule, self._verdict, look=self._next, most=self._most, drawn=drawn)}

    def error(self, jobs: Sequence[AbstractJob]) -> ErgonetError:
        return SettingError("`until` stopped a run before it had a draw.")  # it does not: it looks at draws
