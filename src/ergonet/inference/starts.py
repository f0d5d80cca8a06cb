"""Start states: from the target's own distribution, retried, with the culprit named when none is finite."""

from typing import Any

import jax
import numpy as np

from ergonet._errors import SettingError, StartError
from ergonet._types import Array
from ergonet.inference.chains import ChainRecord
from ergonet.models.target import Target
from ergonet.samplers.base import AbstractKernel

MOST_TRIES = 100


def start_records(
    kernel: AbstractKernel, target: Target, given: np.ndarray | None, *, start: Any, num_chains: int, seed: int
) -> list[ChainRecord]:
    """A record per chain, where the potential and its gradient are finite.

    Args:
        kernel: what will move the chains.
        target: what is sampled.
        given: positions `[chain, dim]`; None: drawn by the target, up to 100 times per chain.
        start: the compiled `chains.start_chain`.
        num_chains: how many.
        seed: 0 to 2^63 - 1.

    Raises:
        StartError: no finite start was found; the message names the leaf, prior, likelihood or row.
    """
    records = []
    for chain in range(num_chains):
        position = None if given is None else given[chain]
        for attempt in range(MOST_TRIES if given is None else 1):
            numbers = np.asarray([seed & 0xFFFF_FFFF, seed >> 32, chain, attempt], np.uint32)
            record = start(kernel, target, numbers, position)
            if np.isfinite(record.state.potential) and np.all(np.isfinite(record.state.gradient)):
                records.append(record)
                break
        else:
            raise _no_start(target, chain, record.state.position, is_given=given is not None)
    return records


def given_positions(target: Target, num_chains: int, init: Any) -> np.ndarray:
    """Positions `[chain, dim]` from the user's `[dim]` or `[chain, dim]`.

    Raises:
        SettingError: `init` has another shape.
    """
    positions = np.asarray(init)
    if positions.shape == (target.dim,):
        positions = np.broadcast_to(positions, (num_chains, target.dim))
    if positions.shape != (num_chains, target.dim):
        raise SettingError(
            f"`init` must have shape [{target.dim}] or [{num_chains}, {target.dim}] (chain, dim), "
            f"got {list(positions.shape)}."
        )
    return positions.astype(jax.dtypes.canonicalize_dtype(float))


def _no_start(target: Target, chain: int, position: Array, *, is_given: bool) -> StartError:
    culprit = target.explain(position)
    if is_given:
        return StartError(f"`init` of chain {chain} has no finite density and gradient: {culprit}.")
    return StartError(
        f"Chain {chain}: none of {MOST_TRIES} starts had a finite density and gradient. At the last one, "
        f"{culprit}. Check the data's scale and the prior, or give `init`."
    )
