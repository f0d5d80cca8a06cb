"""Start states: from the target's own distribution, retried, with the culprit named when none is finite."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergonet._errors import SettingError, StartError
from ergonet._types import Array
from ergonet.inference.chains import START_KEY
from ergonet.models.target import Target

MOST_TRIES = 100


def start_positions(target: Target, keys: list[Array], init: Any) -> list[Array]:
    """A starting position per chain where the potential and its gradient are finite.

    Args:
        target: what is sampled.
        keys: one key per chain.
        init: None: drawn by the target, up to 100 times per chain; or positions `[dim]` or `[chain, dim]`.

    Raises:
        StartError: no finite start was found; the message names the leaf, prior, likelihood or row.
        SettingError: `init` has another shape.
    """
    if init is not None:
        return _given(target, len(keys), init)
    return [_drawn(target, chain, key) for chain, key in enumerate(keys)]


def _given(target: Target, num_chains: int, init: Any) -> list[Array]:
    positions = jnp.asarray(init)
    if positions.shape == (target.dim,):
        positions = jnp.broadcast_to(positions, (num_chains, target.dim))
    if positions.shape != (num_chains, target.dim):
        raise SettingError(
            f"`init` must have shape [{target.dim}] or [{num_chains}, {target.dim}] (chain, dim), "
            f"got {list(positions.shape)}."
        )
    positions = positions.astype(jnp.result_type(float))
    for chain, position in enumerate(positions):
        if not bool(jnp.isfinite(target.potential(position))):
            raise StartError(f"`init` of chain {chain} has no finite density: {target.explain(position)}.")
    return list(positions)


@eqx.filter_jit
def _try(target: Target, key: Array) -> tuple[Array, Array, Array]:
    position = target.initial_position(key)
    return position, *jax.value_and_grad(target.potential)(position)


def _drawn(target: Target, chain: int, key: Array) -> Array:
    position = None
    for attempt in range(MOST_TRIES):
        attempt_key = jax.random.fold_in(jax.random.fold_in(key, START_KEY), attempt)
        position, value, gradient = _try(target, attempt_key)
        if np.isfinite(value) and np.all(np.isfinite(gradient)):
            return position
    assert position is not None
    raise StartError(
        f"Chain {chain}: none of {MOST_TRIES} starts had a finite density and gradient. At the last one, "
        f"{target.explain(position)}. Check the data's scale and the prior, or give `init`."
    )
