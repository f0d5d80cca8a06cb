"""Conversion of a run to an ArviZ `DataTree`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergonet._arviz import from_dict
from ergonet.draws import quantities
from ergonet.draws.record import Record

OBSERVED = "y"  # name of the variable of the log likelihood


def to_datatree(record: Record, *, log_likelihood: bool = False) -> Any:
    """Convert to an ArviZ `DataTree` with posterior, sample_stats, warmup_sample_stats and optionally log_likelihood.

    Args:
        record: the run, with its target.
        log_likelihood: whether to add the log likelihood of each row, `[chain, draw, row]`, which `arviz.loo` needs.
            It is computed in chunks, but the result is held in memory.

    Raises:
        CapabilityError: the target is unknown, or has no pointwise log likelihood.
    """
    groups = {"posterior": quantities.parameters(record), "sample_stats": _statistics(record, record.stats)}
    if record.warmup_stats:
        groups["warmup_sample_stats"] = _statistics(record, record.warmup_stats)
    if log_likelihood:
        groups["log_likelihood"] = {OBSERVED: quantities.log_likelihood(record)}
    return from_dict()(groups, save_warmup=True, dims={OBSERVED: ["row"]} if log_likelihood else None)


def _statistics(record: Record, stats: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Add the tree statistics that ArviZ expects; all other names are those of ArviZ already."""
    limit = record.about.get("max_doublings")
    if limit is None or "tree_depth" not in stats:
        return dict(stats)
    return dict(stats) | {"reached_max_treedepth": stats["tree_depth"] >= limit}
