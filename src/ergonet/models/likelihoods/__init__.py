"""Likelihoods: the distribution of a row's target given the network's outputs for it."""

from ergonet.models.likelihood import (
    AbstractLikelihood,
    Gaussian,
    HeteroscedasticGaussian,
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
    "LogNormal",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "StudentT",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "gaussian",
]
