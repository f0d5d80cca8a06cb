"""Other ways to fit the same targets, with the same predictions and scores, to compare with."""

from ergonet.baselines.committee import CommitteeSamples, EarlyStoppingCommittee
from ergonet.baselines.optimisers import SGD, Adam, Optimiser
from ergonet.baselines.variational import MeanFieldVariational, VariationalSamples

__all__ = [
    "SGD",
    "Adam",
    "CommitteeSamples",
    "EarlyStoppingCommittee",
    "MeanFieldVariational",
    "Optimiser",
    "VariationalSamples",
]
