"""Diagnostics of a run, and alarms about problems that no run should have."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ergonet.diagnostics.advice import advise
from ergonet.diagnostics.chains import ess_bulk, stuck_chains
from ergonet.diagnostics.energy import e_bfmi, has_momentum
from ergonet.diagnostics.ensemble import are_apart, between_share, ess_within
from ergonet.diagnostics.finding import LARGEST_RHAT, UNTIL
from ergonet.diagnostics.function_space import ConvergenceSummary, summarize
from ergonet.diagnostics.performance import mean_per_draw, saturated_share
from ergonet.draws.quantities import draw_weights, learned_scales, monitored
from ergonet.draws.record import Record

MOST_WEIGHTS = 1000  # whose ESS is computed, at half a millisecond each


def convergence(record: Record) -> ConvergenceSummary:
    """R-hat and ESS of the monitored quantities, which count by the weights of the draws."""
    return summarize(monitored(record), draw_weights(record))


def diagnose(record: Record) -> dict[str, Any]:
    """Compute the diagnostics that say whether to trust the run, as in `metrics.json`."""
    functions, of_draws = monitored(record), draw_weights(record)
    function, weights = summarize(functions, of_draws), _weights_ess(record)
    thin = record.about.get("thin", 1) if record.is_of_minibatches else 1  # trajectories are summed as they are thinned
    found = {
        "nonfinite": int(record.stats["nonfinite"].sum()),
        "stuck_chains": [int(chain) for chain in stuck_chains(record.positions)],
        "max_rhat_function": function.max_rhat,
        "chains_apart": function.max_rhat > LARGEST_RHAT and _are_apart(functions, of_draws),
        "min_ess_bulk_function": function.min_ess_bulk,
        "median_ess_bulk_function": function.median_ess_bulk,
        "min_ess_tail_function": function.min_ess_tail,
        "max_mcse_function": function.max_mcse,
        "min_ess_bulk_weights": float(weights.min()) if weights.size else math.nan,
        "median_ess_bulk_weights": float(np.median(weights)) if weights.size else math.nan,
        "mean_gradients_per_draw": thin * float(np.mean(mean_per_draw(record.stats["gradients"]))),
    }
    learned = [values.reshape(*values.shape[:2], -1) for values in learned_scales(record).values()]
    if learned:
        scales = summarize(np.concatenate(learned, axis=2), of_draws)
        found |= {"max_rhat_scales": scales.max_rhat, "min_ess_bulk_scales": scales.min_ess_bulk}
    of_kernel = _of_minibatches(record, record.stats) if record.is_of_minibatches else _of_trajectories(record)
    return found | of_kernel


def _are_apart(values: Any, weights: np.ndarray) -> bool:
    some, num_chains = values[:, :, :: _stride(values)], int(weights.any(axis=1).sum())
    return are_apart(between_share(some, weights), ess_within(some, weights), num_chains)


def _stride(values: Any) -> int:
    return -(-values.shape[2] // MOST_WEIGHTS)


def _weights_ess(record: Record) -> np.ndarray:
    """Bulk ESS of the coordinates, without those for which it cannot be computed.

    With more than `MOST_WEIGHTS` coordinates, evenly spaced ones are used.
    """
    stride = _stride(record.positions)
    positions = record.positions if stride == 1 else _every(stride, record)
    found = ess_bulk(positions, draw_weights(record))
    return found[~np.isnan(found)]


def _every(stride: int, record: Record) -> np.ndarray:
    """Positions of which only every `stride`-th coordinate is held, `[chain, draw, coordinate]`."""
    kept = [[part[:, ::stride].copy() for part in record.chunks(chain)] for chain in range(record.num_chains)]
    return np.stack([np.concatenate(parts) for parts in kept])


def _of_trajectories(record: Record) -> dict[str, Any]:
    limit, stats = record.about.get("max_doublings"), record.stats
    found: dict[str, Any] = {
        "divergences": int(stats["diverging"].sum()),
        "warmup_divergences": int(record.warmup_stats["diverging"].sum()) if record.warmup_stats else 0,
        "max_tree_depth_fraction": 0.0,
        "target_acceptance": record.about.get("target_acceptance"),
        "rejected_metrics": int(_rejected_metrics(record).sum()),
        "rounding_error": record.about.get("rounding_error"),
    }
    if "tree_depth" in stats and limit:
        found["max_tree_depth_fraction"] = float(np.mean(saturated_share(stats["tree_depth"], limit)))
    if "acceptance_rate" in stats:
        found["mean_acceptance"] = float(stats["acceptance_rate"].mean())
    if "n_steps" in stats:
        found["mean_steps_per_draw"] = float(np.mean(mean_per_draw(stats["n_steps"])))
    if "energy_variance" in stats:
        found["energy_variance"] = float(stats["energy_variance"].mean())
    if has_momentum(stats) and record.about.get("thin", 1) == 1:  # it is about changes from transition to transition
        found["min_ebfmi"] = float(np.min(e_bfmi(stats["energy"])))
    return found


def _rejected_metrics(record: Record) -> np.ndarray:
    by_older_names = record.tuning.get("refused_metrics", 0)  # or none
    return np.asarray(record.tuning.get("rejected_metrics", by_older_names))


def alarms(record: Record) -> list[str]:
    """Sentences about what no run should have.

    Divergences, energies and metrics that are not finite, chains that never moved: what needs no positions, so that a
    run can end with them whatever its size.
    """
    if record.is_of_minibatches:
        return _alarms_of_minibatches(record)
    found = {
        "stuck_chains": [chain for chain in range(record.num_chains) if not record.stats["moved"][chain].any()],
        "nonfinite": int(record.stats["nonfinite"].sum()),
        "divergences": int(record.stats["diverging"].sum()),
        "target_acceptance": record.about.get("target_acceptance"),
        "rejected_metrics": int(_rejected_metrics(record).sum()),
        "rounding_error": record.about.get("rounding_error"),
    }
    counts = {"num_chains": record.num_chains, "num_draws": record.num_draws, "thin": record.about.get("thin", 1)}
    counts |= {name: record.about.get(name) for name in ("stopped_by", UNTIL)}
    return advise(counts | {"diagnostics": found})


def _alarms_of_minibatches(record: Record) -> list[str]:
    """Alarms about all draws after the warm-up, not only about the stored ones."""
    if record.curve is None:
        return []
    stopped, found = record.about.get("stopped_by"), []
    if stopped and stopped not in ("Ctrl-C", "SIGTERM"):
        found.append(f"The run was stopped by {stopped}; {record.num_draws} draws of each chain are stored.")
    after = {name: values[:, record.about["num_warmup"] :] for name, values in record.curve.items()}
    return found + advise({"diagnostics": _of_minibatches(record, after)})


def _of_minibatches(record: Record, stats: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Diagnostics from the statistics of a minibatch kernel; None for statistics that it does not have."""
    return {
        "remedies": record.about.get("remedies"),
        "mean_kinetic_temperature": _mean_of_known(stats.get("kinetic_temperature")),
        "clipped_fraction": _mean_of_known(stats.get("clipped")),
        "minibatch_acceptance": _mean_of_known(stats.get("acceptance_rate")),
    }


def _mean_of_known(values: np.ndarray | None) -> float | None:
    return float(np.nanmean(values)) if values is not None and np.isfinite(values).any() else None
