"""The loop that moves the chains of a minibatch run on worker threads, and keeps their draws."""

import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import DivergedError, StartError, TimeLimitError
from ergonet._types import Array
from ergonet.inference import epochs, stability
from ergonet.inference.devices import place
from ergonet.inference.epochs import MinibatchRecord
from ergonet.inference.feeds import AbstractFeed, DeviceFeed, HostFeed
from ergonet.inference.jobs import chunk_capacity
from ergonet.inference.memory import plan_memory
from ergonet.inference.minibatch_chain import STATISTICS, Chain, Fields, Request, programs
from ergonet.inference.progress import AbstractProgress, Tick
from ergonet.inference.starts import MOST_TRIES, given_positions
from ergonet.inference.store import POSITIONS, AbstractStore, ZarrStore
from ergonet.inference.workers import worker_pool

START_SHARE = 0.1  # of the target's own draw: far out in a prior a chain is hot for long, and units of a network die


class Run:
    """The state of one call of `sample_minibatches`."""

    def __init__(
        self, request: Request, num_chains: int, devices: Any, store: AbstractStore, reporter: AbstractProgress
    ):
        placement = place(devices, num_chains)
        self._request, self.reporter = request, reporter
        self._workers = placement.num_workers
        self._devices = [placement.devices[number % len(placement.devices)] for number in range(num_chains)]
        self._programs = programs(self._devices[0].platform, is_alone=self._workers == 1)
        self.store = store
        self.chains: list[Chain] = []
        self._held: list[dict[int, Fields]] = [{} for _ in range(num_chains)]
        self.curves: list[dict[int, Fields]] = [{} for _ in range(num_chains)]  # by the steps at a chunk's end
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()
        self.stopped = ""

    def prepare(self, seed: int, init: Any) -> None:
        """Start every chain, find step sizes, make room."""
        r = self._request
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
        allocated = time.perf_counter()
        for chain in dict(zip(self._devices, self.chains, strict=True)).values():  # one of each device
            chain.compile(self._programs, self.capacity)
        self.seconds = {"setup": allocated - self._began, "compile": time.perf_counter() - allocated}

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
        name = r.kernel.with_rate_named("...")
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
                    if time_limit is not None and time.perf_counter() - self._began > time_limit:
                        self._stop("the time limit", waiting)
            except KeyboardInterrupt:
                self._stop("Ctrl-C", waiting)
                for future, chain in pending.items():
                    self._keep(chain, future.result())
        self._divide_seconds(time.perf_counter() - began)
        self._refuse_nothing()

    def _divide_seconds(self, elapsed: float) -> None:
        """Wall-clock of the loop, shared out by the steps of each phase."""
        r = self._request
        steps = [chain.steps for chain in self.chains]
        in_warmup = sum(min(one, r.num_warmup * r.steps_per_draw) for one in steps)
        share = in_warmup / max(1, sum(steps))
        self.seconds |= {"warmup": share * elapsed, "sampling": (1 - share) * elapsed}

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
        tested = fields["acceptance_rate"][np.isfinite(fields["acceptance_rate"])]
        self.reporter.tick(
            Tick(
                job=chain.number,
                phase="warm-up" if chain.draws < r.num_warmup else "sampling",
                done=chain.steps,
                total=total,
                step_size=float(chain.record.step_size),
                acceptance=float(tested.mean()) if len(tested) else float("nan"),
                gradients=chain.gradients,
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
