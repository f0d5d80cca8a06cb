"""Jobs of full-batch kernels: one chain, or several vmapped chains in one program.

The compiled programs are shared by all runs of a process, one set per platform. On a CPU each program runs on the
thread that calls it, so that cores are used by chains and not by matrix products (Eigen's thread pool is disabled for
these programs only; the rest of the user's process is not affected).
"""

import time
from collections.abc import Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._checks import LARGEST_COUNT
from ergonet._errors import StartError
from ergonet._keys import seed_words
from ergonet._types import Array
from ergonet.adaptation.learner import AbstractLearner
from ergonet.adaptation.machine import Adaptation, Adaptations
from ergonet.adaptation.stages import Stage, Warmup
from ergonet.draws.callback import NoCallback, observe
from ergonet.draws.contents import POSITIONS
from ergonet.draws.recorder import Chunk
from ergonet.draws.statistics import stored_fields
from ergonet.execution.threads import options, worker_pool
from ergonet.inference import batches, chains
from ergonet.inference.chains import ChainRecord, Draws, Stretch
from ergonet.inference.devices import Placement
from ergonet.inference.jobs import CHUNK_SECONDS, MOST_TRIES, AbstractJob, RunPlan, Say, chunk_capacity, on_device
from ergonet.samplers.base import AbstractKernel
from ergonet.target.capabilities import Divisible
from ergonet.target.contract import AbstractTarget, require
from ergonet.target.shards import RowShards


@dataclass(frozen=True)
class Programs:
    """Programs that draw initial values, evaluate the target, start and advance chains, and finish a stage."""

    draw: Any
    evaluate: Any
    start: Any
    advance: Any
    finish_stage: Any
    observe: Any  # calls the callback


@cache
def programs(platform: str, *, is_batched: bool) -> Programs:
    """The programs for one chain, or for vmapped chains."""
    module: Any = batches if is_batched else chains
    over_chains = eqx.filter_vmap(observe, in_axes=(None, 0, 0, None, None))
    return Programs(
        draw=eqx.filter_jit(chains.drawn_start, **options(platform, effort=0)),
        evaluate=eqx.filter_jit(module.evaluate, **options(platform, effort=0)),
        start=eqx.filter_jit(chains.start_chain, **options(platform, effort=0)),
        advance=eqx.filter_jit(module.advance_chain, **options(platform)),
        finish_stage=eqx.filter_jit(module.finish_stage, **options(platform, effort=0)),
        observe=eqx.filter_jit(over_chains if is_batched else observe, **options(platform)),
    )


class Carried(eqx.Module):
    """The chains of a job between chunks, and the callback's summaries; both `[chain, ...]` for vmapped chains."""

    chains: ChainRecord
    summary: Any


@dataclass(frozen=True)
class TrajectoryPlan:
    """What the trajectory jobs of a run have in common.

    Attributes:
        kernel: the transition kernel.
        warmup: the stages of the warm-up.
        thin: transitions per draw after the warm-up, at least 1.
        run: what all kinds of jobs have in common.
    """

    kernel: AbstractKernel
    warmup: Warmup
    thin: int
    run: RunPlan

    @cached_property
    def adaptations(self) -> Adaptations:
        """The active learners in each stage, and during sampling."""
        return Adaptations.of(self.warmup, self.kernel.warmup())


def trajectory_jobs(plan: TrajectoryPlan, target: AbstractTarget, placement: Placement) -> list[AbstractJob]:
    """Make a job for each group of chains."""
    return [
        TrajectoryJob(plan, target, chains=group, device=device, is_batched=placement.is_batched)
        for group, device in zip(placement.groups, placement.devices, strict=True)
    ]


