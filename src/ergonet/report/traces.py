"""Traces of a run that is going on, in little memory, as drawings that take no time to make."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ergonet.draws.contents import POSITIONS
from ergonet.draws.quantities import BLOCK, monitor
from ergonet.draws.recorder import Chunk
from ergonet.report import wording
from ergonet.target.capabilities import Monitor
from ergonet.target.contract import AbstractTarget, offers

MOST_POINTS = 300  # of a chain
MOST_QUANTITIES = 3
LARGEST_DIM = 100_000  # beyond, a block of draws would take much memory
_COLORS, _WIDTH, _HEIGHT = 8, 600, 140


class Trace:
    """Values of some chains by draw, of which more and more are left out."""

    def __init__(self):
        self.stride = 1
        self._points: dict[int, dict[int, float]] = {}

    def add(self, chain: int, draws: Sequence[int], values: np.ndarray) -> None:
        """Add values `[draw]` of a chain; values that are not finite, and those between the strides, are left out."""
        points = self._points.setdefault(chain, {})
        points.update(
            (draw, float(value))
            for draw, value in zip(draws, values, strict=True)
            if draw % self.stride == 0 and np.isfinite(value)
        )
        while len(points) > MOST_POINTS:
            self.stride *= 2
            for one in self._points.values():
                for draw in [draw for draw in one if draw % self.stride]:
                    del one[draw]
            points = self._points[chain]

    def drawing(self, title: str) -> "Drawing | None":
        """The lines of all chains; None if no chain has two points."""
        chains = {chain: points for chain, points in sorted(self._points.items()) if len(points) > 1}
        if not chains:
            return None
        draws = [draw for points in chains.values() for draw in points]
        values = [value for points in chains.values() for value in points.values()]
        first, last, low, high = min(draws), max(draws), min(values), max(values)
        across, up = _WIDTH / max(last - first, 1), _HEIGHT / ((high - low) or 1.0)
        lines = [
            (
                f"series-{chain % _COLORS + 1}",
                " ".join(f"{(draw - first) * across:.1f},{_HEIGHT - (y - low) * up:.1f}" for draw, y in points.items()),
            )
            for chain, points in chains.items()
        ]
        return Drawing(title, lines, wording.number(low), wording.number(high), first + 1, last + 1)


@dataclass(frozen=True)
class Drawing:
    """Lines in a box of 600 by 140.

    Attributes:
        title: what they show.
        lines: color and points of each chain, as SVG has them.
        low: the smallest value, as text.
        high: the largest.
        first: the first draw, counted from 1.
        last: the last.
    """

    title: str
    lines: list[tuple[str, str]]
    low: str
    high: str
    first: int
    last: int


class Traces:
    """The log posterior of the current phase, and some monitored predictions while sampling."""

    def __init__(self, target: AbstractTarget):
        self._target = target
        self._monitors = offers(target, Monitor) and target.dim <= LARGEST_DIM
        self._phases = {True: Trace(), False: Trace()}
        self._quantities: dict[int, Trace] = {}
        self._number = 0
        self._pending: list[tuple[int, int, np.ndarray]] = []

    def add(self, chunk: Chunk) -> None:
        """Add the draws of a chunk."""
        draws = range(chunk.start, chunk.start + chunk.count)
        for row, chain in enumerate(chunk.chains):
            self._phases[chunk.is_warmup].add(chain, draws, np.asarray(chunk.fields["lp"][row]))
            if self._monitors and not chunk.is_warmup and POSITIONS in chunk.fields:
                stride = max((one.stride for one in self._quantities.values()), default=1)
                kept = [draw for draw in draws if draw % stride == 0]
                positions = chunk.fields[POSITIONS][row]
                self._pending += [(chain, draw, np.array(positions[draw - chunk.start])) for draw in kept]
                while len(self._pending) >= BLOCK:
                    self._predict()

    def drawings(self) -> list[Drawing]:
        """The drawings, of the predictions first."""
        while self._pending:
            self._predict()
        made = [one.drawing(f"Prediction {number + 1} of {self._number}") for number, one in self._quantities.items()]
        is_warmup = self._phases[False].drawing("") is None
        made.append(self._phases[is_warmup].drawing("Log posterior" + " in the warm-up" * is_warmup))
        return [one for one in made if one is not None]

    def _predict(self) -> None:
        block, self._pending = self._pending[:BLOCK], self._pending[BLOCK:]
        values = monitor(self._target, np.stack([position for _, _, position in block]))
        if not self._quantities:
            self._number = values.shape[1]
            chosen = np.unique(np.linspace(0, self._number - 1, MOST_QUANTITIES).astype(int))
            self._quantities = {int(number): Trace() for number in chosen}
        for number, trace in self._quantities.items():
            for (chain, draw, _), value in zip(block, values[:, number], strict=True):
                trace.add(chain, [draw], np.asarray([value]))
