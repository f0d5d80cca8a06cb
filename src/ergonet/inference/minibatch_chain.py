"""What is asked of a minibatch run, its compiled programs, and one chain of it with what can go wrong."""

import time
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._types import Array
from ergonet.inference import epochs, stability
from ergonet.inference.epochs import AbstractWatch, MinibatchDraws, MinibatchRecord, Section
from ergonet.inference.feeds import AbstractFeed
from ergonet.inference.jobs import CHUNK_SECONDS
from ergonet.inference.keeping import AbstractKeep
from ergonet.inference.programs import CPU_OPTIONS
from ergonet.inference.store import POSITIONS
from ergonet.models.target import Target
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel, minibatch_gradient

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
        """The kernel as programs see it: another learning rate compiles nothing (but those of a hand-over's parts)."""
        return self.kernel.without_rate()

    @property
    def steps_per_draw(self) -> int:
        """Minibatch steps of a draw."""
        return self.kernel.steps_per_draw or self.target.num_rows // self.kernel.batch_size


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
    """On a CPU, a chain that is alone may use every core for its matrix products."""
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


class Chain:
    """One chain, moved by one worker thread at a time."""

    def __init__(self, request: Request, number: int, record: MinibatchRecord, feed: AbstractFeed):
        self.number, self.record = number, record
        self.steps, self.gradients = 0, 0
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

    def compile(self, programs: Programs, capacity: int) -> None:
        """Compile what moves it, by a chunk of no steps."""
        self._advance(programs, capacity, 0)

    def step(self, programs: Programs, capacity: int) -> Fields:
        """The next chunk; its draws, by field `[draw, ...]`."""
        began = time.perf_counter()
        r, count = self._request, self._chunk(capacity)
        record, draws = self._advance(programs, capacity, count)
        fields = _fields(draws)
        is_young = self.steps < COOLING * r.kernel.memory
        self.fault = _fault(r, fields, self.record, record, is_young=is_young)
        # What a watch sums up is that of good chunks, as the draws that are stored.
        self.record = replace(record, summary=self.record.summary) if self.fault else record
        self.steps += count
        self.gradients += int(fields["gradients"].sum())
        self._seconds_per_step = (time.perf_counter() - began) / count
        return fields

    def _chunk(self, capacity: int) -> int:
        """Steps of the next chunk: the rest of a block, of the phase or of half a second, whatever is least."""
        r, speed = self._request, self._seconds_per_step
        end = (r.num_warmup if self._is_warmup else r.num_warmup + r.num_draws) * r.steps_per_draw
        return min(
            self._layout()[1].shape[0] - self.steps % self._feed.block_size,
            end - self.steps,
            capacity * r.steps_per_draw,
            max(1, int(CHUNK_SECONDS / speed)) if speed else FIRST_CHUNK,
        )

    def _advance(self, programs: Programs, capacity: int, count: int) -> tuple[MinibatchRecord, MinibatchDraws]:
        """Run so many steps from where the chain is."""
        r = self._request
        numbers = (self.steps % self._feed.block_size, count, r.steps_per_draw)
        where = (*(np.asarray(number, np.int32) for number in numbers), np.asarray(not self._is_warmup))
        stream = (*self._layout(), Section(*jax.device_put(where)))
        return programs.advance(r.compiled, r.target, self.record, stream, r.watch, capacity=capacity)

    @property
    def _is_warmup(self) -> bool:
        return self.draws < self._request.num_warmup

    def _layout(self) -> tuple[Any, Array]:
        """The rows of the block that the chain is in, and the order in which minibatches take them."""
        number = self.steps // self._feed.block_size
        if self._block is None or self._block[0] != number:
            self._block = number, self._feed.block(number)
        return self._block[1]


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
    setting = f"`{request.kernel.with_rate_named(f'{float(record.step_size):.3g}')}`"
    finite = np.isfinite(record.running.potential) and not fields["nonfinite"].any()
    if not finite or not np.all(np.isfinite(record.state.position)):
        return f"its potential or position is not finite: {setting} is too large"
    temperature = _mean_temperature(request, fields, before, record)
    # Beside the little noise of a tempered kernel, that of the gradient is large: hot, but it does not run away.
    tempered = min(1.0, getattr(request.kernel, "temperature", 1.0))
    friction = "friction (`momentum_decay`) or the " if hasattr(request.kernel, "momentum_decay") else ""
    has_momentum = request.kernel.memory > 1  # a tree draws its own, and is hot where the minibatches disagree
    if has_momentum and tempered * temperature > RUNAWAY_TEMPERATURE and not is_young:
        return (
            f"its kinetic temperature is {temperature:.0f}, which should be near 1: lower {setting}, raise the "
            f"{friction}batch size"
        )
    return ""


def _mean_temperature(request: Request, fields: Fields, before: MinibatchRecord, record: MinibatchRecord) -> float:
    """The kinetic temperature over the steps of a chunk, of draws and of parts of them; NaN without momentum."""
    of_draws = np.sum(fields["kinetic_temperature"], dtype=float) * request.steps_per_draw
    begun, ended = (float(one.running.temperature) for one in (before, record))
    return (of_draws + ended - begun) / (int(record.number) - int(before.number))
