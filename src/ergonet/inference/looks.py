"""Looks at a run while it goes on, at fixed numbers of draws, and stops it once it has enough by its rule `Until`.

Chains wait for each other at a look, so that all of them have the same number of draws. Which draws a run has when it
stops therefore depends on neither the machine nor interruptions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ergonet._errors import ErgonetError, SettingError
from ergonet.diagnostics.finding import UNTIL
from ergonet.draws.contents import POSITIONS
from ergonet.draws.quantities import BLOCK, monitor, row_densities
from ergonet.draws.recorder import Recorder
from ergonet.inference.drive import AbstractStopRule
from ergonet.inference.jobs import AbstractJob
from ergonet.inference.until import Until, Verdict, report
from ergonet.target.capabilities import Monitor, PointwiseLogLikelihood
from ergonet.target.contract import AbstractTarget, offers

MOST_ROWS = 256  # whose log densities are computed and held for every draw


class Looks(AbstractStopRule):
    """Stops a run of full-batch kernels once its rule is met."""

    is_goal = True

    def __init__(
        self,
        rule: Until,
        target: AbstractTarget,
        recorder: Recorder,
        say: Callable[[str], None],
        most: int,
        *,
        thin: int,
    ):
        """Check and keep the settings.

        Args:
            rule: the rule.
            target: has the predictions, if it monitors any.
            recorder: has the draws.
            say: tells the user that the run goes on after a look.
            most: draws of each chain at the end of the run.
            thin: transitions per draw, at least 1.
        """
        self._rule, self._target, self._recorder, self._say = rule, target, recorder, say
        self._most, self._thin = most, thin
        self._next = 0  # draws of each chain at the next look
        self._verdict: Verdict | None = None
        self._predictions, scored = _Known(), rule.scored(target)
        self._scores = None if scored is None else _Scores(scored)

    def reason(self, jobs: Sequence[AbstractJob], recorder: Recorder) -> str:
        """Looks if every chain has come to the look, and lets jobs go on to the next."""
        counts = recorder.drawn_by_chain
        if not self._next:
            # Looks that a chain has gone beyond have been made; one at which all chains stand may not have been.
            self._go_on(jobs, max(counts))
        if not self._is_met and min(counts) >= self._next:
            self._look(self._next)
            if not self._is_met:
                said = f"After {self._next} draws of each chain: {self._verdict}."
                self._go_on(jobs, self._next + 1)
                self._say(f"{said} The run goes on to {self._next} of at most {self._most}.")
        return "its stop rule" if self._is_met else ""

    @property
    def _is_met(self) -> bool:
        return self._verdict is not None and self._verdict.is_met

    def _go_on(self, jobs: Sequence[AbstractJob], drawn: int) -> None:
        self._next = self._rule.next_look(drawn, self._most)
        for job in jobs:
            job.look = job.total - (self._most - self._next) * self._thin

    def _look(self, count: int) -> None:
        positions = self._recorder.store.field(POSITIONS)
        values = (
            self._predictions.first(count, positions, lambda drawn: monitor(self._target, drawn))
            if offers(self._target, Monitor)
            else _First(positions, count)
        )
        self._verdict = self._rule.judge(values, None if self._scores is None else self._scores.first(count, positions))

    def notes(self) -> dict[str, Any]:
        """The rule and what the last look has found; there is one at the end of a run that was not stopped."""
        drawn = self._recorder.drawn
        if drawn == self._most and (self._verdict is None or self._verdict.num_draws < drawn):
            self._look(drawn)
        return {UNTIL: report(self._rule, self._verdict, look=self._next, most=self._most, drawn=drawn)}

    def error(self, jobs: Sequence[AbstractJob]) -> ErgonetError:
        return SettingError("`until` stopped a run before it had a draw.")  # it does not: it looks at draws


class _First:
    """The first draws of positions `[chain, draw, dim]`, of which only the slices that are asked for are read."""

    def __init__(self, positions: Any, count: int):
        self._positions, self.shape = positions, (len(positions), count, positions.shape[2])

    def __getitem__(self, index: tuple[slice, slice, slice]) -> Any:
        chains, draws, coordinates = index
        return self._positions[chains, slice(*draws.indices(self.shape[1])), coordinates]


class _Known:
    """Values of draws, of which those of whole blocks are kept, so that they are not computed again."""

    def __init__(self):
        self._held: np.ndarray | None = None

    def first(self, count: int, positions: Any, evaluate: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The values `[chain, draw, ...]` of the first draws, where `evaluate` gives those of positions of a chain."""
        begun = 0 if self._held is None else self._held.shape[1]
        values = np.stack([evaluate(np.asarray(positions[chain, begun:count])) for chain in range(len(positions))])
        values = values if self._held is None else np.concatenate([self._held, values], axis=1)
        self._held = values[:, : count // BLOCK * BLOCK]
        return values


class _Scores:
    """Log densities of rows, at most `MOST_ROWS` of them, evenly spaced."""

    def __init__(self, rows: PointwiseLogLikelihood):
        count = min(rows.num_rows, MOST_ROWS)
        self._rows, self._numbers, self._known = rows, np.arange(count) * rows.num_rows // count, _Known()

    def first(self, count: int, positions: Any) -> np.ndarray:
        """Those of the first draws, `[chain, draw, row]`."""
        return self._known.first(count, positions, lambda drawn: row_densities(self._rows, drawn, self._numbers))
