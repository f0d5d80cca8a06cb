"""Ergonet: train a neural network as a posterior, not as a point.

Public names, loaded when they are first used, so that `import ergonet` stays light.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

from ergonet import _fork as _fork  # notes from now on whether this process is forked

if TYPE_CHECKING:
    from ergonet import baselines, checking, comparison, datasets, diagnostics, explanation, partition, plots
    from ergonet.adaptation import recipes
    from ergonet.draws import retention
    from ergonet.draws.samples import Samples, load
    from ergonet.estimators import BayesianClassifier, BayesianCountRegressor, BayesianRegressor
    from ergonet.execution import distributed
    from ergonet.execution.dask import DaskExecutor
    from ergonet.execution.in_process import InProcess
    from ergonet.execution.processes import Processes
    from ergonet.hamiltonian import integrator as integrators
    from ergonet.hamiltonian import metric as metrics
    from ergonet.inference.run import sample
    from ergonet.inference.until import Until
    from ergonet.inference.warm_start import WarmStart
    from ergonet.models import likelihoods
    from ergonet.models import prior as priors
    from ergonet.models.convnet import ConvNet
    from ergonet.models.network import MLP
    from ergonet.models.network_posterior import BayesianNetwork
    from ergonet.models.streamed_posterior import stream
    from ergonet.models.tempered import tempered
    from ergonet.partition.evidence import evidence
    from ergonet.prediction.predictive import Predictor, predict
    from ergonet.prediction.prior_check import prior_predictive
    from ergonet.prediction.running import RunningPrediction
    from ergonet.samplers.constrained import ConstrainedHMC
    from ergonet.samplers.delayed_rejection_hmc import DelayedRejectionHMC
    from ergonet.samplers.dynamical import DynamicalA, DynamicalB
    from ergonet.samplers.gibbs_hmc import GibbsHMC
    from ergonet.samplers.hmc import HMC
    from ergonet.samplers.mala import MALA
    from ergonet.samplers.mams import MAMS
    from ergonet.samplers.mclmc import MCLMC
    from ergonet.samplers.nuts import NUTS
    from ergonet.samplers.random_walk import RandomWalk
    from ergonet.samplers.stochastic import noise_model as noise_models
    from ergonet.samplers.stochastic import schedule as schedules
    from ergonet.samplers.stochastic.naive_sghmc import NaiveSGHMC
    from ergonet.samplers.stochastic.sequential import SequentialKernel
    from ergonet.samplers.stochastic.sg_nuts import SGNUTS
    from ergonet.samplers.stochastic.sghmc import SGHMC
    from ergonet.samplers.stochastic.sgld import SGLD
    from ergonet.samplers.windowed_hmc import WindowedHMC
    from ergonet.samplers.xhmc import XHMC
    from ergonet.target import capabilities
    from ergonet.target.constructors import Target
    from ergonet.target.contract import AbstractTarget
    from ergonet.target.shards import RowShards
    from ergonet.trajectory import criterion as criteria
    from ergonet.trajectory import selection as selections

__version__ = "0.1.0"

_HOMES = {
    "sample": "ergonet.inference.run",
    "Until": "ergonet.inference.until",
    "WarmStart": "ergonet.inference.warm_start",
    "Samples": "ergonet.draws.samples",
    "load": "ergonet.draws.samples",
    "AbstractTarget": "ergonet.target.contract",
    "Target": "ergonet.target.constructors",
    "BayesianNetwork": "ergonet.models.network_posterior",
    "ConvNet": "ergonet.models.convnet",
    "MLP": "ergonet.models.network",
    "stream": "ergonet.models.streamed_posterior",
    "tempered": "ergonet.models.tempered",
    "ConstrainedHMC": "ergonet.samplers.constrained",
    "DaskExecutor": "ergonet.execution.dask",
    "InProcess": "ergonet.execution.in_process",
    "Processes": "ergonet.execution.processes",
    "RowShards": "ergonet.target.shards",
    "DelayedRejectionHMC": "ergonet.samplers.delayed_rejection_hmc",
    "DynamicalA": "ergonet.samplers.dynamical",
    "DynamicalB": "ergonet.samplers.dynamical",
    "GibbsHMC": "ergonet.samplers.gibbs_hmc",
    "HMC": "ergonet.samplers.hmc",
    "MALA": "ergonet.samplers.mala",
    "MAMS": "ergonet.samplers.mams",
    "MCLMC": "ergonet.samplers.mclmc",
    "NUTS": "ergonet.samplers.nuts",
    "RandomWalk": "ergonet.samplers.random_walk",
    "WindowedHMC": "ergonet.samplers.windowed_hmc",
    "XHMC": "ergonet.samplers.xhmc",
    "SGLD": "ergonet.samplers.stochastic.sgld",
    "SGHMC": "ergonet.samplers.stochastic.sghmc",
    "NaiveSGHMC": "ergonet.samplers.stochastic.naive_sghmc",
    "SGNUTS": "ergonet.samplers.stochastic.sg_nuts",
    "SequentialKernel": "ergonet.samplers.stochastic.sequential",
    "Predictor": "ergonet.prediction.predictive",
    "RunningPrediction": "ergonet.prediction.running",
    "evidence": "ergonet.partition.evidence",
    "predict": "ergonet.prediction.predictive",
    "prior_predictive": "ergonet.prediction.prior_check",
    "BayesianClassifier": "ergonet.estimators",
    "BayesianCountRegressor": "ergonet.estimators",
    "BayesianRegressor": "ergonet.estimators",
}
_MODULES = {
    "baselines": "ergonet.baselines",
    "capabilities": "ergonet.target.capabilities",
    "checking": "ergonet.checking",
    "comparison": "ergonet.comparison",
    "priors": "ergonet.models.prior",
    "likelihoods": "ergonet.models.likelihoods",
    "datasets": "ergonet.datasets",
    "diagnostics": "ergonet.diagnostics",
    "explanation": "ergonet.explanation",
    "partition": "ergonet.partition",
    "distributed": "ergonet.execution.distributed",
    "plots": "ergonet.plots",
    "schedules": "ergonet.samplers.stochastic.schedule",
    "noise_models": "ergonet.samplers.stochastic.noise_model",
    "retention": "ergonet.draws.retention",
    "recipes": "ergonet.adaptation.recipes",
    "criteria": "ergonet.trajectory.criterion",
    "selections": "ergonet.trajectory.selection",
    "integrators": "ergonet.hamiltonian.integrator",
    "metrics": "ergonet.hamiltonian.metric",
}

_RENAMED = {
    "HandOver": "`ergonet.HandOver` is `ergonet.SequentialKernel` now.",
    "keeping": "`ergonet.keeping` is `ergonet.retention` now, and `keep=` is `retention=`.",
    "sample_minibatches": "`ergonet.sample_minibatches` is gone: `ergonet.sample(target, kernel, ...)` takes minibatch "
    "kernels, with `retention=` and `callback=`; its own defaults were num_chains=1, num_warmup=50, num_draws=100.",
    "MinibatchResult": "`ergonet.MinibatchResult` is gone: `ergonet.sample` returns `Samples` for every kernel, with "
    "`.curve` and `.running_summary`.",
}

__all__ = [
    "HMC",
    "MALA",
    "MAMS",
    "MCLMC",
    "MLP",
    "NUTS",
    "SGHMC",
    "SGLD",
    "SGNUTS",
    "XHMC",
    "AbstractTarget",
    "BayesianClassifier",
    "BayesianCountRegressor",
    "BayesianNetwork",
    "BayesianRegressor",
    "ConstrainedHMC",
    "ConvNet",
    "DaskExecutor",
    "DelayedRejectionHMC",
    "DynamicalA",
    "DynamicalB",
    "GibbsHMC",
    "InProcess",
    "NaiveSGHMC",
    "Predictor",
    "Processes",
    "RandomWalk",
    "RowShards",
    "RunningPrediction",
    "Samples",
    "SequentialKernel",
    "Target",
    "Until",
    "WarmStart",
    "WindowedHMC",
    "baselines",
    "capabilities",
    "checking",
    "comparison",
    "criteria",
    "datasets",
    "diagnostics",
    "distributed",
    "evidence",
    "explanation",
    "integrators",
    "likelihoods",
    "load",
    "metrics",
    "noise_models",
    "partition",
    "plots",
    "predict",
    "prior_predictive",
    "priors",
    "recipes",
    "retention",
    "sample",
    "schedules",
    "selections",
    "stream",
    "tempered",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return _import(_MODULES[name])
    if name in _HOMES:
        return getattr(_import(_HOMES[name]), name)
    if name in _RENAMED:
        raise AttributeError(_RENAMED[name])
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
