"""The chains of a minibatch run, and the loop that moves them on worker threads."""

import os
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import DivergedError, StartError, TimeLimitError
from ergonet._types import Array
from ergonet.inference import epochs, stability
from ergonet.inference.devices import place
from ergonet.inference.epochs import AbstractWatch, MinibatchDraws, MinibatchRecord, Section
from ergonet.inference.feeds import AbstractFeed, DeviceFeed, HostFeed
from ergonet.inference.jobs import CHUNK_SECONDS, chunk_capacity
from ergonet.inference.keeping import AbstractKeep
from ergonet.inference.memory import plan_memory
from ergonet.inference.programs import CPU_OPTIONS
from ergonet.inference.progress import AbstractProgress, Tick
from ergonet.inference.starts import MOST_TRIES, given_positions
from ergonet.inference.store import POSITIONS, AbstractStore, MemoryStore, ZarrStore
from ergonet.inference.workers import worker_pool
from ergonet.models.target import Target
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, minibatch_gradient

START_SHARE = 0.1  # of the target's own draw: far out in a prior a chain is hot for long, and units of a network die
FIRST_CHUNK = 20  # steps, before their speed is known
RUNAWAY_TEMPERATURE = 20.0  # no friction that is meant to work is outweighed as much
COOLING = 10.0  # times the memory of the momentum: a start far out is hot for as long
STATISTICS = (
    "lp",
    "kinetic_temperature",
    "acceptance_rate",
    "step_size",
    "weight",
    "gradients",
    "clipped",
    "nonfinite",
)
Fields = dict[str, np.ndarray]


@dataclass(frozen=True)
class Request:
    """What is asked for."""

    target: Target
    kernel: AbstractMinibatchKernel
    watch: AbstractWatch
    keep: AbstractKeep
    num_warmup: int
    num_draws: int

    @property
    def name(self) -> str:
        """The kernel, as messages call it."""
        return type(self.kernel).__name__

    @property
    def compiled(self) -> AbstractMinibatchKernel:
        """The kernel as programs see it: another learning rate compiles nothing."""
        return self.kernel.without_rate()

    @property
    def steps_per_draw(self) -> int:
        """Minibatch steps of a draw."""
        return self.kernel.steps_per_draw or self.target.num_rows // self.kernel.batch_size


@dataclass(frozen=True)
class _Programs:
    """Compiled programs."""

    start: Any
    gradient: Any
    first: Any
    search: Any
    advance: Any


@cache
def _programs(platform: str, *, is_alone: bool) -> _Programs:
    """On a CPU, a chain that is alone may use every core for its matrix products."""
    often: dict[str, Any] = (
        {"compiler_options": CPU_OPTIONS | {"xla_cpu_multi_thread_eigen": is_alone}} if platform == "cpu" else {}
    )
    return _Programs(
        start=eqx.filter_jit(epochs.start_position),
        gradient=eqx.filter_jit(minibatch_gradient, **often),
        first=eqx.filter_jit(epochs.first_record, **often),
        search=eqx.filter_jit(stability.search_step_size, **often),
        advance=eqx.filter_jit(epochs.advance, **often),
    )


