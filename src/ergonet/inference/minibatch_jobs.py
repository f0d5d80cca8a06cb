"""Jobs of minibatch kernels, with one chain each.

A draw is the state after `steps_per_draw` minibatch steps, by default an epoch. Chains are checked after each chunk: a
chain that diverges has a fault and ends there.
"""

import time
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import StartError
from ergonet._keys import seed_words
from ergonet._numbers import like
from ergonet._types import Array
from ergonet.draws.contents import POSITIONS
from ergonet.draws.recorder import Chunk, Fields
from ergonet.draws.statistics import stored_fields
from ergonet.execution.threads import CPU_OPTIONS
from ergonet.inference import epochs, stability
from ergonet.inference.devices import Placement
from ergonet.inference.epochs import MinibatchDraws, MinibatchRecord, Section
from ergonet.inference.feeds import AbstractFeed, DeviceFeed, HostFeed
from ergonet.inference.jobs import CHUNK_SECONDS, MOST_TRIES, AbstractJob, RunPlan, Say, chunk_capacity, on_device
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, minibatch_gradient, rows_of
from ergonet.target.contract import AbstractTarget

FIRST_CHUNK = 1  # steps, before their speed is known
HOTTEST = 20.0  # kinetic temperature above which a chain counts as divergent
COOLING = 10.0  # in memories of the momentum; chains with remote initial values are hot for this long
START_SHARE = (
    0.1  # fraction of a prior draw; from remote initial values chains stay hot for long, and units become inactive
)
TEMPERATURE = "kinetic_temperature"


@dataclass(frozen=True)
class Programs:
    """Compiled programs."""

    start: Any
    gradient: Any
    first: Any
    search: Any
    advance: Any


@cache
def programs(platform: str, *, is_alone: bool) -> Programs:
    """Compiled programs; on a CPU, a single chain may use all cores for its matrix products."""
    often: dict[str, Any] = (
        {"compiler_options": CPU_OPTIONS | {"xla_cpu_multi_thread_eigen": is_alone}} if platform == "cpu" else {}
    )
    return Programs(
        start=eqx.filter_jit(epochs.start_position),
        gradient=eqx.filter_jit(minibatch_gradient, **often),
        first=eqx.filter_jit(epochs.first_record, **often),
        search=eqx.filter_jit(stability.search_step_size, **often),
        advance=eqx.filter_jit(epochs.advance, **often),
    )


@dataclass(frozen=True)
class MinibatchPlan:
    """What the minibatch jobs of a run have in common.

    Attributes:
        kernel: the transition kernel.
        run: what all kinds of jobs have in common.
        is_alone: whether only one chain advances at a time.
    """

    kernel: AbstractMinibatchKernel
    run: RunPlan
    is_alone: bool


def minibatch_jobs(plan: MinibatchPlan, target: AbstractTarget, placement: Placement) -> list[AbstractJob]:
    """Make a job for each chain."""
    chains, devices = range(plan.run.num_chains), placement.devices
    return [MinibatchJob(plan, target, chain=chain, device=devices[chain % len(devices)]) for chain in chains]


