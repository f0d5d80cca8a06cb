"""Conversion of a run to an ArviZ `DataTree`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergonet._arviz import from_dict
from ergonet.draws import quantities
from ergonet.draws.record import Record

OBSERVED = "y"  # name of the variable of log likelihoods and targets


def to_datatree(record: Record, *, log_likelihood: bool = False, posterior_predictive: bool = False) -> Any:
    """Convert to an ArviZ `DataTree` with posterior, sample_stats, warmup_sample_stats and what is wanted beyond.

    Both further groups have the variable `y` and are computed in chunks, but held in memory.

    Args:
        record: the run, with its target.
        log_likelihood: whether to add the log likelihood of each row, `[chain, draw, row]`, which `arviz_stats.loo`
            needs.
        posterior_predictive: whether to add targets simulated from every draw, `[chain, draw, row(, target)]`, and the
            group `observed_data`, which posterior predictive plots need; in the units of the network.

    Raises:
        CapabilityError: the target is unknown, or has no pointwise log likelihood, or simulates nothing.
    """
    groups = {"posterior": quantities.parameters(record), "sample_stats": _statistics(record, record.stats)}
    dims: list[str] = []
    if record.warmup_stats:
        groups["warmup_sample_stats"] = _statistics(record, record.warmup_stats)
    if log_likelihood:
        groups["log_likelihood"] = {OBSERVED: quantities.log_likelihood(record)}
        dims = ["row"]
    if posterior_predictive:
        simulated, observed = quantities.simulations(record, seed=int(record.about.get("seed") or 0))
        groups |= {"posterior_predictive": {OBSERVED: simulated}, "observed_data": {OBSERVED: observed}}
        dims = ["row", "target"][: observed.ndim]
    return from_dict()(groups, save_warmup=True, dims={OBSERVED: dims} if dims else None)


def _statistics(record: Record, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the tree statistics that ArviZ expects; all other names are those of ArviZ already."""
    limit = record.about.get("max_doublings")
    if limit is None or "tree_depth" not in stats:
        return dict(stats)
    return dict(stats) | {"reached_max_treedepth": stats["tree_depth"] >= limit}
