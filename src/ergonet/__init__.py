"""Ergonet: train a neural network as a posterior, not as a point.

Public names, loaded when they are first used, so that `import ergonet` stays light.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ergonet import datasets, diagnostics, plots
    from ergonet.inference.run import sample
    from ergonet.inference.samples import Samples, load
    from ergonet.models import likelihood as likelihoods
    from ergonet.models import prior as priors
    from ergonet.models.network import MLP
    from ergonet.models.network_posterior import BayesianNetwork
    from ergonet.models.target import Target
    from ergonet.samplers.hmc import HMC
    from ergonet.samplers.nuts import NUTS

__version__ = "0.1.0"

_HOMES = {
    "sample": "ergonet.inference.run",
    "Samples": "ergonet.inference.samples",
    "load": "ergonet.inference.samples",
    "Target": "ergonet.models.target",
    "BayesianNetwork": "ergonet.models.network_posterior",
    "MLP": "ergonet.models.network",
    "HMC": "ergonet.samplers.hmc",
    "NUTS": "ergonet.samplers.nuts",
    "predict": "ergonet.prediction.predictive",
    "BayesianClassifier": "ergonet.estimators",
    "BayesianRegressor": "ergonet.estimators",
}
_MODULES = {
    "priors": "ergonet.models.prior",
    "likelihoods": "ergonet.models.likelihood",
    "datasets": "ergonet.datasets",
    "diagnostics": "ergonet.diagnostics",
    "plots": "ergonet.plots",
}

__all__ = [
    "HMC",
    "MLP",
    "NUTS",
    "BayesianNetwork",
    "Samples",
    "Target",
    "datasets",
    "diagnostics",
    "likelihoods",
    "load",
    "plots",
    "priors",
    "sample",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ergonet' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_MODULES})
