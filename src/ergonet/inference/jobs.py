"""A job: the chains of one program, moved from stage to stage in chunks by a worker thread."""

import time
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet.adaptation.warmup import Stage, Warmup
from ergonet.inference.chains import ChainRecord, Draws, Plan
from ergonet.inference.programs import Programs
from ergonet.inference.samples import statistics_of
from ergonet.inference.store import POSITIONS
from ergonet.inference.workers import worker_pool
from ergonet.models.target import Target
from ergonet.samplers.base import AbstractKernel

CHUNK_SECONDS = 0.5
CHUNK_BYTES = 4 * 2**20
LARGEST_CHUNK = 1000


def chunk_capacity(dim: int, itemsize: int) -> int:
    """Draws that a chunk can hold: 4 MiB of positions, at most 1000, at least 1."""
    return max(1, min(LARGEST_CHUNK, CHUNK_BYTES // (dim * itemsize)))


@dataclass(frozen=True)
class Settings:
    """What all jobs of a run share."""

    kernel: AbstractKernel
    target: Target
    warmup: Warmup
    num_draws: int
    thin: int
    capacity: int


@dataclass(frozen=True)
class Block:
    """What a chunk leaves behind: rows of each of the job's chains, `[chain, draw, ...]` by field."""

    is_warmup: bool
    start: int
    count: int
    fields: dict[str, np.ndarray]


class Job:
    """One or more chains of a device. `step` does the next chunk; only one thread calls it at a time."""

    def __init__(
        self,
        settings: Settings,
        programs: Programs,
        *,
        chains: tuple[int, ...],
        device: Any,
        is_batched: bool,
    ):
        self.chains = chains
        self.busy = {"warmup": 0.0, "sampling": 0.0}
        self._settings = settings
        self._programs = programs
        self._device = device
        self._is_batched = is_batched
        self._target = _on(device, settings.target)
        self._record: Any = None
        self._stage = 0
        self._in_stage = 0
        self._warmed = 0
        self.drawn = 0
        self._seconds_per_draw = 0.0

    @property
    def transitions(self) -> int:
        """Transitions so far."""
        return self._warmed + self.drawn * self._settings.thin

    @property
    def total(self) -> int:
        """Transitions of the whole run."""
        return self._settings.warmup.num_transitions + self._settings.num_draws * self._settings.thin

    @property
    def is_finished(self) -> bool:
        """Whether every draw has been made."""
        return self.drawn >= self._settings.num_draws

    @property
    def record(self) -> Any:
        """The chains between two chunks."""
        return self._record

    def start(self, records: list[ChainRecord]) -> None:
        """Take over chains at their starting positions."""
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *records) if self._is_batched else _only(records)
        self._record = _on(self._device, together)

    def compile(self) -> None:
        """Compile every program, so that nothing compiles later.

        One is traced while the other compiles. To compile them side by side would gain nothing, because XLA
        uses several threads for each, and would raise the peak of memory.
        """
        positional, named = self._advance_arguments(self._plan(None), 0)
        with worker_pool(1) as pool:
            finishing = self._programs.finish_stage.lower(*self._finish_arguments(Plan.of_search()))
            compiling = [pool.submit(finishing.compile)]
            compiling.append(pool.submit(self._programs.advance.lower(*positional, **named).compile))
            for future in compiling:
                future.result()

    def search(self) -> None:
        """Find a first step size, where one is to be learned."""
        if self._settings.kernel.warmup().tune_step_size:
            self._record = self._finish(Plan.of_search())

    def _finish(self, plan: Plan, *, tuning_rests: bool = False) -> Any:
        return self._programs.finish_stage(*self._finish_arguments(plan, tuning_rests=tuning_rests))

    def _finish_arguments(self, plan: Plan, *, tuning_rests: bool = False) -> tuple[Any, ...]:
        s = self._settings
        return s.kernel, self._target, self._record, plan, np.asarray(tuning_rests)

    def _advance(self, plan: Plan, count: int) -> tuple[Any, Draws]:
        positional, named = self._advance_arguments(plan, count)
        return self._programs.advance(*positional, **named)

    def _advance_arguments(self, plan: Plan, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        s = self._settings
        thin = 1 if self._stage < len(s.warmup.stages) else s.thin
        positional = (s.kernel, self._target, self._record, plan, np.asarray(count, np.int32))
        return positional, {"thin": np.asarray(thin, np.int32), "capacity": s.capacity}

    def _plan(self, stage: Stage | None) -> Plan:
        return Plan.of(stage, self._settings.warmup.target_acceptance)

    def step(self) -> Block:
        """The next chunk, and the end of its stage where it completes one."""
        began = time.perf_counter()
        s = self._settings
        is_warmup = self._stage < len(s.warmup.stages)
        stage = s.warmup.stages[self._stage] if is_warmup else None
        left = stage.num_transitions - self._in_stage if stage else s.num_draws - self.drawn
        count = min(left, self._chunk_size(is_warmup=is_warmup))
        self._record, draws = self._advance(self._plan(stage), count)
        fields = self._fields(draws, count, is_warmup=is_warmup)
        start = self._warmed if is_warmup else self.drawn
        if stage:
            self._in_stage += count
            self._warmed += count
            if self._in_stage == stage.num_transitions:
                self._finish_stage(stage)
        else:
            self.drawn += count
        elapsed = time.perf_counter() - began
        per_transition = 1 if is_warmup else s.thin
        self._seconds_per_draw = elapsed / (count * per_transition)
        self.busy["warmup" if is_warmup else "sampling"] += elapsed
        return Block(is_warmup=is_warmup, start=start, count=count, fields=fields)

    def _finish_stage(self, stage: Any) -> None:
        rests = self._settings.warmup.tuning_rests_after(self._stage)
        self._record = self._finish(self._plan(stage), tuning_rests=rests)
        self._stage += 1
        self._in_stage = 0

    def _chunk_size(self, *, is_warmup: bool) -> int:
        """Draws that take about half a second at the rate of the last chunk."""
        if not self._seconds_per_draw:
            return min(10, self._settings.capacity)
        per_draw = self._seconds_per_draw * (1 if is_warmup else self._settings.thin)
        return max(1, min(self._settings.capacity, int(CHUNK_SECONDS / per_draw)))

    def _fields(self, draws: Draws, count: int, *, is_warmup: bool) -> dict[str, np.ndarray]:
        fields = statistics_of(draws, count)
        if not is_warmup:
            fields[POSITIONS] = np.asarray(draws.positions)[..., :count, :]
        if self._is_batched:
            return fields
        return {name: values[None] for name, values in fields.items()}


def _on(device: Any, tree: Any) -> Any:
    """The same tree with its arrays on a device."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.device_put(arrays, device), rest)


def _only(values: list[Any]) -> Any:
    (value,) = values
    return value
