"""The recorder: stores the draws that the retention rule chooses, and the statistics of all draws if required."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet.draws.contents import POSITIONS
from ergonet.draws.retention import AbstractRetention
from ergonet.draws.store import AbstractStore

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
    """

    chains: tuple[int, ...]
    is_warmup: bool
    start: int
    fields: Fields
    fault: str = ""

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

    def allocate(self, num_chains: int, num_draws: int, fields: Mapping[str, tuple[tuple[int, ...], np.dtype]]) -> None:
        """Allocate the store for the retained ones of `num_draws` draws, with shapes and dtypes from `fields`."""
        self._names = tuple(name for name in fields if name != POSITIONS)
        self._statistics = [{} for _ in range(num_chains)]
        self._newest = [{} for _ in range(num_chains)]
        self._done = [0] * num_chains
        self.store.allocate(num_chains, self.retention.room(num_draws), fields)

    def keep(self, chunk: Chunk) -> None:
        """Record a chunk; recording it again, after an interrupt by Ctrl-C, changes nothing."""
        for row, chain in enumerate(chunk.chains):
            fields = {name: values[row] for name, values in chunk.fields.items()}
            if chunk.is_warmup or self._has_curve:
                statistics = {name: values for name, values in fields.items() if name != POSITIONS}
                self._statistics[chain][chunk.is_warmup, chunk.start] = statistics
            if not chunk.is_warmup and not chunk.fault:
                self._retain(chain, chunk, fields)
                self._done[chain] = chunk.start + chunk.count

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
    def drawn(self) -> int:
        """Number of retained draws that every chain has; pending ones are stored by `finish`."""
        return min(self.retention.room(done) for done in self._done)

    def finish(self) -> None:
        """Store the pending draws, equally many of each chain."""
        for chain, held in enumerate(self._newest):
            if held and self.drawn:
                names = next(iter(held.values()))
                self.store.write(
                    chain,
                    0,
                    {name: np.concatenate([one[name] for one in held.values()])[-self.drawn :] for name in names},
                )

    def stats(self) -> dict[str, np.ndarray]:
        """Statistics `[chain, draw]` by name of the retained draws that every chain has."""
        return {name: np.asarray(self.store.field(name)[:, : self.drawn]) for name in self._names}

    def positions(self) -> Any:
        """Positions `[chain, draw, dim]` of the same draws; lazy if the store is lazy and all of it is valid."""
        positions = self.store.field(POSITIONS)
        return positions if positions.shape[1] == self.drawn else np.asarray(positions[:, : self.drawn])

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
        early, late = self._together(is_warmup=True), self._together(is_warmup=False) or self.stats()
        return {
            "warmup": int(early["gradients"].sum()) if early else 0,
            "sampling": int(late["gradients"].sum()),
        }

    def _together(self, *, is_warmup: bool) -> dict[str, np.ndarray]:
        """Arrays `[chain, draw]` by name with as many draws as every chain has; empty if some chain has none."""
        chains = [[part for (early, _), part in parts.items() if early == is_warmup] for parts in self._statistics]
        if not all(chains):
            return {}
        long = {name: [np.concatenate([part[name] for part in parts]) for parts in chains] for name in chains[0][0]}
        count = min(len(values) for values in long["lp"])
        return {name: np.stack([values[:count] for values in arrays]) for name, arrays in long.items()}
