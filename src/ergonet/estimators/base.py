"""Base class of both estimators: scaling, sampling, saving."""

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

from ergonet._errors import SamplingWarning
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.rules import read_table
from ergonet.assembly.settings import ModelSettings, NetworkSettings, RunSettings
from ergonet.datasets.learning import learn, unscaled
from ergonet.diagnostics.advice import advise
from ergonet.estimators import saving
from ergonet.estimators.parameters import parameter, parameter_of
from ergonet.inference.registry import WARM_STARTS
from ergonet.inference.run import sample
from ergonet.models.registry import LIKELIHOODS, PRIORS
from ergonet.prediction.predictive import Prediction, predict
from ergonet.samplers.registry import KERNELS

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
    start: Any = parameter(
        None,
        f"None: chains start from draws of the prior; a name: {WARM_STARTS.listed()}; a table of `name` and settings; "
        f"or an `ergonet.WarmStart`, the `warm_start` of `ergonet.sample`. In scikit-learn, `warm_start` is something "
        f"else: going on from the previous fit.",
    )
    time_limit: float | Any = parameter(
        None,
        "Seconds after which `fit` stops and keeps the draws that every chain has, with a warning; None: no limit. "
        "Compilation counts, but cannot be interrupted.",
    )
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
        self._fitted_settings, self._num_train = self.model_settings(), len(x)
        self.model_ = build.model(self._fitted_settings, Task.of(self.preprocessing_))
        posterior = self.model_.condition(self._scaled(x), targets)
        seed = check_random_state(self.random_state).randint(SEEDS)
        self.samples_ = sample(
            posterior,
            build.kernel(self._fitted_settings),
            num_chains=self.num_chains,
            num_warmup=self.num_warmup,
            num_draws=self.num_draws,
            thin=self.thin,
            warm_start=self.start,
            seed=int(seed),
            devices=self.devices,
            progress=self.progress,
            time_limit=self.time_limit,
        )
        self.diagnostics_ = self.samples_.diagnostics()
        self._warn()

    def model_settings(self) -> ModelSettings:
        """The settings of the model and the sampler, from the parameters."""
        chosen = {one: getattr(self, one) for one in ("hidden", "activation", "bias")}
        network = NetworkSettings(**read_table(NetworkSettings, chosen, lambda name: f"`{name}`"))
        likelihood = self.likelihood
        if isinstance(likelihood, str | Mapping):
            named = {"name": likelihood} if isinstance(likelihood, str) else likelihood
            likelihood = {**named, "units": build.SCALED}
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
        sentences, stopped = advise(metrics), self.samples_.about.get("stopped_by")
        if stopped:
            count = self.samples_.num_draws
            sentences = [f"Stopped by {stopped}: {count} of {self.num_draws} draws of each chain.", *sentences]
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
        """Write the fitted estimator as a run directory of TOML, JSON and Zarr; no pickle.

        `ergonet predict`, `diagnose` and `verify` take it as they take that of `ergonet fit`.

        Args:
            path: the folder to create.
            overwrite: replace a folder that has nothing but such a run, once the new one is complete.

        Raises:
            CapabilityError: a parameter is an object that cannot be written as text; give it by name.
            RunDirectoryError: the folder exists, contains files that Ergonet did not write, or has another writer.
        """
        check_is_fitted(self, "samples_")
        saving.save(self, Path(path), overwrite=overwrite)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Load a fitted estimator from a folder written by `save`, or from a run directory of `ergonet fit`.

        The draws are read when they are used. They have no target: `samples_` has positions and statistics.

        Raises:
            RunDirectoryError: the folder is none of these, is damaged, or contains another estimator or version.
        """
        return saving.read(cls, Path(path))

    def __getstate__(self) -> Any:
        return saving.state_of(self) if hasattr(self, "samples_") else super().__getstate__()

    def __setstate__(self, state: Any) -> None:
        if "format_version" in state:
            saving.restore(self, state)
        else:
            super().__setstate__(state)

    def parts(self) -> saving.Parts:
        """What was fitted, for `save` and pickle."""
        fitted = {"n_features_in_": int(self.n_features_in_), "num_train": self._num_train} | self._own()
        if hasattr(self, "feature_names_in_"):
            fitted["feature_names_in_"] = list(self.feature_names_in_)
        return saving.Parts(self._fitted_settings, self.preprocessing_, self.samples_, self.diagnostics_, fitted)

    def restore_parts(self, parts: saving.Parts) -> None:
        """Restore what was fitted."""
        self.n_features_in_, self._num_train = parts.fitted["n_features_in_"], parts.fitted.get("num_train", 0)
        if "feature_names_in_" in parts.fitted:
            self.feature_names_in_ = np.array(parts.fitted["feature_names_in_"], dtype=object)
        self.preprocessing_, self._fitted_settings = parts.preprocessing, parts.settings
        self.model_ = build.model(parts.settings, Task.of(parts.preprocessing))
        self.diagnostics_, self.samples_ = dict(parts.diagnostics), parts.samples

    def _own(self) -> dict[str, Any]:
        """Fitted attributes that only this kind of estimator has."""
        return {}
