"""Priors of network weights by leaf path."""

from ergonet.models.prior.assignment import PriorAssignment, assign
from ergonet.models.prior.simple import AbstractPrior, FanInNormal, Laplace, Normal, StudentT

__all__ = ["AbstractPrior", "FanInNormal", "Laplace", "Normal", "PriorAssignment", "StudentT", "assign"]
