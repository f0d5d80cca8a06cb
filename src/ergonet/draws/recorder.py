"""The recorder: stores the draws that the retention rule chooses, and the statistics of all draws if required.

It also writes checkpoints, if the store keeps them, from which it can be restored.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet.draws.checkpoint import Checkpoint, Memo, Pace
from ergonet.draws.contents import POSITIONS
from ergonet.draws.retention import AbstractRetention
from ergonet.draws.store import AbstractResumableStore, AbstractStore

Fields = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Chunk:
    """Successive draws of some chains.

    Attributes:
        chains: indices of the chains.
        is_warmup: whether the draws belong to the warm-up.
        start: index of the first draw within the warm-up or within sampling.
        fields: arrays `[chain, draw, ...]` by name, at least `lp` and `gradients`; with positions while sampling.
        fault: what is wrong with the chains, in words; empty if nothing. Draws of a faulty chunk are not stored.
        after: the job after this chunk; None if it cannot be continued from there.
    """

    chains: tuple[int, ...]
    is_warmup: bool
    start: int
    fields: Fields
    fault: str = ""
    after: Memo | None = None

    @property
    def count(self) -> int:
        """Number of draws of each chain."""
        return self.fields["lp"].shape[1]


class Recorder:
    """Records chunks as they arrive, in order for each chain, and returns what a run has drawn."""

    def __init__(self, store: AbstractStore, retention: AbstractRetention, *, has_curve: bool):
        """Check and keep the settings.

        Args:
            store: where retained draws are stored.
            retention: chooses these among the draws after the warm-up.
            has_curve: whether to keep the statistics of all draws in memory, or only those of the warm-up.
        """
        self.store, self.retention, self._has_curve = store, retention, has_curve
        self._names: tuple[str, ...] = ()
        self._statistics: list[dict[tuple[bool, int], Fields]] = []  # by chain, then by phase and first draw
        self._newest: list[dict[int, Fields]] = []  # by chain, then by first draw: draws to store at the end
        self._done: list[int] = []
        self._memos: dict[tuple[int, ...], Memo] = {}
        self._pace = Pace()

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        """Allocate the store for the retained ones of `num_draws` draws, with shapes and dtypes from `fields`."""
        self._names = tuple(name for name in fields if name != POSITIONS)
        self._statistics = [{} for _ in range(num_chains)]
        self._newest = [{} for _ in range(num_chains)]
        self._done = [0] * num_chains
        self.store.allocate(num_chains, self.retention.room(num_draws), fields)
        self._pace = Pace()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, after `allocate`.

        Raises:
            RunDirectoryError: a file to which draws would be added is damaged.
        """
        if self.retention.newest is None and isinstance(self.store, AbstractResumableStore):
            self.store.require_intact([self.retention.room(done) for done in checkpoint.done])
        self._memos, self._done = dict(checkpoint.memos), list(checkpoint.done)
        for chain, parts in enumerate(self._statistics):
            for is_warmup, group in ((True, "warmup"), (False, "curve")):
                if fields := checkpoint.series[group][chain]:
                    parts[is_warmup, 0] = fields
        for held, fields in zip(self._newest, checkpoint.series["newest"], strict=True):
            if fields:
                held[-1] = fields

    def keep(self, chunk: Chunk) -> None:
        """Record a chunk; recording it again, after an interrupt by Ctrl-C, changes nothing."""
        for row, chain in enumerate(chunk.chains):
            fields = {name: values[row] for name, values in chunk.fields.items()}
            if not chunk.is_warmup and not chunk.fault:
                self._retain(chain, chunk, fields)
                self._done[chain] = chunk.start + chunk.count
            if chunk.is_warmup or self._has_curve:  # not before the draws, whose store may be full
                statistics = {name: values for name, values in fields.items() if name != POSITIONS}
                self._statistics[chain][chunk.is_warmup, chunk.start] = statistics
        if chunk.after is not None and isinstance(self.store, AbstractResumableStore):
            self._memos[chunk.chains] = chunk.after
            if self._pace.is_due:
                self.checkpoint()

    def checkpoint(self) -> None:
        """Write a checkpoint, if the store keeps them and a chunk was made."""
        if not (self._memos and isinstance(self.store, AbstractResumableStore)):
            return
        began = time.perf_counter()
        newest = [_joined(list(held.values()), self.retention.newest) for held in self._newest]
        series = {"warmup": self._series(is_warmup=True), "curve": self._series(is_warmup=False), "newest": newest}
        self.store.write_checkpoint(Checkpoint(self._memos, self._done, series))
        self._pace.wrote(began)

    def begin(self, memos: Mapping[tuple[int, ...], Memo]) -> None:
        """Let a run that is continued before its first chunk begin with jobs as they are now."""
        self._memos |= memos
        self.checkpoint()

    def suspend(self) -> bool:
        """After an error, keep what the run needs to continue; whether it can."""
        if not (self._memos and isinstance(self.store, AbstractResumableStore)):
            return False
        with suppress(OSError):  # the disk is full: the last checkpoint stays
            self.checkpoint()
        self.store.preserve()
        return True

    def _series(self, *, is_warmup: bool) -> list[Fields]:
        return [_joined([part for (early, _), part in one.items() if early == is_warmup]) for one in self._statistics]

    def _retain(self, chain: int, chunk: Chunk, fields: Fields) -> None:
        rows = [row for row in range(chunk.count) if self.retention.chooses(chunk.start + row)]
        if not rows:
            return
        chosen = {name: fields[name][rows] for name in self._stored}
        if self.retention.newest is None:
            self.store.write(chain, self.retention.room(chunk.start + rows[0]), chosen)
            return
        held = self._newest[chain]
        held[chunk.start] = chosen
        while sum(len(one["lp"]) for one in list(held.values())[1:]) >= self.retention.newest:
            del held[next(iter(held))]

    @property
    def _stored(self) -> tuple[str, ...]:
        return (*self._names, POSITIONS)

    @property
    def drawn_by_chain(self) -> list[int]:
        """Number of retained draws of each chain."""
        return [self.retention.room(done) for done in self._done]

    @property
    def drawn(self) -> int:
        """Number of retained draws that every chain has; pending ones are stored by `finish`."""
        return min(self.drawn_by_chain)

    def finish(self) -> None:
        """Write a last checkpoint, and store the pending draws, equally many of each chain."""
        self.checkpoint()
        for chain, held in enumerate(self._newest):
            if held and self.drawn:
                self.store.write(chain, 0, _joined(list(held.values()), self.drawn))

    def stats(self) -> dict[str, np.ndarray]:
        """Statistics `[chain, draw]` by name of the retained draws that every chain has."""
        return {name: self._drawn(name) for name in self._names}

    def _drawn(self, name: str) -> np.ndarray:
        return np.asarray(self.store.field(name)[:, : self.drawn])

    def positions(self) -> Any:
        """Positions `[chain, draw, dim]` of the same draws; lazy if the store is lazy and all of it is valid."""
        positions = self.store.field(POSITIONS)
        return positions if positions.shape[1] == self.drawn else self._drawn(POSITIONS)

    def first_positions(self, count: int) -> np.ndarray:
        """Positions `[draw, dim]` of the first draws of chain 0, at most `count`, that are stored or pending."""
        held = _joined(list(self._newest[0].values()), self.retention.newest)
        return np.asarray(held[POSITIONS][:count] if held else self.store.field(POSITIONS)[0, :count])

    def warmup_stats(self) -> dict[str, np.ndarray]:
        """Statistics `[chain, draw]` by name of the warm-up; empty without one."""
        found = self._together(is_warmup=True)
        return {name: found[name] for name in self._names} if found else {}

    def curve(self) -> dict[str, np.ndarray] | None:
        """Curves `[chain, draw]` by name of the warm-up and all draws that every chain has made; None if not kept."""
        if not self._has_curve:
            return None
        parts = [part for part in (self._together(is_warmup=True), self._together(is_warmup=False)) if part]
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    def gradients(self) -> dict[str, int]:
        """Numbers of gradients of the warm-up, and of the draws that every chain has made."""
        early, late = self._together(is_warmup=True), self._together(is_warmup=False)
        return {
            "warmup": int(early["gradients"].sum()) if early else 0,
            "sampling": int((late["gradients"] if late else self._drawn("gradients")).sum()),
        }

    def _together(self, *, is_warmup: bool) -> dict[str, np.ndarray]:
        """Arrays `[chain, draw]` by name with as many draws as every chain has; empty if some chain has none."""
        chains = self._series(is_warmup=is_warmup)
        if not all(chains):
            return {}
        count = min(len(fields["lp"]) for fields in chains)
        return {name: np.stack([fields[name][:count] for fields in chains]) for name in chains[0]}


def _joined(parts: Sequence[Fields], last: int | None = None) -> Fields:
    """Successive parts of a chain as one, or the last rows of them; empty if there are none."""
    rows = slice(None if last is None else -last, None)
    return {name: np.concatenate([one[name] for one in parts])[rows] for name in (parts[0] if parts else ())}
