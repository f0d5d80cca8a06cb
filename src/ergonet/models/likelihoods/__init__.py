"""Likelihoods: the distribution of a row's target given the network's outputs for it.

Names are loaded when they are first used, because some need NumPyro, which takes a third of a second.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ergonet.models.likelihood import (
        AbstractLikelihood,
        Gaussian,
        HeteroscedasticGaussian,
        HeteroscedasticStudentT,
        gaussian,
    )
    from ergonet.models.likelihoods.classes import Bernoulli, Categorical
    from ergonet.models.likelihoods.counts import (
        NegativeBinomial,
        Poisson,
        ZeroInflatedNegativeBinomial,
        ZeroInflatedPoisson,
    )
    from ergonet.models.likelihoods.distribution import AbstractDistribution, FromDistribution
    from ergonet.models.likelihoods.ordinal import Ordinal
    from ergonet.models.likelihoods.reals import Beta, LogNormal, StudentT
    from ergonet.models.precision import GammaPrecision

_HOMES = {
    "AbstractLikelihood": "ergonet.models.likelihood",
    "Gaussian": "ergonet.models.likelihood",
    "HeteroscedasticGaussian": "ergonet.models.likelihood",
    "HeteroscedasticStudentT": "ergonet.models.likelihood",
    "gaussian": "ergonet.models.likelihood",
    "Bernoulli": "ergonet.models.likelihoods.classes",
    "Categorical": "ergonet.models.likelihoods.classes",
    "NegativeBinomial": "ergonet.models.likelihoods.counts",
    "Poisson": "ergonet.models.likelihoods.counts",
    "ZeroInflatedNegativeBinomial": "ergonet.models.likelihoods.counts",
    "ZeroInflatedPoisson": "ergonet.models.likelihoods.counts",
    "AbstractDistribution": "ergonet.models.likelihoods.distribution",
    "FromDistribution": "ergonet.models.likelihoods.distribution",
    "Ordinal": "ergonet.models.likelihoods.ordinal",
    "Beta": "ergonet.models.likelihoods.reals",
    "LogNormal": "ergonet.models.likelihoods.reals",
    "StudentT": "ergonet.models.likelihoods.reals",
    "GammaPrecision": "ergonet.models.precision",
}

__all__ = [
    "AbstractDistribution",
    "AbstractLikelihood",
    "Bernoulli",
    "Beta",
    "Categorical",
    "FromDistribution",
    "GammaPrecision",
    "Gaussian",
    "HeteroscedasticGaussian",
    "HeteroscedasticStudentT",
    "LogNormal",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "StudentT",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "gaussian",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ergonet.models.likelihoods' has no attribute {name!r}")
    globals()[name] = found = getattr(importlib.import_module(_HOMES[name]), name)
    return found


def __dir__() -> list[str]:
    return __all__
