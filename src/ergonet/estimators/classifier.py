"""A Bayesian neural network classifier in scikit-learn's shape."""

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from ergonet._errors import DataError
from ergonet.estimators import assembly
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.inference.samples import Samples
from ergonet.prediction.predictive import sample_predictive


class BayesianClassifier(ClassifierMixin, BayesianEstimator):
    """Classification by a Bayesian neural network.

    Parameters:
        hidden: units of each hidden layer.
        activation: tanh, relu, sigmoid, silu, gelu or softplus.
        bias: whether layers have biases.
        prior: None: N(0, 1 / fan_in) weights and N(0, 1) biases, with output weights 4 times as wide; a name such as
            `normal`; a table such as `{"name": "normal-gamma", "parametrisation": "centered"}`; a prior; or a mapping
            of leaf patterns (`layers.0.weight`, `*.bias`) to any of these.
        likelihood: None: Bernoulli for two classes, else categorical; a name, a table, or a likelihood.
        kernel: None: `ergonet.NUTS()`; a name: nuts, xhmc, hmc, windowed, mala or random-walk; settings such as
            `{"name": "hmc", "num_steps": 32}`; or a kernel. For priors that learn their scales also gibbs, dynamical-a
            and dynamical-b.
        num_chains: independent chains, at least 1.
        num_warmup: transitions of each chain that tune the kernel and are not kept.
        num_draws: kept draws of each chain.
        thin: transitions for each kept draw.
        standardize: scale inputs to mean 0 and sd 1 by the training rows.
        devices: worker threads or JAX devices; None: all.
        progress: whether to show progress.
        random_state: None, an integer, or a NumPy `RandomState`.

    Attributes:
        classes_: the labels as they were given, sorted.
        samples_: the draws.
        diagnostics_: R-hat and effective sample sizes of predictions, divergences, E-BFMI.
        model_: the network with its prior and likelihood.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    def __init__(  # scikit-learn may set a parameter to anything (`| Any`); what is wrong is said by `fit`
        self,
        *,
        hidden: Any = (50,),
        activation: str | Any = "tanh",
        bias: bool | Any = True,
        prior: Any = None,
        likelihood: Any = None,
        kernel: Any = None,
        num_chains: int | Any = 4,
        num_warmup: int | Any = 500,
        num_draws: int | Any = 500,
        thin: int | Any = 1,
        standardize: bool | Any = True,
        devices: Any = None,
        progress: bool | Any = False,
        random_state: Any = None,
    ):
        self.hidden = hidden
        self.activation = activation
        self.bias = bias
        self.prior = prior
        self.likelihood = likelihood
        self.kernel = kernel
        self.num_chains = num_chains
        self.num_warmup = num_warmup
        self.num_draws = num_draws
        self.thin = thin
        self.standardize = standardize
        self.devices = devices
        self.progress = progress
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "BayesianClassifier":
        """Sample the posterior given X `[rows, features]` and labels y `[rows]`.

        Raises:
            SettingError: a parameter is out of its range.
            DataError: y holds one class only.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        x, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise DataError(
                f"`y` holds one class only ({self.classes_[0]!r}), so there is nothing to tell apart. "
                f"Classifier can't train when only one class is present."
            )
        likelihood = self._likelihood()
        self._fit_network(np.asarray(x), index.astype(np.int32), likelihood.num_outputs(len(self.classes_)), likelihood)
        return self

    def _likelihood(self) -> Any:
        return assembly.likelihood(self.likelihood, task="classification", num_classes=len(self.classes_))

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

    def _fitted_json(self) -> dict[str, Any]:
        return super()._fitted_json() | {"classes_": self.classes_.tolist(), "dtype": self.classes_.dtype.str}

    def _restore(self, fitted: dict[str, Any], samples: Samples) -> None:
        super()._restore(fitted, samples)
        dtype = np.dtype(fitted["dtype"]) if fitted["dtype"] != "|O" else object
        self.classes_ = np.array(fitted["classes_"], dtype=dtype)
        likelihood = self._likelihood()
        outputs = likelihood.num_outputs(len(self.classes_))
        self.model_ = self._network(self.n_features_in_, outputs, likelihood)