class TrajectoryJob(AbstractJob):
    """One or more chains of a device, advanced from stage to stage."""

    def __init__(
        self, plan: TrajectoryPlan, target: AbstractTarget, *, chains: tuple[int, ...], device: Any, is_batched: bool
    ):
        super().__init__(chains, target)
        self.counters |= {"stage": 0, "in_stage": 0, "warmup": 0, "draws": 0}
        self._plan, self._device, self._is_batched = plan, device, is_batched
        self._speed = 0.0, 0.0  # transitions per second, and gradients and transitions per second
        self._capacity = 1

    def arrive(self) -> None:
        self.record = on_device(self._device, self.record)

    @property
    def _there(self) -> AbstractTarget:
        """The target on the device of the job."""
        return self.once(self._placed, self._device)

    @property
    def _home(self) -> Any:
        """Where the job has its record between calls."""
        return self._device.home if isinstance(self._device, RowShards) else self._device

    @property
    def _whole(self) -> AbstractTarget:
        """The target with all its rows, on the device of the job."""
        return self.target if isinstance(self._device, RowShards) else self._there

    def _placed(self) -> AbstractTarget:
        if isinstance(self._device, RowShards):
            return require(self.target, Divisible, "RowShards").divided(self._device)
        return on_device(self._device, self.target)

    @property
    def _programs(self) -> Programs:
        return programs(self._device.platform, is_batched=self._is_batched)

    @property
    def program(self) -> Hashable:
        return type(self), id(self._plan), id(self.target), self._device, len(self.chains)

    @property
    def total(self) -> int:
        return self._plan.run.num_warmup + self._plan.run.num_draws * self._plan.thin

    @property
    def num_warmup(self) -> int:
        """Number of transitions of the warm-up."""
        return self._plan.run.num_warmup

    @property
    def lengths(self) -> np.ndarray:
        """Steps of a trajectory, `[chain]`."""
        return np.atleast_1d(np.asarray(self.record.chains.tuning.num_steps))

    @property
    def learned_lengths(self) -> tuple[AbstractLearner, Any]:
        """The learner of the lengths and its memory, `[chain, ...]`; only of kernels that learn them."""
        pairs = zip(self._plan.adaptations.sampling.learners, self.record.chains.memories, strict=True)
        learner, memory = next(pair for pair in pairs if pair[0].learns == "num_steps")
        return learner, jax.tree.map(lambda leaf: np.asarray(leaf)[... if self._is_batched else None], memory)

    def take_length(self, num_steps: int) -> None:
        """Go on with trajectories of this length."""
        held = self.record.chains.tuning.num_steps
        new = jax.device_put(np.full(held.shape, num_steps, held.dtype), held.sharding)
        self.record = eqx.tree_at(lambda one: one.chains.tuning.num_steps, self.record, new)

    @property
    def is_warmup(self) -> bool:
        return self.counters["stage"] < len(self._plan.warmup.stages)

    @property
    def step_size(self) -> float:
        return float(np.mean(np.asarray(self.record.chains.tuning.step_size)))

    @property
    def positions(self) -> np.ndarray:
        return np.atleast_2d(np.asarray(self.record.chains.state.position))

    def potentials(self, positions: np.ndarray) -> np.ndarray:
        """Potentials of the target at a position for each chain, `[chain]`."""
        there = jax.device_put(positions if self._is_batched else positions[0], self._home)
        found = self._programs.evaluate(self._plan.kernel.evaluate, self._whole, there)
        return np.atleast_1d(np.asarray(found.reference.potential) + np.asarray(found.state.potential))

    def start(self) -> None:
        records = [self._start(chain) for chain in self.chains]
        together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *records) if self._is_batched else records[0]
        blank = self._plan.run.callback.blank()
        if self._is_batched:
            blank = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (len(records), *jnp.shape(leaf))), blank)
        self.record = on_device(self._device, Carried(together, blank))
        self._capacity = chunk_capacity(self.target.dim, records[0].state.position.dtype.itemsize)

    def _start(self, chain: int) -> ChainRecord:
        """Start a chain where the potential and its gradient are finite, with at most 100 attempts."""
        plan, seed = self._plan, self._plan.run.seed
        of_one = programs(self._device.platform, is_batched=False)
        given = None if plan.run.init is None else plan.run.init[chain]
        record = None
        for attempt in range(MOST_TRIES if given is None else 1):
            numbers = np.asarray([*seed_words(seed), chain, attempt], np.uint32)
            position = self._near(of_one.draw(self.target, numbers) if given is None else given)
            there = of_one.evaluate(plan.kernel.evaluate, self._whole, jax.device_put(position, self._home))
            record = of_one.start(plan.kernel, self._whole, plan.adaptations.search, numbers, there)
            if np.isfinite(record.state.potential) and np.all(np.isfinite(record.state.gradient)):
                return record
        assert record is not None
        raise _no_start(self.target, chain, record.state.position, is_given=given is not None)

    def _near(self, position: Any) -> Any:
        """Where a chain starts for a position, by a program for kernels that confine it."""
        kernel = self._plan.kernel
        confine = type(kernel).start_near
        return position if confine is AbstractKernel.start_near else eqx.filter_jit(confine)(kernel, position)

    def fields(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        dtype = self.record.chains.state.position.dtype
        return stored_fields(chains.declared(self._plan.kernel), dtype) | {POSITIONS: ((self.target.dim,), dtype)}

    def compile(self) -> None:
        """Compile every program that will run, so that nothing compiles later.

        One program is traced while the other compiles. Compiling them in parallel would gain nothing, because XLA uses
        several threads for each, and would increase peak memory.
        """
        positional, named = self._advance_arguments(self._plan.adaptations.sampling, Stretch.of(0, work=0, thin=1))
        with worker_pool(1) as pool:
            compiling: list[Future[Any]] = []
            if self.is_warmup or self._searches:
                evaluating = self._programs.evaluate.lower(*self._evaluate_arguments())
                compiling.append(pool.submit(evaluating.compile))
                finishing = self._programs.finish_stage.lower(*self._finish_arguments(self._plan.adaptations.search))
                compiling.append(pool.submit(finishing.compile))
            compiling.append(pool.submit(self._programs.advance.lower(*positional, **named).compile))
            for future in compiling:
                future.result()

    def search(self, say: Say) -> None:
        if self._searches:
            self._finish(self._plan.adaptations.search)

    @property
    def _searches(self) -> bool:
        """Whether a chain that begins searches for its first step size."""
        return self.done == 0 and "step_size" in self._plan.kernel.warmup().learned

    def _finish(self, adaptation: Adaptation) -> None:
        here = self._kept(self._programs.evaluate(*self._evaluate_arguments()))
        self.record = Carried(here.around(self.record.chains), self.record.summary)
        arguments = self._finish_arguments(adaptation)
        self.record = Carried(self._kept(self._programs.finish_stage(*arguments)), self.record.summary)

    def _evaluate_arguments(self) -> tuple[Any, ...]:
        return self._plan.kernel.evaluate, self._there, self._sent(self.record.chains.state.position)

    def _finish_arguments(self, adaptation: Adaptation) -> tuple[Any, ...]:
        kernel, *others = self._sent((self._plan.kernel, self.record.chains, adaptation))
        return kernel, self._there, *others

    def _advance_arguments(self, adaptation: Adaptation, stretch: Stretch) -> tuple[tuple[Any, ...], dict[str, Any]]:
        kernel, *others = self._sent((self._plan.kernel, self.record.chains, adaptation, stretch))
        return (kernel, self._there, *others), {"capacity": self._capacity}

    def _sent(self, tree: Any) -> Any:
        """The arguments of a program on the devices that run it."""
        return self._device.sent(tree) if isinstance(self._device, RowShards) else tree

    def _kept(self, tree: Any) -> Any:
        """The results of a program where the job keeps them."""
        return self._device.kept(tree) if isinstance(self._device, RowShards) else tree

    @property
    def _thin(self) -> int:
        return 1 if self.is_warmup else self._plan.thin

    def advance(self) -> Chunk:
        began, counters, is_warmup, thin = time.perf_counter(), self.counters, self.is_warmup, self._thin
        stage = self._plan.warmup.stages[counters["stage"]] if is_warmup else None
        begun = 0 if stage else self.done - self._plan.run.num_warmup - counters["draws"] * thin
        left = stage.num_transitions - counters["in_stage"] if stage else self.goal - self.done
        most = min(left, self._capacity * thin - begun, LARGEST_COUNT)
        stretch = Stretch.of(min(most, self._chunk_size()), work=self._most_work(), thin=thin)
        adaptations = self._plan.adaptations
        adaptation = adaptations.stages[counters["stage"]] if is_warmup else adaptations.sampling
        positional, named = self._advance_arguments(adaptation, stretch)
        record, draws = self._kept(self._programs.advance(*positional, **named))
        made = int(np.ravel(record.transition)[0]) - self.done
        spent = _gradients(record) - _gradients(self.record.chains)
        self.record = Carried(record, self.record.summary)
        count = (begun + made) // thin
        fields = self._fields(draws, count) | self._shown(draws, count)
        name = "warmup" if is_warmup else "draws"
        start = counters[name]
        counters[name] += count
        counters["transitions"] += made
        if stage:
            self._end_chunk_of(stage, count)
        work = made + (spent + int(fields["gradients"].sum())) / len(self.chains)
        seconds = time.perf_counter() - began
        self._speed = made / seconds, work / seconds
        return Chunk(chains=self.chains, is_warmup=is_warmup, start=start, fields=fields)

    def _end_chunk_of(self, stage: Stage, count: int) -> None:
        self.counters["in_stage"] += count
        if self.counters["in_stage"] == stage.num_transitions:
            self._finish(self._plan.adaptations.stages[self.counters["stage"]])
            self.counters |= {"stage": self.counters["stage"] + 1, "in_stage": 0}

    def _chunk_size(self) -> int:
        """Most transitions of the next chunk: about half a second at the speed of the last one."""
        return max(1, min(LARGEST_COUNT, int(CHUNK_SECONDS * self._speed[0])))

    def _most_work(self) -> int:
        """Most gradients and transitions: a tree may be a thousand times as large as those of the last chunk."""
        return max(1, min(LARGEST_COUNT, int(CHUNK_SECONDS * self._speed[1])))

    def _fields(self, draws: Draws, count: int) -> dict[str, np.ndarray]:
        fields = {name: np.asarray(values)[..., :count] for name, values in draws.stats.items()}
        if not self.is_warmup:
            fields[POSITIONS] = np.asarray(draws.positions)[..., :count, :]
        return fields if self._is_batched else {name: values[None] for name, values in fields.items()}

    def _shown(self, draws: Draws, count: int) -> dict[str, np.ndarray]:
        """The figures of the callback, which counts draws after the warm-up."""
        callback = self._plan.run.callback
        if isinstance(callback, NoCallback):
            return {}
        weight = jnp.asarray(not self.is_warmup, draws.positions.dtype)
        arguments = self.record.summary, draws.positions, weight, np.asarray(count, np.int32)
        summary, curve = self._programs.observe(callback, *arguments)
        self.record = Carried(self.record.chains, summary)
        figures = {name: np.asarray(values)[..., :count] for name, values in curve.items()}
        return figures if self._is_batched else {name: values[None] for name, values in figures.items()}

    def _each(self, tree: Any) -> list[Any]:
        """Split a tree into one tree per chain."""
        if not self._is_batched:
            return [tree]
        return [jax.tree.map(lambda leaf, index=index: leaf[index], tree) for index in range(len(self.chains))]

    def tuning(self) -> dict[str, np.ndarray]:
        records, memory = self._each(self.record.chains), self.record.chains.tuning.memory
        reports = [self._plan.adaptations.sampling.report(one.memories) for one in records]
        return {
            "step_size": np.stack([np.asarray(one.tuning.step_size) for one in records]),
            **({} if memory is None else {"memory": np.stack([np.asarray(one.tuning.memory) for one in records])}),
            "num_steps": np.stack([np.asarray(one.tuning.num_steps) for one in records]),
            "inverse_mass_matrix": np.stack(
                [np.asarray(one.tuning.metric.inverse_mass_matrix(one.state.position)) for one in records]
            ),
            **{name: np.stack([np.asarray(report[name]) for report in reports]) for name in reports[0]},
        }

    def summaries(self) -> list[Any]:
        return self._each(self.record.summary)

    def about(self) -> dict[str, Any]:
        kernel, warmup = self._plan.kernel, self._plan.warmup
        return {
            "kernel": type(kernel).__name__,
            "kernel_settings": repr(kernel),
            "is_corrected": kernel.is_corrected,
            "target_acceptance": warmup.target_acceptance if "step_size" in kernel.warmup().learned else None,
            "max_doublings": getattr(kernel, "max_doublings", None),
            "thin": self._plan.thin,
            "num_warmup": warmup.num_transitions,
        }


def _gradients(record: ChainRecord) -> int:
    """Gradients since the last draw, of all chains."""
    return int(np.sum(np.asarray(record.partial.totals["gradients"])))


def _no_start(target: AbstractTarget, chain: int, position: Array, *, is_given: bool) -> StartError:
    culprit = target.explain(position)
    if is_given:
        return StartError(f"`init` of chain {chain} has no finite density and gradient: {culprit}.")
    return StartError(
        f"Chain {chain}: none of {MOST_TRIES} initial values had a finite density and gradient. At the last one, "
        f"{culprit}. Check the scale of the data and the prior, or pass `init`."
    )
