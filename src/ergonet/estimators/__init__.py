"""Estimators with the scikit-learn interface."""

from ergonet._errors import SamplingWarning
from ergonet.estimators.classifier import BayesianClassifier
from ergonet.estimators.regressor import BayesianCountRegressor, BayesianRegressor

__all__ = ["BayesianClassifier", "BayesianCountRegressor", "BayesianRegressor", "SamplingWarning"]
