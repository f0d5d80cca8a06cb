"""Estimators with the scikit-learn interface: `BayesianClassifier` and `BayesianRegressor`."""

from ergonet._errors import SamplingWarning
from ergonet.estimators.classifier import BayesianClassifier
from ergonet.estimators.regressor import BayesianRegressor

__all__ = ["BayesianClassifier", "BayesianRegressor", "SamplingWarning"]
