"""Base class of the estimators: scaling, sampling, saving."""

import copy
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ergonet import _notebook
from ergonet._errors import CapabilityError, SamplingWarning, TimeLimitError
from ergonet.assembly import build, planning, temperature
from ergonet.assembly.build import Task
from ergonet.assembly.default import LOG_BEYOND, Table
from ergonet.assembly.likelihoods import target_scaling, with_unit
from ergonet.assembly.rules import read_table
from ergonet.assembly.settings import DataSettings, ModelSettings, NetworkSettings, RunSettings, Settings
from ergonet.baselines.fallback import fall_back
from ergonet.baselines.forecast import Rows
from ergonet.datasets.frames import as_frame_or_array
from ergonet.datasets.learning import learn, unscaled
from ergonet.estimators import keeping, saving, updating, warning
from ergonet.estimators.parameters import parameter, parameter_of
from ergonet.estimators.validating import naming_entries
from ergonet.estimators.weights import weighted_rows
from ergonet.inference.compiled import keep_compiled_programs
from ergonet.inference.progress import choose_progress
from ergonet.inference.registry import WARM_STARTS
from ergonet.inference.run import sample
from ergonet.inference.until import Until
from ergonet.inference.validation import validate_numbers
from ergonet.models.registry import LIKELIHOODS, PRIORS
from ergonet.prediction.predictive import Prediction, Predictor
from ergonet.prediction.units import UnitsPredictor
from ergonet.runs.facts import facts
from ergonet.samplers.base import AbstractKernel
from ergonet.samplers.registry import KERNELS

SEEDS = 2**31 - 1


