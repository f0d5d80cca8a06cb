"""What a fitted network has learned from its inputs: partial dependence, permutation importance, learned relevance.

Every function takes a fitted estimator, a run (`RunDirectory.read_fitted`), or samples from the posterior of a network,
uses at most 256 draws, and does a bounded amount of work.
"""

from ergonet.explanation.dependence import PartialDependence, partial_dependence
from ergonet.explanation.explained import Explained, Input
from ergonet.explanation.importance import Importance, permutation_importance
from ergonet.explanation.relevance import Relevance, input_relevance

__all__ = [
    "Explained",
    "Importance",
    "Input",
    "PartialDependence",
    "Relevance",
    "input_relevance",
    "partial_dependence",
    "permutation_importance",
]