class MinibatchJob(AbstractJob):
    """A chain of a minibatch kernel."""

    DERIVED: ClassVar = ("_section",)

    def __init__(self, plan: MinibatchPlan, target: AbstractTarget, *, chain: int, device: Any):
        super().__init__((chain,), target)
        self._plan, self._device, self._chain = plan, device, chain
        self._steps_per_draw = int(plan.kernel.steps_per_draw or rows_of(target).num_rows // plan.kernel.batch_size)
        # Committed to the device like the rows: an uncommitted record would compile everything twice.
        words = np.asarray([*seed_words(plan.run.seed), chain], np.uint32)
        self._words = jax.device_put(words, device)
        self._section: tuple[int, Any] | None = None
        self._seconds_per_step = 0.0
        self._capacity = 1

    def arrive(self) -> None:
        self._section = None
        self.record, self._words = on_device(self._device, (self.record, self._words))

    @property
    def _feed(self) -> AbstractFeed:
        """The rows of the chain in order; a process keeps them for the next chunk."""
        return self.once(self._new_feed, (self._chain, self._device))

    def _new_feed(self) -> AbstractFeed:
        data, size, ordering = rows_of(self.target), self._plan.kernel.batch_size, self._plan.kernel.ordering
        rows = data.rows()
        if data.is_streamed:
            return HostFeed(rows, (self._plan.run.seed, self._chain), self._device, size, ordering=ordering)
        rows = jax.device_put(rows, self._device)
        return DeviceFeed(rows, epochs.chain_key(self._words), size, ordering=ordering)

    @property
    def _there(self) -> AbstractTarget:
        return self.target.device_part()

    @property
    def _programs(self) -> Programs:
        return programs(self._device.platform, is_alone=self._plan.is_alone)

    @property
    def program(self) -> Hashable:
        return type(self), id(self._plan), id(self.target), self._device

    @property
    def total(self) -> int:
        return (self._plan.run.num_warmup + self._plan.run.num_draws) * self._steps_per_draw

    @property
    def is_warmup(self) -> bool:
        return self.done < self._plan.run.num_warmup * self._steps_per_draw

    @property
    def step_size(self) -> float:
        return float(self.record.step_size)

    @property
    def positions(self) -> np.ndarray:
        return np.asarray(self.record.state.position)[None]

    # Before the first step

    def start(self) -> None:
        rows, order = self._feed.layout(0)
        position = self._position(jax.tree.map(lambda leaf: leaf[order[0]], rows))
        rate = self._plan.kernel.learning_rate
        self._begin_at(position, like(1.0 if rate is None else rate, position))
        self._capacity = chunk_capacity(self.target.dim, position.dtype.itemsize)

    def _begin_at(self, position: Array, step_size: Array) -> None:
        callback = self._plan.run.callback
        self.record = self._programs.first(self._plan.kernel, self._there, callback, self._words, (position, step_size))

    def _position(self, rows: Any) -> Array:
        """Initial values with a finite minibatch potential and gradient."""
        init = self._plan.run.init
        for attempt in range(MOST_TRIES if init is None else 1):
            drawn = self._drawn(attempt) if init is None else jnp.asarray(init[self._chain])
            potential, gradient = self._programs.gradient(self._there, drawn, rows)
            if np.isfinite(potential) and np.all(np.isfinite(gradient)):
                return drawn
        raise StartError(
            f"Chain {self._chain}: no initial values had a finite minibatch potential and gradient. Check the scale "
            f"of the data and the prior, or pass `init`."
        )

    def _drawn(self, attempt: int) -> Array:
        return START_SHARE * self._programs.start(self._there, self._words, np.asarray(attempt, np.int32))

    def fields(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        dtype = self.record.state.position.dtype
        return stored_fields(epochs.declared(self._plan.kernel), dtype) | {POSITIONS: ((self.target.dim,), dtype)}

    def compile(self) -> None:
        """Compile the program that advances the chain, by running a chunk of no steps."""
        self._run(0)

    def search(self, say: Say) -> None:
        if self._plan.kernel.learning_rate is not None:
            return
        trials = stability.Trials.of(self._plan.kernel, self.record.state.position)
        stream = self._feed.layout(0)
        step_size = self._programs.search(self._plan.kernel, self._there, self.record, stream, trials)
        name = self._plan.kernel.with_rate_named("...")
        if not np.isfinite(step_size):
            raise StartError(
                f"Chain {self._chain}: no `{name}` was stable in {stability.MOST_TRIALS} trials. Check the scale "
                f"of the data, or give one."
            )
        say(f"Chain {self._chain}: `{name}` {float(step_size):.3g}, from the stability search.")
        self._begin_at(self.record.state.position, step_size)

    # Steps

    def advance(self) -> Chunk:
        began, is_warmup, count = time.perf_counter(), self.is_warmup, self._chunk_size()
        start = self.done // self._steps_per_draw - (0 if is_warmup else self._plan.run.num_warmup)
        record, draws = self._run(count)
        fields = _fields(draws)
        fault = self._fault_of(fields, record)
        # The callback's summary includes only chunks without a fault, like the stored draws.
        self.record = replace(record, summary=self.record.summary) if fault else record
        self.counters["transitions"] += count
        self._seconds_per_step = (time.perf_counter() - began) / count
        fields = {name: values[None] for name, values in fields.items()}
        return Chunk(chains=self.chains, is_warmup=is_warmup, start=start, fields=fields, fault=fault)

    def _chunk_size(self) -> int:
        """Steps of the next chunk: the rest of a layout, of the phase or of half a second, whichever is least."""
        speed, num_warmup = self._seconds_per_step, self._plan.run.num_warmup
        end = num_warmup * self._steps_per_draw if self.is_warmup else self.total
        return min(
            self._layout()[1].shape[0] - self.done % self._feed.layout_size,
            end - self.done,
            self._capacity * self._steps_per_draw,
            max(1, int(CHUNK_SECONDS / speed)) if speed else FIRST_CHUNK,
        )

    def _run(self, count: int) -> tuple[MinibatchRecord, MinibatchDraws]:
        """Run `count` steps from the current state of the chain."""
        numbers = (self.done % self._feed.layout_size, count, self._steps_per_draw)
        where = (*(np.asarray(number, np.int32) for number in numbers), np.asarray(not self.is_warmup))
        stream = (*self._layout(), Section(*jax.device_put(where)))
        arguments = self._plan.kernel, self._there, self.record, stream, self._plan.run.callback
        return self._programs.advance(*arguments, capacity=self._capacity)

    def _layout(self) -> tuple[Any, Array]:
        """The current rows, and the order in which minibatches take them."""
        number = self.done // self._feed.layout_size
        if self._section is None or self._section[0] != number:
            self._section = number, self._feed.layout(number)
        return self._section[1]

    # What can go wrong

    def _fault_of(self, fields: Fields, record: MinibatchRecord) -> str:
        """What is wrong with the chain after a chunk, in words; empty if nothing.

        With a bounded activation a divergent chain stays finite, so the temperature is checked, too, unless divergent
        trajectories are rejected: then only a chain that comes from remote initial values is hot.
        """
        kernel = self._plan.kernel
        setting = f"`{kernel.with_rate_named(f'{float(record.step_size):.3g}')}`"
        finite = not bool(record.running.nonfinite) and not fields["nonfinite"].any()
        if not finite or not np.all(np.isfinite(record.state.position)):
            return f"its potential or position is not finite: {setting} is too large"
        is_young = self.done < COOLING * kernel.memory
        has_momentum = kernel.memory > 1  # a tree resamples its momentum, and is hot if the minibatches disagree
        if is_young or not has_momentum or kernel.is_corrected or TEMPERATURE not in fields:
            return ""
        temperature = self._mean_temperature(fields, record)
        # The gradient noise is large relative to the small noise of a tempered kernel: hot, but not divergent.
        tempered = min(1.0, getattr(kernel, "temperature", 1.0))
        friction = "friction (`momentum_decay`) or the " if hasattr(kernel, "momentum_decay") else ""
        if tempered * temperature <= HOTTEST or np.isnan(temperature):
            return ""
        return (
            f"its kinetic temperature is {temperature:.0f}, which should be near 1: lower {setting}, raise the "
            f"{friction}batch size"
        )

    def _mean_temperature(self, fields: Fields, record: MinibatchRecord) -> float:
        """The mean kinetic temperature over the steps of a chunk, including incomplete draws."""
        (mean,) = (one.thinning for one in self._plan.kernel.statistics() if one.name == TEMPERATURE)
        of_draws = np.sum(fields[TEMPERATURE], dtype=float) * self._steps_per_draw
        begun, ended = (float(mean.sum_of(one.running.totals[TEMPERATURE])) for one in (self.record, record))
        return (of_draws + ended - begun) / (int(record.number) - int(self.record.number))

    # Afterwards

    def tuning(self) -> dict[str, np.ndarray]:
        return {"step_size": np.asarray([self.step_size])}

    def summaries(self) -> list[Any]:
        return [self.record.summary]

    def about(self) -> dict[str, Any]:
        kernel = self._plan.kernel
        return {
            "kernel": type(kernel).__name__,
            "kernel_settings": repr(kernel),
            "steps_per_draw": self._steps_per_draw,
            "batch_size": kernel.batch_size,
            "minibatches": kernel.ordering.words,
            "remedies": kernel.remedies,
            "num_warmup": self._plan.run.num_warmup,
        }


def _fields(draws: MinibatchDraws) -> dict[str, np.ndarray]:
    count = int(draws.count)
    every = draws.stats | draws.scores | {POSITIONS: draws.positions}
    return {name: np.asarray(values)[:count] for name, values in every.items()}
