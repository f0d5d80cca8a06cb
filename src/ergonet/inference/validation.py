"""The arguments of a run, validated once before any work."""

import os
from concurrent.futures import Executor
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergonet._checks import LARGEST_COUNT, is_integer, is_number
from ergonet._errors import CapabilityError, SettingError, shown
from ergonet.adaptation.recipes import check_num_warmup
from ergonet.draws.callback import AbstractCallback
from ergonet.draws.memory import plan_chains
from ergonet.draws.retention import AbstractRetention
from ergonet.draws.store import AbstractStore, MemoryStore, ZarrStore
from ergonet.hamiltonian.metric import DenseMetric
from ergonet.inference.until import LEAVE_OUT, Until
from ergonet.samplers._settings import without_minibatches
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.mams import MAMS
from ergonet.samplers.mclmc import MCLMC
from ergonet.samplers.stochastic.base import AbstractMinibatchKernel
from ergonet.target.capabilities import Rows
from ergonet.target.contract import AbstractTarget, Missing, require


def validate_numbers(
    *, num_chains: Any, num_warmup: Any, num_draws: Any, thin: Any, seed: Any, time_limit: Any
) -> None:
    """Validate the numeric arguments of a run.

    Raises:
        SettingError: a number is not an integer or is out of range; names the argument.
    """
    check_num_warmup(num_warmup)
    for name, value in (("num_chains", num_chains), ("num_draws", num_draws), ("thin", thin)):
        if not is_integer(value) or value < 1:
            raise SettingError(f"`{name}` must be an integer of at least 1, got {value!r}.")
    if thin > LARGEST_COUNT:
        raise SettingError(f"`thin` must be at most {LARGEST_COUNT}, got {thin!r}.")
    if not is_integer(seed) or not 0 <= seed < 2**63:
        raise SettingError(f"`seed` must be an integer from 0 to 2^63 - 1, got {seed!r}.")
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        raise SettingError(f"`time_limit` must be above 0 seconds, got {time_limit!r}.")


def validate_target(target: Any, kernel: Any) -> None:
    """Validate that a target and a kernel match.

    Raises:
        CapabilityError: one of them has the wrong type, a minibatch kernel is used for a target without minibatches,
            one of all rows for streamed ones, or a kernel for a target that lacks what it needs.
        SettingError: the batch size exceeds the number of rows.
    """
    if not isinstance(target, AbstractTarget):
        raise CapabilityError(
            f"`target` must be a target, got {type(target).__name__}. Make one with "
            f"`Target.from_logdensity(logdensity_fn, example)` or `BayesianNetwork(...).condition(x, y)`."
        )
    if isinstance(kernel, MAMS | MCLMC) and is_streamed(target):
        raise CapabilityError(f"The rows of `target` are streamed: {without_minibatches(type(kernel).__name__)}")
    if isinstance(kernel, AbstractKernel):
        if is_streamed(target):
            raise CapabilityError(
                f"`{type(kernel).__name__}` needs all rows at once, and those of `target` are streamed. Use a "
                f"minibatch kernel such as `ergonet.SGHMC`, or `condition` instead of `stream`."
            )
        kernel.check_target(target)
        return
    if not isinstance(kernel, AbstractMinibatchKernel):
        raise CapabilityError(f"`kernel` must be a kernel such as `ergonet.NUTS()`, got {kernel!r}.")
    num_rows = require(target, Rows, type(kernel).__name__).num_rows
    if kernel.batch_size > num_rows:
        raise SettingError(
            f"`{type(kernel).__name__}(batch_size={kernel.batch_size})` is more than the number of "
            f"rows, {num_rows}. Use a smaller batch, or a full-batch kernel such as `ergonet.NUTS()`."
        )


def is_streamed(target: AbstractTarget) -> bool:
    """Whether the rows of a target are on the host, so that only minibatches of them are ever on the device."""
    data = target.capability(Rows)
    return not isinstance(data, Missing) and data.is_streamed