class Chain:
    """One chain, moved by one worker thread at a time."""

    def __init__(self, request: Request, number: int, record: MinibatchRecord, feed: AbstractFeed):
        self.number, self.record = number, record
        self.steps = 0
        self.fault = ""
        self._request, self._feed = request, feed
        self._block: tuple[int, Any] | None = None
        self._seconds_per_step = 0.0

    @property
    def draws(self) -> int:
        """Draws so far, those of the warm-up included."""
        return self.steps // self._request.steps_per_draw

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to do."""
        return bool(self.fault) or self.draws >= self._request.num_warmup + self._request.num_draws

    def step(self, programs: _Programs, capacity: int) -> Fields:
        """The next chunk; its draws, by field `[draw, ...]`."""
        began = time.perf_counter()
        rows, order, section = self._stream(capacity)
        count = int(section.num_steps)
        r = self._request
        stream = rows, order, section
        record, draws = programs.advance(r.compiled, r.target, self.record, stream, r.watch, capacity=capacity)
        fields = _fields(draws)
        is_young = self.steps < COOLING * r.kernel.memory
        self.fault = _fault(r, fields, self.record, record, is_young=is_young)
        # What a watch sums up is that of good chunks, as the draws that are stored.
        self.record = replace(record, summary=self.record.summary) if self.fault else record
        self.steps += count
        self._seconds_per_step = (time.perf_counter() - began) / count
        return fields

    def _stream(self, capacity: int) -> tuple[Any, Array, Section]:
        """What a chunk takes: the rest of a block, of the phase or of half a second, whatever is least."""
        r = self._request
        number, offset = divmod(self.steps, self._feed.block_size)
        if self._block is None or self._block[0] != number:
            self._block = number, self._feed.block(number)
        rows, order = self._block[1]
        is_warmup = self.draws < r.num_warmup
        end = (r.num_warmup + (0 if is_warmup else r.num_draws)) * r.steps_per_draw
        speed = self._seconds_per_step
        count = min(
            order.shape[0] - offset,
            end - self.steps,
            capacity * r.steps_per_draw,
            max(1, int(CHUNK_SECONDS / speed)) if speed else FIRST_CHUNK,
        )
        numbers = (np.asarray(number, np.int32) for number in (offset, count, r.steps_per_draw))
        return rows, order, Section(*jax.device_put((*numbers, np.asarray(not is_warmup))))


def _fields(draws: MinibatchDraws) -> Fields:
    count = int(draws.count)
    named = dict(
        zip(
            STATISTICS,
            (
                draws.lp,
                draws.temperature,
                draws.acceptance,
                draws.step_size,
                draws.weight,
                draws.gradients,
                draws.clipped,
                draws.nonfinite,
            ),
            strict=True,
        )
    )
    every = named | draws.scores | {POSITIONS: draws.positions}
    return {name: np.asarray(values)[:count] for name, values in every.items()}


def _fault(
    request: Request, fields: Fields, before: MinibatchRecord, record: MinibatchRecord, *, is_young: bool
) -> str:
    """What is wrong with a chain after a chunk, in words; empty where nothing is.

    A bounded activation keeps a chain that has run away finite, so the temperature is looked at too.
    """
    setting = f"`{request.name}(learning_rate={float(record.step_size):.3g})`"
    finite = np.isfinite(record.running.potential) and not fields["nonfinite"].any()
    if not finite or not np.all(np.isfinite(record.state.position)):
        return f"its potential or position is not finite: {setting} is too large"
    temperature = _mean_temperature(request, fields, before, record)
    # Beside the little noise of a tempered kernel, that of the gradient is large: hot, but it does not run away.
    tempered = min(1.0, getattr(request.kernel, "temperature", 1.0))
    has_momentum = request.kernel.memory > 1  # a tree draws its own, and is hot where the minibatches disagree
    if has_momentum and tempered * temperature > RUNAWAY_TEMPERATURE and not is_young:
        return (
            f"its kinetic temperature is {temperature:.0f}, which should be near 1: lower {setting}, raise the "
            f"friction (`momentum_decay`) or the batch size"
        )
    return ""


def _mean_temperature(request: Request, fields: Fields, before: MinibatchRecord, record: MinibatchRecord) -> float:
    """The kinetic temperature over the steps of a chunk, of draws and of parts of them; NaN without momentum."""
    of_draws = np.sum(fields["kinetic_temperature"], dtype=float) * request.steps_per_draw
    begun, ended = (float(one.running.temperature) for one in (before, record))
    return (of_draws + ended - begun) / (int(record.number) - int(before.number))


class Run:
    """The state of one call of `sample_minibatches`."""

    def __init__(self, request: Request, num_chains: int, devices: Any, store: Any, reporter: AbstractProgress):
        placement = place(devices, num_chains)
        self._request, self.reporter = request, reporter
        self._workers = placement.num_workers
        self._devices = [placement.devices[number % len(placement.devices)] for number in range(num_chains)]
        self._programs = _programs(self._devices[0].platform, is_alone=self._workers == 1)
        self.store: AbstractStore = (
            ZarrStore(store) if isinstance(store, str | os.PathLike) else MemoryStore() if store is None else store
        )
        self.chains: list[Chain] = []
        self._held: list[dict[int, Fields]] = [{} for _ in range(num_chains)]
        self.curves: list[dict[int, Fields]] = [{} for _ in range(num_chains)]  # by the steps at a chunk's end
        self.seconds: dict[str, float] = {}
        self.stopped = ""

    def prepare(self, seed: int, init: Any) -> None:
        """Start every chain, find step sizes, make room."""
        began, r = time.perf_counter(), self._request
        num_chains = len(self._devices)
        rows = r.target.rows()
        on_host = all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(rows))
        given = None if init is None else given_positions(r.target, num_chains, init)
        for number, device in enumerate(self._devices):
            # Put there, as the rows are: a record that is not bound to a device would compile everything twice.
            words = jax.device_put(np.asarray([seed & 0xFFFF_FFFF, seed >> 32, number], np.uint32), device)
            size = r.kernel.batch_size
            feed: AbstractFeed = (
                HostFeed(rows, (seed, number), device, size)
                if on_host
                else DeviceFeed(jax.device_put(rows, device), epochs.chain_key(words), size)
            )
            record = self._start(words, feed, None if given is None else given[number])
            self.chains.append(Chain(r, number, record, feed))
        dtype = self.chains[0].record.state.position.dtype
        self.capacity = chunk_capacity(r.target.dim, dtype.itemsize)
        kept = r.keep.room(r.num_draws)
        folder = self.store.path if isinstance(self.store, ZarrStore) else None
        per_draw = r.target.dim * dtype.itemsize + 4 * len(STATISTICS)
        self.reporter.say(str(plan_memory(num_chains, kept, bytes_per_draw=per_draw, folder=folder)))
        kinds = {"gradients": np.int32, "nonfinite": np.bool_}
        fields: Any = {name: ((), np.dtype(kinds.get(name, dtype))) for name in STATISTICS}
        fields[POSITIONS] = ((r.target.dim,), np.dtype(dtype))
        self.store.allocate(num_chains, kept, fields)
        self.seconds["setup"] = time.perf_counter() - began

    def _start(self, words: Array, feed: AbstractFeed, given: np.ndarray | None) -> MinibatchRecord:
        r, p = self._request, self._programs
        rows, order = feed.block(0)
        chain = int(words[2])
        position = self._position(words, jax.tree.map(lambda leaf: leaf[order[0]], rows), given)
        step_size = jnp.asarray(r.kernel.learning_rate or 1.0, position.dtype)
        record = p.first(r.compiled, r.target, r.watch, words, (position, step_size))
        if r.kernel.learning_rate is not None:
            return record
        step_size = p.search(r.compiled, r.target, record, rows, order)
        name = f"{r.name}(learning_rate=...)"
        if not np.isfinite(step_size):
            raise StartError(
                f"Chain {chain}: no `{name}` was stable in {stability.MOST_TRIALS} trials. Check the data's scale, or "
                f"give one."
            )
        self.reporter.say(f"Chain {chain}: `{name}` {float(step_size):.3g}, from the stability search.")
        return p.first(r.compiled, r.target, r.watch, words, (position, step_size))

    def _position(self, words: Array, rows: Any, given: np.ndarray | None) -> Array:
        """A start with a finite minibatch potential and gradient."""
        r, p = self._request, self._programs
        for attempt in range(MOST_TRIES if given is None else 1):
            drawn = jnp.asarray(given) if given is not None else self._drawn(words, attempt)
            potential, gradient = p.gradient(r.target, drawn, rows)
            if np.isfinite(potential) and np.all(np.isfinite(gradient)):
                return drawn
        raise StartError(
            f"Chain {int(words[2])}: no start had a finite minibatch potential and gradient. Check the data's scale "
            f"and the prior, or give `init`."
        )

    def _drawn(self, words: Array, attempt: int) -> Array:
        return START_SHARE * self._programs.start(self._request.target, words, np.asarray(attempt, np.int32))

    def drive(self, time_limit: float | None) -> None:
        """Run chunks until every chain is done, the time is up, or Ctrl-C."""
        began = time.perf_counter()
        pending: dict[Future[Fields], Chain] = {}
        waiting = list(self.chains)
        with worker_pool(self._workers) as pool:
            try:
                while waiting or pending:
                    self._submit(pool, waiting, pending)
                    finished, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                    for future in finished:
                        chain = pending[future]
                        self._keep(chain, future.result())
                        del pending[future]
                        if not chain.is_finished and not self.stopped:
                            waiting.append(chain)
                        if chain.fault:
                            self._stop(f"a chain that ran away (chain {chain.number}: {chain.fault})", waiting)
                    if time_limit is not None and time.perf_counter() - began > time_limit:
                        self._stop("the time limit", waiting)
            except KeyboardInterrupt:
                self._stop("Ctrl-C", waiting)
                for future, chain in pending.items():
                    self._keep(chain, future.result())
        self.seconds["sampling"] = time.perf_counter() - began
        self._refuse_nothing()

    def _submit(self, pool: ThreadPoolExecutor, waiting: list[Chain], pending: dict[Future[Fields], Chain]) -> None:
        waiting.sort(key=lambda chain: chain.steps)
        while waiting and len(pending) < self._workers:
            chain = waiting.pop(0)
            pending[pool.submit(chain.step, self._programs, self.capacity)] = chain

    def _stop(self, why: str, waiting: list[Chain]) -> None:
        self.stopped = self.stopped or why
        waiting.clear()

    def _refuse_nothing(self) -> None:
        if not self.stopped or self.drawn():
            return
        faults = [
            f"Chain {chain.number} ran away after {chain.steps} steps: {chain.fault}."
            for chain in self.chains
            if chain.fault
        ]
        if faults:
            raise DivergedError(" ".join(faults))
        if self.stopped == "Ctrl-C":
            raise KeyboardInterrupt
        raise TimeLimitError(
            "`time_limit` was over before every chain had stored a draw. Allow more time, or lower `num_warmup`."
        )

    def _keep(self, chain: Chain, fields: Fields) -> None:
        r = self._request
        first = chain.draws - len(fields["lp"]) - r.num_warmup
        rows = [row for row in range(max(0, -first), len(fields["lp"])) if r.keep.chooses(first + row)]
        if rows and not chain.fault:
            stored = {name: fields[name][rows] for name in (*STATISTICS, POSITIONS)}
            if r.keep.newest is None:
                self.store.write(chain.number, r.keep.room(first + rows[0]), stored)
            else:
                held = self._held[chain.number]
                held[chain.steps] = stored  # by its last step: a chunk that is kept again must count once
                while sum(len(one["lp"]) for one in list(held.values())[1:]) >= r.keep.newest:
                    del held[next(iter(held))]
        # A chunk that is kept again, after a Ctrl-C while it was kept, must count once.
        self.curves[chain.number][chain.steps] = {name: fields[name] for name in fields if name != POSITIONS}
        total = (r.num_warmup + r.num_draws) * r.steps_per_draw
        temperature = fields["kinetic_temperature"]
        self.reporter.tick(
            Tick(
                job=chain.number,
                phase="warm-up" if chain.draws < r.num_warmup else "sampling",
                done=chain.steps,
                total=total,
                step_size=float(chain.record.step_size),
                acceptance=float(temperature[-1]) if len(temperature) else float("nan"),
                gradients=chain.steps,
                divergences=int(bool(chain.fault)),
            )
        )

    def drawn(self) -> int:
        """Draws that every chain has stored, or will have at the end."""
        r = self._request
        kept = []
        for chain in self.chains:
            parts = list(self.curves[chain.number].values())
            done = sum(len(part["lp"]) for part in (parts[:-1] if chain.fault else parts))
            kept.append(r.keep.room(max(0, done - r.num_warmup)))
        return min(kept)

    def store_newest(self) -> None:
        """Store the draws that have waited for the end, as many of each chain."""
        if self._request.keep.newest is None:
            return
        count = self.drawn()
        for number, held in enumerate(self._held):
            parts = list(held.values())
            if count and parts:
                together = {name: np.concatenate([part[name] for part in parts])[-count:] for name in parts[0]}
                self.store.write(number, 0, together)
