"""A Bayesian neural network classifier with the scikit-learn interface."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ergonet._errors import DataError, SettingError
from ergonet.assembly.likelihoods import tell_order
from ergonet.datasets.frames import as_frame_or_array
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.estimators.parameters import documented, parameter
from ergonet.estimators.saving import Parts
from ergonet.estimators.validating import naming_entries
from ergonet.estimators.weights import weighted_rows
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

    task: ClassVar[str] = "classification"
    class_weight: Any = parameter(
        None,
        "Weight of the rows of each class: a dictionary by label; 'balanced': in inverse proportion to the class's "
        "rows; None: 1.",
    )

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesianClassifier":
        """Sample the posterior given X `[rows, features]` and labels y `[rows]`.

        The likelihood of a row is raised to its weight, `sample_weight` `[rows]` times that of its class; rows of
        weight 0 are left out.

        Raises:
            SettingError: a parameter is out of range.
            DataError: `y` has only one class, every column of X is constant, or a value is too large for float32.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        with naming_entries(("X", X)):
            x, labels = validate_data(self, as_frame_or_array(X), y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        x, labels, weights = weighted_rows(x, column_or_1d(labels, warn=True), sample_weight)
        if self.class_weight is not None:
            of_class = compute_sample_weight(self.class_weight, labels)
            x, labels, weights = weighted_rows(x, labels, of_class if weights is None else of_class * weights)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"`y` has only one class ({self.classes_[0]!r}), so there is nothing to classify. "
                f"Classifier can't train when only one class is present."
            )
        tell_order(self.likelihood, self.classes_.tolist())
        self._fit_network(x, index, target_names=("y",), weights=weights)
        return self

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> "BayesianClassifier":
        """Take new rows into account without starting over: fitted draws become draws of the posterior of all rows.

        The draws are weighted by the likelihood of the new rows, resampled and moved by the kernel, through tempered
        posteriors if fewer than half of them would count (sequential Monte Carlo: Chopin2002,
        DelMoralDoucetJasra2006). Where that is not possible, chains are run again from the old draws, with a warning.
        `update_` says which it was: `method` is `moved` or `sampled`. Scaling stays as it was learned by `fit`.

        Args:
            X: new rows `[rows, features]`, at least one.
            y: their targets, labels that `fit` has seen.
            sample_weight: their weights; None: 1.

        Returns:
            The estimator itself.

        Raises:
            CapabilityError: the estimator was loaded, without its rows, or `time_limit` left a linear model.
            DataError: a value cannot be used, or a label is new.
        """
        check_is_fitted(self, "samples_")
        with naming_entries(("X", X)):
            x, labels = validate_data(self, as_frame_or_array(X), y, reset=False, dtype=np.float64)
        found = np.searchsorted(self.classes_, labels).clip(max=len(self.classes_) - 1)
        unknown = np.asarray(labels)[self.classes_[found] != labels].tolist()
        if unknown:
            raise DataError(f"`y` has the label {unknown[0]!r}, which no row of the fit had. Fit again.")
        if self.class_weight is not None and sample_weight is None:
            raise SettingError("`update` does not know the weights of classes. Give `sample_weight`, or fit again.")
        self._update(x, found, sample_weight)
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
        """Labels drawn from the predictive distribution, `[rows, samples]`.

        A draw of all rows is of one network; where probabilities have a temperature or label noise, which are those of
        the average over networks, rows are drawn independently.
        """
        seed = int(check_random_state(random_state).randint(SEEDS))
        if self.model_.likelihood.calibration is not None:
            reached = self.predict_proba(X).astype(np.float64).cumsum(axis=1)
            levels = np.random.default_rng(seed).uniform(size=(len(reached), n_samples)) * reached[:, -1:]
            pairs = zip(reached, levels, strict=True)
            return self.classes_[np.stack([np.searchsorted(one, level, side="right") for one, level in pairs])]
        inputs = self.scaled_inputs(X)
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
