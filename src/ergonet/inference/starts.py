"""Start states: from the target's own distribution, retried, with the culprit named when none is finite."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError, StartError
from ergonet._types import Array
from ergonet.inference.chains import START_KEY, ChainRecord
from ergonet.inference.programs import Programs
from ergonet.models.target import Target
from ergonet.samplers.base import AbstractKernel

MOST_TRIES = 100


def start_records(
    kernel: AbstractKernel, target: Target, keys: list[Array], init: Any, *, programs: Programs
) -> list[ChainRecord]:
    """A chain per key, where the potential and its gradient are finite.

    Args:
        kernel: what will move the chains.
        target: what is sampled.
        keys: one key per chain.
        init: None: drawn by the target, up to 100 times per chain; or positions `[dim]` or `[chain, dim]`.
        programs: the compiled programs of the run.

    Raises:
        StartError: no finite start was found; the message names the leaf, prior, likelihood or row.
        SettingError: `init` has another shape.
    """

    def record_at(key: Array, position: Array) -> tuple[ChainRecord, bool]:
        record = programs.first_record(kernel, target, key, position)
        state = record.state
        return record, bool(np.isfinite(state.potential) and np.all(np.isfinite(state.gradient)))

    records = []
    given = None if init is None else _given(target, len(keys), init)
    for chain, key in enumerate(keys):
        for attempt in range(MOST_TRIES if given is None else 1):
            attempt_key = jax.random.fold_in(jax.random.fold_in(key, START_KEY), attempt)
            position = given[chain] if given is not None else _draw(target, attempt_key)
            record, is_finite = record_at(key, position)
            if is_finite:
                records.append(record)
                break
        else:
            raise _no_start(target, chain, position, is_given=given is not None)
    return records


@eqx.filter_jit
def _draw(target: Target, key: Array) -> Array:
    return target.initial_position(key)


def _given(target: Target, num_chains: int, init: Any) -> Array:
    positions = jnp.asarray(init)
    if positions.shape == (target.dim,):
        positions = jnp.broadcast_to(positions, (num_chains, target.dim))
    if positions.shape != (num_chains, target.dim):
        raise SettingError(
            f"`init` must have shape [{target.dim}] or [{num_chains}, {target.dim}] (chain, dim), "
            f"got {list(positions.shape)}."
        )
    return positions.astype(jnp.result_type(float))


def _no_start(target: Target, chain: int, position: Array, *, is_given: bool) -> StartError:
    culprit = target.explain(position)
    if is_given:
        return StartError(f"`init` of chain {chain} has no finite density and gradient: {culprit}.")
    return StartError(
        f"Chain {chain}: none of {MOST_TRIES} starts had a finite density and gradient. At the last one, "
        f"{culprit}. Check the data's scale and the prior, or give `init`."
    )
