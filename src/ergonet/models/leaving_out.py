"""The posterior of a network without some of its rows."""

import equinox as eqx
import jax
import numpy as np

from ergonet.models.network_posterior import NetworkPosterior


def without(posterior: NetworkPosterior, rows: np.ndarray) -> NetworkPosterior:
    """The posterior given all rows but these, `[row]`; it has the shapes of the other, and so its compiled programs.

    Args:
        posterior: a posterior with padded rows: more than 16 of them, and a network whose rows do not interact.
        rows: indices of the rows that are left out; at least one row stays.
    """
    network, size = posterior.model.network, posterior.padded_targets.shape[1]
    kept = np.setdiff1d(np.arange(posterior.num_rows), rows)
    index = kept[np.arange(size) % len(kept)]
    inputs = network.prepare(np.asarray(network.rows_first(posterior.padded_inputs))[index])
    parts = inputs, np.asarray(posterior.padded_targets)[:, index], np.int32(len(kept))
    return eqx.tree_at(lambda one: (one.padded_inputs, one.padded_targets, one.count), posterior, jax.device_put(parts))
