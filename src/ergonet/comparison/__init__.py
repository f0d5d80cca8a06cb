"""Comparison of models by what they predict, and of chains by their weights.

Leave-one-out, WAIC, held-out rows, cross-validation and stacking; `temperature_sweep`, a posterior at several
temperatures; and `align`, which removes symmetries of networks.
"""

from ergonet.comparison.alignment import Alignment, align
from ergonet.comparison.criteria import Elpd, held_out, loo, waic
from ergonet.comparison.folds import cross_validate, refit
from ergonet.comparison.stacked import Stacked
from ergonet.comparison.table import Comparison, compare
from ergonet.comparison.temperatures import TemperatureSweep, temperature_sweep
from ergonet.comparison.weights import pseudo_bma_weights, stacking_weights

__all__ = [
    "Alignment",
    "Comparison",
    "Elpd",
    "Stacked",
    "TemperatureSweep",
    "align",
    "compare",
    "cross_validate",
    "held_out",
    "loo",
    "pseudo_bma_weights",
    "refit",
    "stacking_weights",
    "temperature_sweep",
    "waic",
]
