"""Ergonet: train a neural network as a posterior, not as a point.

Public names, loaded when they are first used, so that `import ergonet` stays light.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ergonet import baselines, datasets, diagnostics, plots
    from ergonet.adaptation import warmup as recipes
    from ergonet.estimators import BayesianClassifier, BayesianRegressor
    from ergonet.hamiltonian import integrator as integrators
    from ergonet.inference import keeping
    from ergonet.inference.minibatches import MinibatchResult, sample_minibatches
    from ergonet.inference.run import sample
    from ergonet.inference.samples import Samples, load
    from ergonet.models import likelihood as likelihoods
    from ergonet.models import prior as priors
    from ergonet.models.convnet import ConvNet
    from ergonet.models.network import MLP
    from ergonet.models.network_posterior import BayesianNetwork
    from ergonet.models.streamed_posterior import stream
    from ergonet.models.target import Target
    from ergonet.prediction.predictive import predict
    from ergonet.prediction.prior_check import prior_predictive
    from ergonet.prediction.running import RunningPrediction
    from ergonet.samplers.dynamical import DynamicalA, DynamicalB
    from ergonet.samplers.gibbs_hmc import GibbsHMC
    from ergonet.samplers.hmc import HMC
    from ergonet.samplers.mala import MALA
    from ergonet.samplers.nuts import NUTS
    from ergonet.samplers.random_walk import RandomWalk
    from ergonet.samplers.stochastic import noise_model as noise_models
    from ergonet.samplers.stochastic import schedule as schedules
    from ergonet.samplers.stochastic.hand_over import HandOver
    from ergonet.samplers.stochastic.naive_sghmc import NaiveSGHMC
    from ergonet.samplers.stochastic.sg_nuts import SGNUTS
    from ergonet.samplers.stochastic.sghmc import SGHMC
    from ergonet.samplers.stochastic.sgld import SGLD
    from ergonet.samplers.windowed_hmc import WindowedHMC
    from ergonet.samplers.xhmc import XHMC
    from ergonet.trajectory import criterion as criteria
    from ergonet.trajectory import selection as selections

__version__ = "0.1.0"

_HOMES = {
    "sample": "ergonet.inference.run",
    "Samples": "ergonet.inference.samples",
    "load": "ergonet.inference.samples",
    "Target": "ergonet.models.target",
    "BayesianNetwork": "ergonet.models.network_posterior",
    "ConvNet": "ergonet.models.convnet",
    "MLP": "ergonet.models.network",
    "stream": "ergonet.models.streamed_posterior",
    "DynamicalA": "ergonet.samplers.dynamical",
    "DynamicalB": "ergonet.samplers.dynamical",
    "GibbsHMC": "ergonet.samplers.gibbs_hmc",
    "HMC": "ergonet.samplers.hmc",
    "MALA": "ergonet.samplers.mala",
    "NUTS": "ergonet.samplers.nuts",
    "RandomWalk": "ergonet.samplers.random_walk",
    "WindowedHMC": "ergonet.samplers.windowed_hmc",
    "XHMC": "ergonet.samplers.xhmc",
    "SGLD": "ergonet.samplers.stochastic.sgld",
    "SGHMC": "ergonet.samplers.stochastic.sghmc",
    "NaiveSGHMC": "ergonet.samplers.stochastic.naive_sghmc",
    "SGNUTS": "ergonet.samplers.stochastic.sg_nuts",
    "HandOver": "ergonet.samplers.stochastic.hand_over",
    "sample_minibatches": "ergonet.inference.minibatches",
    "MinibatchResult": "ergonet.inference.minibatches",
    "RunningPrediction": "ergonet.prediction.running",
    "predict": "ergonet.prediction.predictive",
    "prior_predictive": "ergonet.prediction.prior_check",
    "BayesianClassifier": "ergonet.estimators",
    "BayesianRegressor": "ergonet.estimators",
}
_MODULES = {
    "baselines": "ergonet.baselines",
    "priors": "ergonet.models.prior",
    "likelihoods": "ergonet.models.likelihood",
    "datasets": "ergonet.datasets",
    "diagnostics": "ergonet.diagnostics",
    "plots": "ergonet.plots",
    "schedules": "ergonet.samplers.stochastic.schedule",
    "noise_models": "ergonet.samplers.stochastic.noise_model",
    "keeping": "ergonet.inference.keeping",
    "recipes": "ergonet.adaptation.warmup",
    "criteria": "ergonet.trajectory.criterion",
    "selections": "ergonet.trajectory.selection",
    "integrators": "ergonet.hamiltonian.integrator",
}

__all__ = [
    "HMC",
    "MALA",
    "MLP",
    "NUTS",
    "SGHMC",
    "SGLD",
    "SGNUTS",
    "XHMC",
    "BayesianClassifier",
    "BayesianNetwork",
    "BayesianRegressor",
    "ConvNet",
    "DynamicalA",
    "DynamicalB",
    "GibbsHMC",
    "HandOver",
    "MinibatchResult",
    "NaiveSGHMC",
    "RandomWalk",
    "RunningPrediction",
    "Samples",
    "Target",
    "WindowedHMC",
    "baselines",
    "criteria",
    "datasets",
    "diagnostics",
    "integrators",
    "keeping",
    "likelihoods",
    "load",
    "noise_models",
    "plots",
    "predict",
    "prior_predictive",
    "priors",
    "recipes",
    "sample",
    "sample_minibatches",
    "schedules",
    "selections",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _import(_MODULES[name])
    if name in _HOMES:
        return getattr(_import(_HOMES[name]), name)
    raise AttributeError(f"module 'ergonet' has no attribute {name!r}")


def _import(module: str) -> Any:
    """Import without garbage collection, which would take a tenth of the time: what an import makes stays."""
    was_enabled, was_frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    try:
        return importlib.import_module(module)
    finally:
        if was_enabled:
            if not was_frozen:
                gc.freeze()  # both together: all objects are old now, with none visited
                gc.unfreeze()
            gc.enable()


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES, *_MODULES})
