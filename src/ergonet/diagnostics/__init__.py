"""Convergence diagnostics: arrays of draws in, summary figures and advice in plain sentences out."""

from ergonet.diagnostics.advice import advise, failed, find
from ergonet.diagnostics.averages import estimates
from ergonet.diagnostics.chain_map import ChainMap, chain_map
from ergonet.diagnostics.chains import ess_bulk, ess_tail, ess_variogram, mcse_mean, rhat, stuck_chains
from ergonet.diagnostics.energy import e_bfmi
from ergonet.diagnostics.ensemble import Agreement, compare_members
from ergonet.diagnostics.finding import Finding
from ergonet.diagnostics.function_space import ConvergenceSummary, choose_reference_rows, summarize
from ergonet.diagnostics.performance import (
    bootstrap_interval,
    geometric_mean,
    inefficiency_factor,
    mean_per_draw,
    paired_ratio_interval,
    resample_chains,
    saturated_share,
    variance_of_means,
    variance_of_means_error,
)
from ergonet.diagnostics.score import mcse_score

__all__ = [
    "Agreement",
    "ChainMap",
    "ConvergenceSummary",
    "Finding",
    "advise",
    "bootstrap_interval",
    "chain_map",
    "choose_reference_rows",
    "compare_members",
    "e_bfmi",
    "ess_bulk",
    "ess_tail",
    "ess_variogram",
    "estimates",
    "failed",
    "find",
    "geometric_mean",
    "inefficiency_factor",
    "mcse_mean",
    "mcse_score",
    "mean_per_draw",
    "paired_ratio_interval",
    "resample_chains",
    "rhat",
    "saturated_share",
    "stuck_chains",
    "summarize",
    "variance_of_means",
    "variance_of_means_error",
]
