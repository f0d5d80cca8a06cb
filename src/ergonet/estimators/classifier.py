"""A Bayesian neural network classifier with the scikit-learn interface."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ergonet._errors import DataError
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.estimators.parameters import documented
from ergonet.estimators.saving import Parts
from ergonet.prediction.predictive import sample_predictive


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """Classification with a Bayesian neural network.

    Parameters:
        {parameters}

    Attributes:
        classes_: the class labels, sorted.
        samples_: the draws.
        diagnostics_: R-hat and effective sample sizes of predictions, divergences, E-BFMI.
        model_: the network with its prior and likelihood.
        preprocessing_: the scaling of the inputs, learned from the training rows; constant columns are left out.
        n_features_in_, feature_names_in_: as in other scikit-learn estimators.
    """

    def fit(self, X: Any, y: Any) -> "BayesianClassifier":
        """Sample the posterior given X `[rows, features]` and labels y `[rows]`.

        Raises:
            SettingError: a parameter is out of range.
            DataError: `y` has only one class, every column of X is constant, or a value is too large for float32.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        x, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"`y` has only one class ({self.classes_[0]!r}), so there is nothing to classify. "
                f"Classifier can't train when only one class is present."
            )
        self._fit_network(np.asarray(x), index, task="classification", target_names=("y",))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities averaged over the posterior, `[rows, classes]`, in the order of `classes_`."""
        return self._predict(X).mean

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Labels drawn from the predictive distribution, `[rows, samples]`."""
        seed = int(check_random_state(random_state).randint(SEEDS))
        inputs = self._inputs(X)
        draws = sample_predictive(self.samples_, inputs, num_samples=n_samples, seed=seed, model=self.model_)
        return self.classes_[draws[:, :, 0].T.astype(int)]

    def _own(self) -> dict[str, Any]:
        return {"dtype": self.classes_.dtype.str}

    def restore_parts(self, parts: Parts) -> None:
        super().restore_parts(parts)
        kind, labels = parts.fitted.get("dtype"), list(self.preprocessing_.classes)
        if isinstance(parts.fitted.get("classes_"), np.ndarray):  # from a pickle
            self.classes_ = parts.fitted["classes_"]
        else:
            self.classes_ = np.array(labels, dtype=object if kind == "|O" else kind)
