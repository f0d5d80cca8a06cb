"""Pictures of a run: arrays in, Matplotlib axes out.

Every function draws on the given axes or makes a new figure (``axes.figure``), which belongs to no window and is not
registered with pyplot: save it with ``axes.figure.savefig(path)``, or return the axes from a notebook cell. Too few
draws, a single chain or constant values give a note in the picture, never an error.
"""

from ergonet.plots.calibration import coverage_plot, reliability_diagram
from ergonet.plots.chains import convergence_plot, log_posterior_trace, rank_plot
from ergonet.plots.hyperparameters import relevance_plot, scales_plot
from ergonet.plots.images import uncertain_images
from ergonet.plots.prior import prior_functions, prior_histogram, save_side_by_side
from ergonet.plots.regression import prediction_vs_truth, residual_plot
from ergonet.plots.transitions import energy_plot, transitions_plot
from ergonet.plots.uncertainty import uncertainty_by_group

__all__ = [
    "convergence_plot",
    "coverage_plot",
    "energy_plot",
    "log_posterior_trace",
    "prediction_vs_truth",
    "prior_functions",
    "prior_histogram",
    "rank_plot",
    "relevance_plot",
    "reliability_diagram",
    "residual_plot",
    "save_side_by_side",
    "scales_plot",
    "transitions_plot",
    "uncertain_images",
    "uncertainty_by_group",
]