@dataclass(kw_only=True, eq=False, repr=False)
class BayesianEstimator(BaseEstimator):
    """Base of the classifier and the regressors; fitted attributes are described there.

    scikit-learn may set a parameter to any value, hence `| Any`; `fit` validates the parameters.
    """

    task: ClassVar[str]

    hidden: Any = parameter_of(NetworkSettings, "hidden")
    activation: str | Any = parameter_of(NetworkSettings, "activation")
    bias: bool | Any = parameter_of(NetworkSettings, "bias")
    direct: bool | Any = parameter_of(NetworkSettings, "direct")
    prior: Any = parameter(
        None,
        f"None: that of the default network; with `hidden`, N(0, 1 / fan_in) for weights and N(0, 1) for biases, with "
        f"output weights 4 times as wide for a classifier and 2 times for a regressor; a name: {PRIORS.listed()}; a "
        f"table such as `{{'name': "
        f"'normal-gamma', "
        f"'parametrization': 'centered'}}`; a prior; or a mapping of leaf patterns (`layers.0.weight`, `*.bias`) to "
        f"any of these.",
    )
    likelihood: Any = parameter(
        None,
        f"None: Student-t with noise per row for a regressor, negative binomial for counts, Bernoulli for two classes, "
        f"else categorical; a name: {LIKELIHOODS.listed()}; a table of `name` and settings; or a likelihood. A "
        f"regressor's is in scaled units; targets are scaled as its values allow.",
    )
    kernel: Any = parameter(
        None,
        f"None: chosen from the data; a name: {KERNELS.listed()}; settings such as `{{'name': 'hmc', 'num_steps': "
        f"32}}`; or a kernel. With a kernel, nothing else of the run is chosen from the data: 4 chains of 500 and 500 "
        f"transitions without a warm start, unless they are set. Only for hierarchical priors: "
        f"{KERNELS.listed('hyperparameters')}.",
    )
    num_chains: int | Any = parameter_of(RunSettings, "num_chains")
    num_warmup: int | Any = parameter_of(RunSettings, "num_warmup")
    num_draws: int | Any = parameter_of(RunSettings, "num_draws")
    thin: int | Any = parameter_of(RunSettings, "thin")
    start: Any = parameter(
        None,
        f"None: chosen from the data; `none`: chains start from draws of the prior; a name: {WARM_STARTS.listed()}; a "
        f"table of `name` and settings; "
        f"or an `ergonet.WarmStart`, the `warm_start` of `ergonet.sample`. In scikit-learn, `warm_start` is something "
        f"else: going on from the previous fit.",
    )
    until: Any = parameter(
        None,
        "An `ergonet.Until`, such as `Until(ess=400, rhat=1.01)`, or a table of its settings: `fit` stops once the "
        "predictions, or the score, of training rows are known so well. `num_draws` is then the most, by default ten "
        "times as many as else. None: no rule, or that of the default kernel with one hidden layer, if `num_draws` is "
        "left open, too.",
    )
    time_limit: float | Any = parameter(
        None,
        "Seconds after which `fit` stops and keeps the draws that every chain has, with a warning; None: no limit. "
        "Compilation counts. If all counts and `start` are left as they are, a short probe chooses chains, warm-up and "
        "draws that fit. Without a draw of every chain, predictions are those of the networks that `start` has "
        "found, or else of ridge, logistic or Poisson regression; the warning and `samples_.about['fallback']` say "
        "which.",
    )
    standardize: bool | Any = parameter(
        True, "Scale inputs, and targets of a regressor, to mean 0 and sd 1 on the training rows."
    )
    log_beyond: float | Any = parameter_of(DataSettings, "log_beyond")
    devices: Any = parameter(None, "Worker threads or JAX devices; None: all.")
    progress: bool | Any = parameter(False, "Whether to show progress.")
    random_state: Any = parameter(None, "None, an integer, or a NumPy `RandomState`.")

    def _fit_network(
        self, x: np.ndarray, target: np.ndarray, *, target_names: tuple[str, ...], weights: np.ndarray | None = None
    ) -> None:
        """Learn the scaling, sample the posterior, and warn about problems."""
        began = time.perf_counter()
        keep_compiled_programs()
        features = {name: x[:, index] for index, name in enumerate(self._columns(x.shape[1]))}
        settings = self.model_settings()
        scaling = unscaled
        if self.standardize:
            scaling = partial(learn, target_scaling=target_scaling(settings.likelihood, self.task))
        self.preprocessing_ = scaling(
            features, target, task=self.task, target_names=target_names, target_transform=self._transform()
        )
        if self.standardize:
            given = read_table(DataSettings, {"log_beyond": self.log_beyond}, lambda name: f"`{name}`")["log_beyond"]
            usual = LOG_BEYOND.get(self.task) if self.hidden is None else None
            self.preprocessing_ = replace(self.preprocessing_, log_beyond=(usual if given is None else given) or None)
        targets = self.preprocessing_.transform_target(target, argument="`y`")
        chosen = build.choose(
            Settings(**vars(settings), run=self._run_settings()), Table.of(self.preprocessing_, targets)
        )
        self._fitted_settings = replace(chosen, likelihood=with_unit(chosen.likelihood, self.task, targets))
        self._num_train, self._rows = len(x), updating.TrainingRows(self._scaled(x), targets, weights)
        self.model_ = build.model(self._fitted_settings, Task.of(self.preprocessing_))
        posterior = self._rows.condition(self.model_)
        seed = int(check_random_state(self.random_state).randint(SEEDS))
        validate_numbers(**planning.counts(self._fitted_settings.run), seed=seed, time_limit=self.time_limit)
        kernel = build.kernel(self._fitted_settings)
        posterior = self._calibrated(posterior, targets, kernel, seed=seed, began=began)
        run = self._planned(posterior, kernel, seed=seed, began=began)
        self._fitted_settings = replace(self._fitted_settings, run=run)
        try:
            samples = sample(
                posterior,
                kernel,
                **planning.counts(run),
                warm_start=run.warm_start,
                seed=seed,
                devices=self.devices,
                progress=self.progress,
                time_limit=self._left(began),
                until=Until.of(run.until if self.until is None else self.until),
            )
        except TimeLimitError as error:
            self._fall_back(error, targets, weights, seed=seed)
            return
        self.use(samples)
        self.diagnostics_ = self.samples_.diagnostics()
        warning.warn_of(samples, self.diagnostics_, dim=self.model_.dim, wanted=run.num_draws)

    def _left(self, began: float) -> float | None:
        """Seconds left of the time limit; None without one."""
        return None if self.time_limit is None else max(self.time_limit - (time.perf_counter() - began), 1e-3)

    def _planned(self, posterior: Any, kernel: Any, *, seed: int, began: float) -> RunSettings:
        """Chains and lengths: as given, or what fits in a time limit if all are left as they are by default."""
        run, left = self._fitted_settings.run, self._left(began)
        is_open = (
            self.start is None
            and self.until is None
            and all(getattr(self, name) == getattr(RunSettings, name) for name in planning.COUNTS)
        )
        if left is None or not (is_open and isinstance(kernel, AbstractKernel)):
            return run
        until = time.perf_counter() + left
        limited = replace(run, time_limit=self.time_limit, seed=seed, devices=self.devices)
        chosen, said = planning.planned(replace(self._fitted_settings, run=limited), posterior, kernel, until=until)
        choose_progress(self.progress).say(said)
        return chosen.run

    def _calibrated(self, posterior: Any, targets: np.ndarray, kernel: Any, *, seed: int, began: float) -> Any:
        """The posterior, with the temperature of class probabilities if that is to be found."""
        seeded = replace(self._fitted_settings.run, seed=seed)
        settings, said = temperature.settled(
            replace(self._fitted_settings, run=seeded),
            posterior,
            targets,
            kernel,
            seconds=self._left(began),
        )
        if not said:
            return posterior
        choose_progress(self.progress).say(said)
        self._fitted_settings = replace(self._fitted_settings, likelihood=settings.likelihood)
        self.model_ = build.model(self._fitted_settings, Task.of(self.preprocessing_))
        return self._rows.condition(self.model_)

    def _fall_back(self, error: TimeLimitError, targets: Any, weights: Any, *, seed: int) -> None:
        """Predict without draws: from the chains after a warm start, or as a linear baseline."""
        classes, is_of_counts = len(self.preprocessing_.classes), self.task == "count"
        found = fall_back(error, Rows(self._rows.x, targets, classes, weights, is_of_counts=is_of_counts), seed=seed)
        self._fitted_settings = found.settings(self._fitted_settings)
        self.model_ = build.model(self._fitted_settings, Task.of(self.preprocessing_))
        self.use(found.samples)
        self.diagnostics_ = {}
        warnings.warn(f"{found.statement} {error}", SamplingWarning, stacklevel=4)

    def model_settings(self) -> ModelSettings:
        """The settings of the model and the sampler, from the parameters."""
        chosen = {one: getattr(self, one) for one in ("hidden", "activation", "bias", "direct")}
        network = NetworkSettings(**read_table(NetworkSettings, chosen, lambda name: f"`{name}`"))
        likelihood = self.likelihood
        if isinstance(likelihood, str | Mapping):
            named = {"name": likelihood} if isinstance(likelihood, str) else likelihood
            likelihood = {**named, "units": build.SCALED}
        return ModelSettings(network=network, prior=self.prior, likelihood=likelihood, kernel=self.kernel)

    def _transform(self) -> Any:
        """The transform of the targets; None: there is none."""
        return None

    def _run_settings(self) -> RunSettings:
        """Chains and lengths as they were given; `fit` checks them."""
        rule = Until.of(self.until)
        given = {} if rule is None else {f"until_{name}": value for name, value in rule.settings.items()}
        return RunSettings(**planning.counts(self), **given, warm_start=self.start)

    def _columns(self, count: int) -> list[str]:
        """Names of the columns of X; numbers if it has none."""
        names = [str(name) for name in getattr(self, "feature_names_in_", ())]
        return names or [f"x{index}" for index in range(count)]

    def _scaled(self, x: np.ndarray) -> np.ndarray:
        return self.preprocessing_.transform(x, argument="`X`")

    def scaled_inputs(self, X: Any) -> np.ndarray:
        """Validate and scale the inputs of new rows."""
        check_is_fitted(self, "samples_")
        with naming_entries(("X", X)):
            x = validate_data(self, as_frame_or_array(X), reset=False, dtype=np.float64)
        return self._scaled(np.asarray(x))

    def _predict(self, X: Any, *, levels: tuple[float, ...] = ()) -> Prediction:
        predictor = UnitsPredictor(self.predictor(), self.preprocessing_)
        return predictor.predict(self.scaled_inputs(X), levels=levels)

    def _update(self, X: Any, target: Any, sample_weight: Any) -> None:
        """Update with rows whose targets are as `preprocessing_.transform_target` takes them."""
        if getattr(self, "_rows", None) is None:
            raise CapabilityError(
                f"`update` needs the rows that this {type(self).__name__} was fitted to, which files and pickles do "
                f"not have. Update it in the process that fitted it, or fit again with all rows."
            )
        x, target, weights = weighted_rows(np.asarray(X), np.asarray(target), sample_weight, fewest=1)
        inputs, targets = self._scaled(x), self.preprocessing_.transform_target(target, argument="`y`")
        seed = int(check_random_state(self.random_state).randint(SEEDS))
        old, new = self._rows, updating.TrainingRows(inputs, targets, weights)
        settings = self._fitted_settings
        run = replace(settings.run, thin=self.thin)
        fit = updating.Fit(self.model_, build.kernel(settings), run, self.samples_, self.devices, self.progress)
        self.use(updating.updated(fit, old, new, seed=seed))
        self._rows = old.with_new(new)
        self._num_train, self.update_ = len(self._rows.x), self.samples_.about["update"]
        self.diagnostics_ = self.samples_.diagnostics()

    def use(self, samples: Any) -> None:
        """Predict with other draws from now on."""
        self.samples_, self._ready = samples, Predictor(samples, self.model_)

    def predictor(self) -> Predictor:
        """The draws, ready for predictions of scaled inputs; they are read once, when it first predicts."""
        check_is_fitted(self, "samples_")
        return self._ready if self._ready.samples is self.samples_ else Predictor(self.samples_, self.model_)

    def compress(self, k: int | Any, X: Any = None) -> Any:
        """A copy of the estimator with k weighted networks that keep the predictive mean and variance of rows.

        `print` it to see the measured loss, which is also `samples_.about["compressed"]`.

        Args:
            k: number of networks, at least 1.
            X: the rows `[rows, features]`; None: the training rows, which an estimator has unless it was loaded.

        Raises:
            CapabilityError: X is None, and the estimator was loaded.
            SettingError: k is out of its range.
        """
        check_is_fitted(self, "samples_")
        return keeping.compressed(self, k, X)

    def export_onnx(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write all networks with the scaling as one ONNX graph; needs the package `onnx`.

        Its input is `x`, Float64 `[rows, features]`. Its outputs are `mean` and `sd`, in the units of y, or
        `probabilities` and `sd`, their standard deviation over networks. They are those of the estimator within
        rounding in single precision.

        Raises:
            CapabilityError: `onnx` is not installed, or the network or the likelihood has no counterpart in a graph.
            RunDirectoryError: the file exists, and `overwrite` is not set.
        """
        check_is_fitted(self, "samples_")
        return keeping.exported(self, Path(path), overwrite=overwrite)

    def __str__(self) -> str:
        if not hasattr(self, "samples_"):
            return super().__str__()
        parts = self.parts()
        found = facts(parts.settings, parts.preprocessing, self.model_, parts.samples)
        return _notebook.printed(type(self).__name__, found)

    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, precision: str | Any = None, X: Any = None
    ) -> Path:
        """Write the fitted estimator as a run directory of TOML, JSON and Zarr; no pickle.

        `ergonet predict`, `diagnose` and `verify` take it as they take that of `ergonet fit`.

        Args:
            path: the folder to create.
            overwrite: replace a folder that has nothing but such a run, once the new one is complete.
            precision: "float16" rounds the draws, for half the size; `print` of the loaded estimator states what that
                changes, measured on X. None: all digits.
            X: rows for that measurement; None: the training rows, which an estimator has unless it was loaded.

        Raises:
            CapabilityError: a parameter is an object that cannot be written as text; give it by name. Or X is None, and
                the estimator was loaded.
            RunDirectoryError: the folder exists, contains files that Ergonet did not write, or has another writer.
            SettingError: `precision` is something else, or a draw is too large for it.
        """
        check_is_fitted(self, "samples_")
        saving.save(self, Path(path), overwrite=overwrite, samples=keeping.stored(self, precision, X))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Load a fitted estimator from a folder written by `save`, or from a run directory of `ergonet fit`.

        The draws are read when they are used. They have no target: `samples_` has positions and statistics.

        Raises:
            RunDirectoryError: the folder is none of these, is damaged, or contains another estimator or version.
        """
        return saving.read(cls, Path(path))

    def __copy__(self) -> Any:
        found = type(self).__new__(type(self))
        vars(found).update(vars(self))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        shared = [vars(self).get(name) for name in ("samples_", "model_", "_ready", "_rows")]  # which nothing changes
        memo |= {id(one): one for one in shared}
        found = memo[id(self)] = copy.copy(self)
        vars(found).update(copy.deepcopy(vars(self), memo))
        return found

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
        self.diagnostics_ = dict(parts.diagnostics)
        self.use(parts.samples)

    def _own(self) -> dict[str, Any]:
        """Fitted attributes that only this kind of estimator has."""
        return {}
