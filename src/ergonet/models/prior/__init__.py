"""Priors of network weights, by leaf path."""

from ergonet.models.prior.assignment import PriorAssignment, assign, describe
from ergonet.models.prior.base import AbstractFixedPrior, AbstractPrior
from ergonet.models.prior.horseshoe import Horseshoe, RegularizedHorseshoe
from ergonet.models.prior.normal_gamma import Level, NormalGamma
from ergonet.models.prior.parametrization import Centered, NonCentered
from ergonet.models.prior.simple import FanInNormal, Laplace, Normal, StudentT, Uniform

__all__ = [
    "AbstractFixedPrior",
    "AbstractPrior",
    "Centered",
    "FanInNormal",
    "Horseshoe",
    "Laplace",
    "Level",
    "NonCentered",
    "Normal",
    "NormalGamma",
    "PriorAssignment",
    "RegularizedHorseshoe",
    "StudentT",
    "Uniform",
    "assign",
    "describe",
]
