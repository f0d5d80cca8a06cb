"""Other methods that fit the same targets, with the same predictions and scores, for comparison."""

from typing import Any

from ergonet.baselines.ensemble import EarlyStoppingEnsemble, EnsembleSamples
from ergonet.baselines.variational import MeanFieldVariational, VariationalSamples
from ergonet.samplers.stochastic.optimizers import SGD, Adam, Optimizer

__all__ = [
    "SGD",
    "Adam",
    "EarlyStoppingEnsemble",
    "EnsembleSamples",
    "MeanFieldVariational",
    "Optimizer",
    "VariationalSamples",
]

_RENAMED = {
    "EarlyStoppingCommittee": "`EarlyStoppingEnsemble`",
    "CommitteeSamples": "`EnsembleSamples`",
}


def __getattr__(name: str) -> Any:
    if name in _RENAMED:
        raise AttributeError(f"`ergonet.baselines.{name}` is {_RENAMED[name]} now.")
    raise AttributeError(f"module 'ergonet.baselines' has no attribute {name!r}")
