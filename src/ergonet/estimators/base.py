"""Base class of both estimators: scaling, sampling, saving."""

import json
import numbers
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ergonet._errors import CapabilityError, RunDirectoryError, SamplingWarning
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.renamed import translate
from ergonet.assembly.rules import read_table
from ergonet.assembly.settings import ModelSettings, NetworkSettings, RunSettings
from ergonet.datasets.learning import learn, unscaled
from ergonet.datasets.preprocessing import PER_COLUMN_SCALING, SCHEMA_VERSION, Preprocessing
from ergonet.diagnostics.advice import advise
from ergonet.draws.durable import write_json
from ergonet.draws.samples import Samples, load
from ergonet.estimators.parameters import parameter, parameter_of
from ergonet.inference.run import sample
from ergonet.models.registry import LIKELIHOODS, PRIORS
from ergonet.prediction.predictive import Prediction, predict
from ergonet.samplers.registry import KERNELS

FORMAT_VERSION = 2
READ_VERSIONS = (1, FORMAT_VERSION)
SEEDS = 2**31 - 1


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianEstimator(BaseEstimator):
    """Base of `BayesianClassifier` and `BayesianRegressor`; fitted attributes are described there.

    scikit-learn may set a parameter to any value, hence `| Any`; `fit` validates the parameters.
    """

    hidden: Any = parameter_of(NetworkSettings, "hidden")
    activation: str | Any = parameter_of(NetworkSettings, "activation")
    bias: bool | Any = parameter_of(NetworkSettings, "bias")
    prior: Any = parameter(
        None,
        f"None: N(0, 1 / fan_in) for weights and N(0, 1) for biases, with output weights 4 times as wide for a "
        f"classifier and 2 times for a regressor; a name: {PRIORS.listed()}; a table such as `{{'name': "
        f"'normal-gamma', "
        f"'parametrization': 'centered'}}`; a prior; or a mapping of leaf patterns (`layers.0.weight`, `*.bias`) to "
        f"any of these.",
    )
    likelihood: Any = parameter(
        None,
        f"None: Gaussian for a regressor, Bernoulli for two classes, else categorical; a name: {LIKELIHOODS.listed()}; "
        f"a table of `name` and settings; or a likelihood. A regressor's is in scaled units.",
    )
    kernel: Any = parameter(
        None,
        f"None: `ergonet.NUTS()`; a name: {KERNELS.listed()}; settings such as `{{'name': 'hmc', 'num_steps': 32}}`; "
        f"or a kernel. Only for hierarchical priors: {KERNELS.listed('hyperparameters')}.",
    )
    num_chains: int | Any = parameter_of(RunSettings, "num_chains")
    num_warmup: int | Any = parameter_of(RunSettings, "num_warmup")
    num_draws: int | Any = parameter_of(RunSettings, "num_draws")
    thin: int | Any = parameter_of(RunSettings, "thin")
    standardize: bool | Any = parameter(
        True, "Scale inputs, and targets of a regressor, to mean 0 and sd 1 on the training rows."
    )
    devices: Any = parameter(None, "Worker threads or JAX devices; None: all.")
    progress: bool | Any = parameter(False, "Whether to show progress.")
    random_state: Any = parameter(None, "None, an integer, or a NumPy `RandomState`.")

    def _fit_network(self, x: np.ndarray, target: np.ndarray, *, task: str, target_names: tuple[str, ...]) -> None:
        """Learn the scaling, sample the posterior, and warn about problems."""
        features = {name: x[:, index] for index, name in enumerate(self._columns(x.shape[1]))}
        scaling = learn if self.standardize else unscaled
        self.preprocessing_ = scaling(features, target, task=task, target_names=target_names)
        targets = self.preprocessing_.transform_target(target, argument="`y`")
        self.model_ = build.model(self._settings(), Task.of(self.preprocessing_))
        posterior = self.model_.condition(self._scaled(x), targets)
        seed = check_random_state(self.random_state).randint(SEEDS)
        self.samples_ = sample(
            posterior,
            build.kernel(self._settings()),
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

    def _settings(self) -> ModelSettings:
        """The settings of the model and the sampler, from the parameters."""
        chosen = {one: getattr(self, one) for one in ("hidden", "activation", "bias")}
        network = NetworkSettings(**read_table(NetworkSettings, chosen, lambda name: f"`{name}`"))
        # Objects are in scaled units, and so is a table of an estimator.
        likelihood = None if self.likelihood is None else LIKELIHOODS.resolve(self.likelihood)
        return ModelSettings(network=network, prior=self.prior, likelihood=likelihood, kernel=self.kernel)

    def _warn(self) -> None:
        """Issue one warning with a sentence per problem, except divergences, which have been reported before."""
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

    def _columns(self, count: int) -> list[str]:
        """Names of the columns of X; numbers if it has none, or some of them twice."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        return names if len(set(names)) == count else [f"x{index}" for index in range(count)]

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return self.preprocessing_.transform(x, argument="`X`")

    def _inputs(self, X: Any) -> np.ndarray:
        """Validate and scale the inputs of new rows."""
        check_is_fitted(self, "samples_")
        return self._scaled(np.asarray(validate_data(self, X, reset=False, dtype=np.float64)))

    def _predict(self, X: Any, *, levels: tuple[float, ...] = ()) -> Prediction:
        inputs = self._inputs(X)
        return predict(self.samples_, inputs, model=self.model_, levels=levels)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the fitted estimator as a folder of Zarr and JSON; no pickle.

        Args:
            path: the folder to create.
            overwrite: replace the draws in an existing folder.

        Raises:
            CapabilityError: a parameter is an object that cannot be written as text; give it by name.
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
        """Load a fitted estimator from a folder written by `save`.

        Raises:
            RunDirectoryError: the folder was not written by `save`, or contains another estimator or version.
        """
        file = Path(path) / "estimator.json"
        if not file.exists():
            raise RunDirectoryError(f"`{path}` has no estimator.json: it was not written by `save`.")
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.get("format_version") not in READ_VERSIONS or content.get("estimator") != cls.__name__:
            raise RunDirectoryError(
                f"`{path}` contains a {content.get('estimator')} of format {content.get('format_version')}, but this "
                f"method reads a {cls.__name__} of format {FORMAT_VERSION}."
            )
        given = translate(content["parameters"])
        parameters = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
        estimator = cls(**parameters)
        estimator._restore(content["fitted"], load(Path(path) / "draws.zarr"))
        return estimator

    def _fitted_json(self) -> dict[str, Any]:
        fitted = {
            "n_features_in_": int(self.n_features_in_),
            "preprocessing": self.preprocessing_.to_dict(),
            "diagnostics_": self.diagnostics_,
        }
        if hasattr(self, "feature_names_in_"):
            fitted["feature_names_in_"] = list(self.feature_names_in_)
        return fitted

    def _restore(self, fitted: dict[str, Any], samples: Samples) -> None:
        self.n_features_in_ = fitted["n_features_in_"]
        record = fitted["preprocessing"] if "preprocessing" in fitted else _preprocessing_of_version_1(fitted)
        self.preprocessing_ = Preprocessing.from_dict(record)
        self.diagnostics_ = fitted["diagnostics_"]
        if "feature_names_in_" in fitted:
            self.feature_names_in_ = np.array(fitted["feature_names_in_"], dtype=object)
        self.model_ = build.model(self._settings(), Task.of(self.preprocessing_))
        self.samples_ = samples


def _preprocessing_of_version_1(fitted: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a scaling that was saved as means and standard deviations."""
    classes, means = fitted.get("classes_", []), fitted.get("target_mean_", [])
    return {
        "version": SCHEMA_VERSION,
        "task": "classification" if classes else "regression",
        "feature_names": [f"x{index}" for index in range(fitted["n_features_in_"])],
        "target_names": ["y"] if len(means) < 2 else [f"y{index}" for index in range(len(means))],
        "categories": {},
        "dropped": [],
        "feature_mean": fitted["input_mean_"],
        "feature_sd": fitted["input_sd_"],
        "target_mean": means,
        "target_sd": fitted.get("target_sd_", []),
        "classes": list(range(len(classes))),
        "scaling": PER_COLUMN_SCALING,
    }


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