def validate_size(target: AbstractTarget, kernel: AbstractKernel | AbstractMinibatchKernel, num_chains: int) -> None:
    """Validate that the chains can fit in memory; their draws are planned when their fields are known.

    Raises:
        MemoryPlanError: they cannot.
    """
    dtype = jax.dtypes.canonicalize_dtype(float)
    is_dense = False
    if isinstance(kernel, AbstractKernel) and "metric" in kernel.warmup().learned:
        tuning = eqx.filter_eval_shape(kernel.tuning, target, jax.ShapeDtypeStruct((target.dim,), dtype))
        is_dense = isinstance(tuning.metric, DenseMetric)
    plan_chains(num_chains, target.dim, itemsize=dtype.itemsize, is_dense=is_dense)


def validate_plugins(retention: Any, callback: Any, executor: Any) -> None:
    """Validate objects passed to a run; None is allowed.

    Raises:
        SettingError: an object has the wrong type.
    """
    for name, value, kind, example in (
        ("retention", retention, AbstractRetention, "`ergonet.retention.Last(100)`"),
        ("callback", callback, AbstractCallback, "`ergonet.RunningPrediction(model, x, y)`"),
        ("executor", executor, Executor, "`concurrent.futures.ThreadPoolExecutor(4)`"),
    ):
        if value is not None and not isinstance(value, kind):
            raise SettingError(f"`{name}` must be None or such as {example}, got {value!r}.")


def validate_until(
    until: Until | None, target: AbstractTarget, kernel: Any, retention: Any, *, num_chains: int, num_draws: int
) -> None:
    """Validate that a stop rule can judge a run; None is allowed.

    Raises:
        CapabilityError: it judges a score, and there is no log likelihood by rows.
        SettingError: it cannot for another reason.
    """
    if until is None:
        return
    if not isinstance(kernel, AbstractKernel):
        raise SettingError(
            f"A stop rule (`until`) is for kernels of all rows: minibatches give `{type(kernel).__name__}` a bias that "
            f"no number of draws removes. Give `num_draws` (`--draws`) or `time_limit` (`--time-limit`), and "
            f"{LEAVE_OUT}."
        )
    if retention is not None and retention.newest is not None:
        raise SettingError(
            f"`until` judges all draws, of which `retention={retention}` stores the last. Use `Every(n)` or none."
        )
    until.check(target, num_chains=num_chains, num_draws=num_draws)


def validate_init(init: Any, dim: int, num_chains: int, kernel: Any) -> np.ndarray | None:
    """Initial values `[chain, dim]` from the user's `[dim]` or `[chain, dim]`; None if none are given.

    Raises:
        SettingError: `init` has another shape or is not real, or the kernel cannot start there.
    """
    positions = None if init is None else _starts(init, dim, num_chains)
    if isinstance(kernel, AbstractKernel):
        kernel.check_starts(dim, positions)
    return positions


def _starts(init: Any, dim: int, num_chains: int) -> np.ndarray:
    try:
        given = np.asarray(init)
        positions = None if given.dtype.kind == "c" else given.astype(jax.dtypes.canonicalize_dtype(float))
    except (TypeError, ValueError):  # text, or lists of different lengths
        positions = None
    if positions is None:
        raise SettingError(
            f"`init` must be an array of real numbers, of shape [{dim}] or [{num_chains}, {dim}] (chain, dim), got "
            f"{shown(init)}."
        )
    if positions.shape == (dim,):
        positions = np.tile(positions, (num_chains, 1))
    if positions.shape != (num_chains, dim):
        raise SettingError(
            f"`init` must have shape [{dim}] or [{num_chains}, {dim}] (chain, dim), got {list(positions.shape)}."
        )
    return positions


def open_store(store: Any, *, resume: bool = False) -> AbstractStore:
    """Open the store given by None, a path, or a store; with `resume`, to continue what is in it."""
    if isinstance(store, str | os.PathLike):
        return ZarrStore(store, resume=resume)
    if resume and not (isinstance(store, ZarrStore) and store.resumes):
        raise SettingError(
            f"`resume=True` needs `store=` with the path of a stored run, or `ZarrStore(path, resume=True)`; got "
            f"{store!r}."
        )
    if store is None:
        return MemoryStore()
    if isinstance(store, AbstractStore):
        return store
    raise SettingError(f"`store` must be None, a path or a store, got {store!r}.")
