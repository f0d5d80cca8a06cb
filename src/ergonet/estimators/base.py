"""What both estimators share: scaling, sampling, saving."""

import json
import numbers
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ergonet._errors import CapabilityError, RunDirectoryError, SamplingWarning
from ergonet.diagnostics.advice import advise
from ergonet.estimators import assembly
from ergonet.inference.run import sample
from ergonet.inference.samples import Samples, load
from ergonet.inference.store import write_json
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.predictive import Prediction, predict

FORMAT_VERSION = 1
SEEDS = 2**31 - 1


class BayesianEstimator(BaseEstimator):
    """Base of `BayesianClassifier` and `BayesianRegressor`; fitted attributes are described there."""

    hidden: Any
    activation: str
    bias: bool
    prior: Any
    likelihood: Any
    kernel: Any
    num_chains: int
    num_warmup: int
    num_draws: int
    thin: int
    standardize: bool
    devices: Any
    progress: bool
    random_state: Any
    n_features_in_: int

    def _fit_network(self, x: np.ndarray, targets: np.ndarray, num_outputs: int, likelihood: Any) -> None:
        """Scale the inputs, sample the posterior, and warn about what is off."""
        self._learn_input_scale(x)
        self.model_ = self._network(x.shape[1], num_outputs, likelihood)
        posterior = self.model_.condition(self._scaled(x), targets)
        seed = check_random_state(self.random_state).randint(SEEDS)
        self.samples_ = sample(
            posterior,
            assembly.kernel(self.kernel),
            num_chains=self.num_chains,
            num_warmup=self.num_warmup,
            num_draws=self.num_draws,
            thin=self.thin,
            seed=int(seed),
            devices=self.devices,
            progress=self.progress,
        )
        self.diagnostics_ = self.samples_.diagnostics()
        self._warn()

    def _network(self, num_inputs: int, num_outputs: int, likelihood: Any) -> BayesianNetwork:
        """The network with its prior and likelihood, as the parameters say."""
        network = assembly.network(
            num_inputs, self.hidden, num_outputs, activation_name=self.activation, bias=self.bias
        )
        task = "classification" if likelihood.is_classification else "regression"
        prior = assembly.prior(self.prior, task=task, hidden=self.hidden, bias=self.bias)
        return BayesianNetwork(network, prior, likelihood)

    def _warn(self) -> None:
        """One warning with a sentence for each thing that is off; divergences have been warned about."""
        metrics = {
            "num_chains": self.samples_.num_chains,
            "num_draws": self.samples_.num_draws,
            "kernel": self.samples_.about.get("kernel"),
            "dim": self.model_.dim,
            "diagnostics": self.diagnostics_ | {"divergences": 0, "nonfinite": 0, "stuck_chains": []},
        }
        sentences = advise(metrics)
        if sentences:
            warnings.warn(" ".join(sentences), SamplingWarning, stacklevel=4)

    def _learn_input_scale(self, x: np.ndarray) -> None:
        ones, zeros = np.ones(x.shape[1]), np.zeros(x.shape[1])
        mean, sd = (x.mean(axis=0), x.std(axis=0)) if self.standardize else (zeros, ones)
        self.input_mean_, self.input_sd_ = mean, np.where(sd > 1e-10 * np.maximum(1.0, np.abs(mean)), sd, 1.0)

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return ((x - self.input_mean_) / self.input_sd_).astype(np.float32)

    def _inputs(self, X: Any) -> np.ndarray:
        """Checked and scaled inputs of new rows."""
        check_is_fitted(self, "samples_")
        return self._scaled(np.asarray(validate_data(self, X, reset=False, dtype=np.float64)))

    def _predict(self, X: Any, *, levels: tuple[float, ...] = ()) -> Prediction:
        inputs = self._inputs(X)
        return predict(self.samples_, inputs, model=self.model_, levels=levels)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted estimator as a folder of Zarr and JSON; no pickle.

        Args:
            path: a folder that does not exist yet.
            overwrite: replace the draws in a folder that is there.

        Raises:
            CapabilityError: a parameter is an object that text cannot hold; give it by name.
            RunDirectoryError: the folder exists.
        """
        check_is_fitted(self, "samples_")
        folder = Path(path)
        content = {
            "format_version": FORMAT_VERSION,
            "estimator": type(self).__name__,
            "parameters": {name: _as_json(name, value) for name, value in self.get_params(deep=False).items()},
            "fitted": self._fitted_json(),
        }
        if folder.exists() and not overwrite:
            raise RunDirectoryError(f"`{folder}` exists. Choose another folder, or pass overwrite=True.")
        folder.mkdir(parents=True, exist_ok=True)
        self.samples_.save(folder / "draws.zarr", overwrite=overwrite)
        write_json(folder / "estimator.json", content)
        return folder

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """A fitted estimator from a folder that `save` has written.

        Raises:
            RunDirectoryError: the folder is not one, or holds another estimator or version.
        """
        file = Path(path) / "estimator.json"
        if not file.exists():
            raise RunDirectoryError(f"`{path}` holds no estimator.json: it was not written by `save`.")
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("format_version") != FORMAT_VERSION or content.get("estimator") != cls.__name__:
            raise RunDirectoryError(
                f"`{path}` holds a {content.get('estimator')} of format {content.get('format_version')}; this reads a "
                f"{cls.__name__} of format {FORMAT_VERSION}."
            )
        parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in content["parameters"].items()}
        estimator = cls(**parameters)
        estimator._restore(content["fitted"], load(Path(path) / "draws.zarr"))
        return estimator

    def _fitted_json(self) -> dict[str, Any]:
        fitted = {
            "n_features_in_": int(self.n_features_in_),
            "input_mean_": self.input_mean_.tolist(),
            "input_sd_": self.input_sd_.tolist(),
            "diagnostics_": self.diagnostics_,
        }
        if hasattr(self, "feature_names_in_"):
            fitted["feature_names_in_"] = list(self.feature_names_in_)
        return fitted

    def _restore(self, fitted: dict[str, Any], samples: Samples) -> None:
        self.n_features_in_ = fitted["n_features_in_"]
        self.input_mean_, self.input_sd_ = np.array(fitted["input_mean_"]), np.array(fitted["input_sd_"])
        self.diagnostics_ = fitted["diagnostics_"]
        if "feature_names_in_" in fitted:
            self.feature_names_in_ = np.array(fitted["feature_names_in_"], dtype=object)
        self.samples_ = samples


def _as_json(name: str, value: Any) -> Any:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Number):
        return value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list | tuple):
        return [_as_json(name, item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): _as_json(name, item) for key, item in value.items()}
    raise CapabilityError(
        f"`{name}={value!r}` cannot be saved as text. Give it by name, or by a table of `name` and settings, or use "
        f"joblib instead."
    )
