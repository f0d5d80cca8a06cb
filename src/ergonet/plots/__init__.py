"""Pictures of a run: arrays in, Matplotlib axes out.

Every function draws on the given axes or makes a new figure (``axes.figure``), which belongs to no window and is not
registered with pyplot: save it with ``axes.figure.savefig(path)``, or return the axes from a notebook cell. Too few
draws, a single chain or constant values give a note in the picture, never an error.
"""

from ergonet.plots.calibration import coverage_plot, reliability_diagram, risk_plot
from ergonet.plots.chains import convergence_plot, log_posterior_trace, rank_plot
from ergonet.plots.checking import check_ranks, check_scores
from ergonet.plots.explanation import dependence_plot, importance_plot
from ergonet.plots.function_space import chain_intervals, chain_map_plot
from ergonet.plots.hyperparameters import relevance_plot, scales_plot
from ergonet.plots.images import uncertain_images
from ergonet.plots.named import forest_plot, pair_plot, predictive_plot, trace_plot
from ergonet.plots.prior import prior_functions, prior_histogram, save_side_by_side
from ergonet.plots.regression import prediction_vs_truth, residual_plot
from ergonet.plots.residuals import residual_histogram
from ergonet.plots.temperatures import temperature_plot
from ergonet.plots.transform import transform_curve_plot, transform_histogram
from ergonet.plots.transitions import energy_plot, transitions_plot
from ergonet.plots.uncertainty import uncertainty_by_group

__all__ = [
    "chain_intervals",
    "chain_map_plot",
    "check_ranks",
    "check_scores",
    "convergence_plot",
    "coverage_plot",
    "dependence_plot",
    "energy_plot",
    "forest_plot",
    "importance_plot",
    "log_posterior_trace",
    "pair_plot",
    "prediction_vs_truth",
    "predictive_plot",
    "prior_functions",
    "prior_histogram",
    "rank_plot",
    "relevance_plot",
    "reliability_diagram",
    "residual_histogram",
    "residual_plot",
    "risk_plot",
    "save_side_by_side",
    "scales_plot",
    "temperature_plot",
    "trace_plot",
    "transform_curve_plot",
    "transform_histogram",
    "transitions_plot",
    "uncertain_images",
    "uncertainty_by_group",
]
