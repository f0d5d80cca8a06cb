"""The record of a run: draws, statistics and settings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ergonet import _notebook
from ergonet._errors import CapabilityError
from ergonet.target.contract import AbstractTarget

CHUNK_BYTES = 64 * 2**20
LazyOrNot = Mapping[str, Any]  # NumPy arrays by name; a check of their types would read those that are on disk


@dataclass(frozen=True, repr=False)
class Record:
    """Draws of a run.

    Attributes:
        positions: `[chain, draw, dim]`, a NumPy array or a lazy Zarr array.
        stats: statistics `[chain, draw]` by name: lp, step_size and gradients, and those that the kernel declares:
            acceptance_rate, diverging, nonfinite, moved, energy_error, max_energy_error, n_steps, energy, tree_depth,
            n_proposals. A minibatch kernel has lp (minus the mean minibatch potential over the steps of a draw),
            gradients, step_size, weight, nonfinite, kinetic_temperature, clipped and acceptance_rate. Statistics that a
            kernel does not have are absent.
        warmup_stats: the same statistics for the warm-up.
        seconds: wall-clock seconds of `setup`, `compile`, `warmup`, `sampling` and `total`, and of a `warm_start`.
        gradients: number of potential gradients of all chains in `warmup` and `sampling`, and in a `warm_start`, whose
            optimizer has minibatch gradients if there are rows.
        tuning: `step_size` `[chain]`, `num_steps` `[chain]`, `inverse_mass_matrix` `[chain, dim(, dim)]`, and
            `rejected_metrics` `[chain]`, if metrics are learned: how often the warm-up rejected a learned metric that
            was not finite and kept the previous one (`refused_metrics` in older runs). After a warm start,
            also `warm_start_loss` and `warm_start_epoch` `[chain]`, of the optimizer on the held-out rows.
        about: kernel, seed, counts and versions, JSON types only; `target_acceptance` is None if the warm-up did not
            tune the step size.
        target: what was sampled; None for draws that were loaded without it.
        curve: learning curves `[chain, draw]` by name over the warm-up and all draws, stored or not: statistics, and
            figures of a callback. None if only the stored draws were recorded.
        running_summary: the callback's summary of all draws after the warm-up over all chains; None without one.
    """

    positions: Any
    stats: LazyOrNot
    warmup_stats: LazyOrNot
    seconds: Mapping[str, float]
    gradients: Mapping[str, int]
    tuning: LazyOrNot
    about: Mapping[str, Any]
    target: AbstractTarget | None = field(default=None, repr=False)
    curve: LazyOrNot | None = field(default=None, repr=False)
    running_summary: Any = field(default=None, repr=False)

    def __repr__(self) -> str:
        return _notebook.line(self, self._facts())

    def _repr_html_(self) -> str:
        return _notebook.table(self, self._facts())

    def _facts(self) -> dict[str, object]:
        """What a reader wants to know first, without reading or computing anything."""
        facts: dict[str, object] = {"kernel": self.about.get("kernel", "unknown"), "chains": self.num_chains}
        facts |= {"draws": self.num_draws, "coordinates": self.positions.shape[2]}
        if self.about.get("stopped_by"):
            facts["stopped_by"] = self.about["stopped_by"]
        if "total" in self.seconds:
            facts["seconds"] = f"{self.seconds['total']:.1f}"
        return facts

    @property
    def num_chains(self) -> int:
        """Number of chains."""
        return self.positions.shape[0]

    @property
    def num_draws(self) -> int:
        """Stored draws of each chain."""
        return self.positions.shape[1]

    @property
    def is_of_minibatches(self) -> bool:
        """Whether the draws are from a minibatch kernel, which has no energies and whose gradients cover some rows."""
        return "moved" not in self.stats

    def require_target(self) -> AbstractTarget:
        """The target, for operations that need it.

        Raises:
            CapabilityError: the draws were loaded without it.
        """
        if self.target is None:
            raise CapabilityError(
                "These samples were loaded without their target, so positions have no names. "
                "Pass it: `ergonet.load(path, target=target)`."
            )
        return self.target

    def chunks(self, chain: int, most: int | None = None) -> Iterator[np.ndarray]:
        """Yield the positions `[draw, dim]` of a chain in chunks of bounded memory and at most `most` draws."""
        size = max(1, CHUNK_BYTES // (4 * self.positions.shape[2]))
        size = size if most is None else min(size, most)
        for start in range(0, self.num_draws, size):
            yield np.asarray(self.positions[chain, start : start + size])
