"""Parts that the symmetry of a network maps onto each other.

If the activation is odd, a hidden unit whose incoming and outgoing weights all change sign computes the same function.
A prior that is symmetric about 0 gives both the same density. The sign of one outgoing weight therefore splits the
posterior into two halves of exactly the same mass, without any estimate.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from ergonet._checks import is_integer
from ergonet._errors import CapabilityError, SettingError, shown
from ergonet._keys import key_of
from ergonet._types import Array
from ergonet.models.network import MLP, cut
from ergonet.models.network_posterior import AbstractNetworkPosterior
from ergonet.partition.regions import Mirrored, checked_cuts, require_room
from ergonet.target.contract import AbstractTarget

NUM_CHECKS = 4
ROUNDING = 100  # of a density that is a long sum, in units of the last place


def split_by_sign(target: AbstractTarget, units: Sequence[int] = (0,)) -> Mirrored:
    """Split at 0 the first outgoing weight of units of the last hidden layer; all parts have the same mass.

    Args:
        target: the posterior of an `MLP` with an odd activation and a prior that is symmetric about 0.
        units: the units, from 0; s of them make 2^s parts.

    Raises:
        CapabilityError: the target is not the posterior of an MLP with a hidden layer.
        SettingError: a unit is not known; or the density is not symmetric, which is checked at random positions.
    """
    network = target.model.network if isinstance(target, AbstractNetworkPosterior) else None
    if not isinstance(network, MLP) or len(network.sizes) < 3:
        raise CapabilityError(
            "`split_by_sign` needs the posterior of an `MLP` with a hidden layer, because it knows its symmetry. Use "
            "`partition.split` for other targets."
        )
    layer = len(network.sizes) - 3
    if not units or not all(is_integer(one) and 0 <= one < network.sizes[layer + 1] for one in units):
        raise SettingError(
            f"`units` must be units of the last hidden layer, integers from 0 to {network.sizes[layer + 1] - 1}, got "
            f"{shown(units)}."
        )
    require_room(2 ** len(set(units)))
    places = {name: np.asarray(one) for name, one in cut(jnp.arange(target.dim), network.leaves()).items()}
    incoming, outgoing = places[f"layers.{layer}.weight"], places[f"layers.{layer + 1}.weight"]
    bias = places.get(f"layers.{layer}.bias")
    flips = {}
    for unit in set(units):
        signs = np.ones(target.dim)
        signs[incoming[unit]] = signs[outgoing[:, unit]] = -1
        if bias is not None:
            signs[bias[unit]] = -1
        flips[int(outgoing[0, unit])] = signs
    for signs in flips.values():
        _require_symmetry(target, signs)
    cuts = checked_cuts(target.dim, dict.fromkeys(flips, 0.0))
    return Mirrored(target.dim, cuts, np.stack([flips[one] for one in cuts]))


def _require_symmetry(target: AbstractTarget, signs: Float[np.ndarray, "dim"]) -> None:
    here, there = np.asarray(_both(target, signs), np.float64)
    difference = np.abs(here - there)
    unit = np.finfo(jax.dtypes.canonicalize_dtype(float)).eps * np.maximum(np.abs(here), 1.0)
    if not np.all(difference <= ROUNDING * unit):
        raise SettingError(
            f"The log density changes by {np.nanmax(difference):.3g} when the weights of a hidden unit change sign, so "
            "the halves do not have the same mass. Use an odd activation (`tanh`) and a prior that is symmetric about "
            "0, or `partition.split`."
        )


@eqx.filter_jit
def _both(target: AbstractTarget, signs: Any) -> Float[Array, "2 position"]:
    """The potential at random positions and at their images."""
    places = jax.vmap(target.initial_position)(jax.random.split(key_of(0), NUM_CHECKS))
    both = jnp.concatenate([places, places * signs.astype(places.dtype)])
    return jax.lax.map(target.potential, both).reshape(2, NUM_CHECKS)
