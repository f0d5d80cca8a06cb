"""The contract of a job: some chains of one target, which the loop advances chunk by chunk.

A job owns its target, so that a list of jobs may consist of parts of a data set, folds or replicas as well as of the
chains of one posterior. Everything that changes from chunk to chunk is in `record` and `counters`.
"""

import abc
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import RunDirectoryError
from ergonet.draws.callback import AbstractCallback
from ergonet.draws.checkpoint import Memo
from ergonet.draws.recorder import Chunk
from ergonet.execution.shared import Shared, share
from ergonet.inference.devices import DevicePlace
from ergonet.target.contract import AbstractTarget
from ergonet.target.shards import RowShards

CHUNK_SECONDS = 0.5
CHUNK_BYTES = 4 * 2**20
LARGEST_CHUNK = 1000
MOST_TRIES = 100  # attempts to find initial values
Say = Callable[[str], None]


def chunk_capacity(dim: int, itemsize: int) -> int:
    """Number of draws that a chunk can hold: 4 MiB of positions, between 1 and 1000."""
    return max(1, min(LARGEST_CHUNK, CHUNK_BYTES // (dim * itemsize)))


@dataclass(frozen=True)
class RunPlan:
    """What the jobs of a run have in common.

    Attributes:
        num_chains: number of chains, at least 1.
        num_warmup: number of warm-up draws, which are not stored.
        num_draws: number of draws after the warm-up, before retention.
        seed: the seed, 0 to 2^63 - 1.
        init: initial values `[chain, dim]`; None: drawn by the target.
        callback: called with every draw.
    """

    num_chains: int
    num_warmup: int
    num_draws: int
    seed: int
    init: np.ndarray | None
    callback: AbstractCallback


class AbstractJob(abc.ABC):
    """Chains of one target. Only one thread calls its methods at a time.

    Attributes:
        chains: indices of the chains in the run.
        target: the target that they sample.
        record: a pytree of arrays; together with `counters`, everything that a job needs to continue.
        counters: integers by name.
        fault: what is wrong with a chain, in words; empty if nothing. A job with a fault has ended.
        busy: seconds of work on `warmup` and `sampling`.
        origin: what the warm start has found, `[chain]` by name, and its costs; empty without one.
        pause: number of transitions at which it waits for the others; None: it does not.
        look: number of transitions at which it waits for a stop rule to look at its draws; None: there is no such rule.
        SHARED: attributes that the jobs of a run have in common; another process gets them once.
        DERIVED: attributes that another process makes again, in `arrive`.
    """

    SHARED: ClassVar[tuple[str, ...]] = ("target", "_plan")
    DERIVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self, chains: tuple[int, ...], target: AbstractTarget):
        self.chains, self.target = chains, target
        self.record: Any = None
        self.counters = {"transitions": 0, "gradients": 0, "divergences": 0}
        self.fault = ""
        self.busy = {"warmup": 0.0, "sampling": 0.0}
        self.origin: Mapping[str, Any] = {}
        self.pause: int | None = None
        self.look: int | None = None
        self._shares: dict[str, Shared] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The job on its way to another process."""
        state = {name: value for name, value in vars(self).items() if name not in self.DERIVED}
        self._shares |= {name: share(state[name]) for name in self.SHARED if name in state}
        devices = {name: DevicePlace.of(value) for name, value in state.items() if isinstance(value, jax.Device)}
        return state | self._shares | devices | {"_shares": {}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self._shares = {name: value for name, value in state.items() if isinstance(value, Shared)}
        for name, value in state.items():
            if isinstance(value, Shared):
                setattr(self, name, value.value)
            elif isinstance(value, DevicePlace):
                setattr(self, name, value.device())
            elif name != "_shares":
                setattr(self, name, value)
        self.arrive()

    def arrive(self) -> None:  # noqa: B027  most jobs have nothing to make
        """Make the `DERIVED` attributes again, and put the record on the device of this process."""

    def once(self, make: Callable[[], Any], key: Hashable) -> Any:
        """What `make` returns, called once in this process for jobs of the same kind, plan, target and key."""
        for name in self.SHARED:
            if name not in self._shares and hasattr(self, name):
                self._shares[name] = share(getattr(self, name))
        first, *others = (self._shares[name] for name in self.SHARED if name in self._shares)
        return first.once((type(self), *(one.token for one in others), key), make)

    @property
    def done(self) -> int:
        """Number of transitions so far, or of minibatch steps."""
        return self.counters["transitions"]

    @property
    @abc.abstractmethod
    def total(self) -> int:
        """Number of transitions of the whole run."""

    @property
    @abc.abstractmethod
    def is_warmup(self) -> bool:
        """Whether the next chunk belongs to the warm-up."""

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing more to do."""
        return bool(self.fault) or self.done >= self.total

    @property
    def goal(self) -> int:
        """Number of transitions to go on to before others are waited for, if they are."""
        return self.stretch if self.pause is None else min(self.stretch, self.pause)

    @property
    def stretch(self) -> int:
        """Number of transitions up to the next look of a stop rule, or of the whole run."""
        return self.total if self.look is None else min(self.total, self.look)

    @property
    def is_waiting(self) -> bool:
        """Whether there is nothing to do before others have come as far, or nothing at all."""
        return self.is_finished or self.done >= self.goal

    @property
    def is_warm_started(self) -> bool:
        """Whether its chains are where an optimizer has left them, or beyond."""
        return bool(self.origin)

    @property
    @abc.abstractmethod
    def step_size(self) -> float:
        """The current step size, averaged over the chains."""

    @property
    @abc.abstractmethod
    def positions(self) -> np.ndarray:
        """Where the chains are, `[chain, dim]`."""

    @property
    def detail(self) -> str:
        """What the next progress report says beyond its figures; may be empty."""
        return ""

    @property
    @abc.abstractmethod
    def program(self) -> Hashable:
        """Identifies the compiled programs; jobs with equal values share them."""

    @abc.abstractmethod
    def start(self) -> None:
        """Place every chain at its initial values.

        Raises:
            StartError: no initial values with a finite density were found.
        """

    @abc.abstractmethod
    def fields(self) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        """Shape per draw and dtype of statistics and positions, by name."""

    @abc.abstractmethod
    def compile(self) -> None:
        """Compile the programs, so that nothing compiles later."""

    @abc.abstractmethod
    def search(self, say: Say) -> None:
        """Search for an initial step size unless one is given; `say` reports it to the user."""

    def step(self) -> Chunk:
        """The next chunk."""
        began, phase = time.perf_counter(), "warmup" if self.is_warmup else "sampling"
        chunk = self.advance()
        self.counters["gradients"] += int(chunk.fields["gradients"].sum())
        if not chunk.is_warmup and "diverging" in chunk.fields:
            self.counters["divergences"] += int(chunk.fields["diverging"].sum())
        self.fault = chunk.fault
        self.counters["divergences"] += bool(chunk.fault)
        self.busy[phase] += time.perf_counter() - began
        return replace(chunk, after=self.memo())

    def memo(self) -> Memo:
        """The job as it is now."""
        leaves = [raw(leaf) for leaf in jax.tree.leaves(eqx.filter(self.record, eqx.is_array))]
        return Memo(leaves, dict(self.counters), dict(self.busy), self.fault, self.origin)

    def restore(self, memo: Memo) -> None:
        """Continue as a job of another process was, after `start`.

        Raises:
            RunDirectoryError: the memo is that of another kind of job.
        """
        arrays, rest = eqx.partition(self.record, eqx.is_array)
        blank, tree = jax.tree.flatten(arrays)
        mine, stored = ([(one.dtype.name, one.shape) for one in some] for some in (map(raw, blank), memo.leaves))
        if mine != stored or memo.counters.keys() != self.counters.keys():
            raise RunDirectoryError(
                f"The checkpoint of chains {list(self.chains)} is that of another kernel or another version of "
                f"Ergonet, so the run cannot be continued. Run again in another folder."
            )
        leaves = [_like(leaf, values) for leaf, values in zip(blank, memo.leaves, strict=True)]
        self.record = eqx.combine(jax.tree.unflatten(tree, leaves), rest)
        self.counters, self.busy, self.fault = dict(memo.counters), dict(memo.busy), memo.fault
        self.origin = memo.origin

    @abc.abstractmethod
    def advance(self) -> Chunk:
        """Run a chunk of about half a second, within the warm-up or within sampling."""

    @abc.abstractmethod
    def tuning(self) -> dict[str, np.ndarray]:
        """The tuned settings, `[chain, ...]` by name."""

    @abc.abstractmethod
    def summaries(self) -> list[Any]:
        """The callback's summary of each chain."""

    @abc.abstractmethod
    def about(self) -> Mapping[str, Any]:
        """Description of the kernel and its settings for the record of a run, in JSON types only."""


def raw(leaf: Any) -> Any:
    """The numbers of an array, also if it contains random keys."""
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def _like(leaf: Any, values: Any) -> Any:
    """Numbers as an array of the kind and on the device of another."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        keys = jax.random.wrap_key_data(jnp.asarray(values), impl=jax.random.key_impl(leaf))
        return jax.device_put(keys, leaf.sharding)
    return jax.device_put(np.asarray(values), leaf.sharding)


def on_device(device: Any, tree: Any) -> Any:
    """The same tree with its arrays on a device, or where devices that share the rows have them between calls."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    where = device.home if isinstance(device, RowShards) else device
    return eqx.combine(jax.device_put(arrays, where), rest)
