"""Are the draws to be trusted? Arrays of draws in, small results and plain sentences out."""

from ergonet.diagnostics.advice import Finding, advise, failed, find
from ergonet.diagnostics.chains import ess_bulk, ess_tail, mcse_mean, rhat, stuck_chains
from ergonet.diagnostics.energy import e_bfmi
from ergonet.diagnostics.function_space import ConvergenceSummary, choose_reference_rows, summarise

__all__ = [
    "ConvergenceSummary",
    "Finding",
    "advise",
    "choose_reference_rows",
    "e_bfmi",
    "ess_bulk",
    "ess_tail",
    "failed",
    "find",
    "mcse_mean",
    "rhat",
    "stuck_chains",
    "summarise",
]
