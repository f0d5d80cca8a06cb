"""Comparison of models by what they predict, and of chains by their weights.

Leave-one-out, WAIC, held-out rows, cross-validation and stacking; and `align`, which removes symmetries of networks.
"""

from ergonet.comparison.alignment import Alignment, align
from ergonet.comparison.criteria import Elpd, held_out, loo, waic
from ergonet.comparison.folds import cross_validate, refit
from ergonet.comparison.stacked import Stacked
from ergonet.comparison.table import Comparison, compare
from ergonet.comparison.weights import pseudo_bma_weights, stacking_weights

__all__ = [
    "Alignment",
    "Comparison",
    "Elpd",
    "Stacked",
    "align",
    "compare",
    "cross_validate",
    "held_out",
    "loo",
    "pseudo_bma_weights",
    "refit",
    "stacking_weights",
    "waic",
]
