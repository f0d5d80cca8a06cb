"""A Bayesian neural network regressor with the scikit-learn interface."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ergonet._errors import SettingError
from ergonet.assembly import build
from ergonet.assembly.build import Task
from ergonet.assembly.rules import above_zero
from ergonet.assembly.settings import ModelSettings
from ergonet.draws.samples import Samples
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.estimators.parameters import documented, parameter
from ergonet.prediction.predictive import sample_predictive


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianRegressor(MultiOutputMixin, RegressorMixin, BayesianEstimator):
    """Regression with a Bayesian neural network.

    Parameters:
        {parameters}

    Attributes:
        samples_: the draws, in scaled units.
        diagnostics_: R-hat and effective sample sizes of predictions, divergences, E-BFMI.
        model_: the network with its prior and likelihood.
        n_features_in_, feature_names_in_: as in other scikit-learn estimators.
    """

    noise: float | Any | None = parameter(
        None, "Known noise standard deviation in the units of y, above 0; None: learned."
    )

    def fit(self, X: Any, y: Any) -> "BayesianRegressor":
        """Sample the posterior given X `[rows, features]` and y `[rows]` or `[rows, targets]`.

        Raises:
            SettingError: a parameter is out of range.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        x, target = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        target = np.asarray(target, np.float64)
        self._is_flat = target.ndim == 1
        target = target[:, None] if self._is_flat else target
        sd = target.std(axis=0)
        self.target_mean_ = target.mean(axis=0) if self.standardize else np.zeros(target.shape[1])
        self.target_sd_ = np.where(sd > 0, sd, 1.0) if self.standardize else np.ones(target.shape[1])
        self._fit_network(np.asarray(x), ((target - self.target_mean_) / self.target_sd_).astype(np.float32))
        return self

    def _task(self) -> Task:
        sd = tuple(self.target_sd_.tolist())
        return Task("regression", self.n_features_in_, len(sd), sd)

    def _settings(self) -> ModelSettings:
        settings = super()._settings()
        if self.noise is None:
            return settings
        if self.likelihood is not None:
            raise SettingError("`noise` is for the default Gaussian likelihood; pass it to your `likelihood` instead.")
        noise = above_zero("a standard deviation").check(self.noise, "`noise`")
        return replace(settings, likelihood={"noise": noise})

    def _restored(self, scaled: np.ndarray | None, *, shift: bool) -> np.ndarray:
        """Convert scaled values `[..., rows, targets]` to the units of y, without the target axis if y had none."""
        values = np.asarray(scaled) * self.target_sd_ + (self.target_mean_ if shift else 0.0)
        return values[..., 0] if self._is_flat else values

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: FBT001, FBT002  scikit-learn's signature
        """Predictive mean `[rows]` or `[rows, targets]`; with `return_std` also the total standard deviation."""
        prediction = self._predict(X)
        mean = self._restored(prediction.mean, shift=True)
        return (mean, self._restored(prediction.sd, shift=False)) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Central predictive interval: lower and upper end on the last axis, `[rows, 2]` or `[rows, targets, 2]`.

        Args:
            X: rows to predict.
            level: probability of the interval, in (0, 1).
        """
        if not 0 < level < 1:
            raise SettingError(f"`level` must lie strictly between 0 and 1, got {level!r}.")
        prediction = self._predict(X, levels=(0.5 - level / 2, 0.5 + level / 2))
        return np.stack([self._restored(q, shift=True) for q in np.asarray(prediction.quantiles)], axis=-1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws of y for each row, `[rows, samples]` or `[rows, targets, samples]`."""
        seed = int(check_random_state(random_state).randint(SEEDS))
        inputs = self._inputs(X)
        draws = sample_predictive(self.samples_, inputs, num_samples=n_samples, seed=seed, model=self.model_)
        return np.moveaxis(self._restored(draws, shift=True), 0, -1)

    def _fitted_json(self) -> dict[str, Any]:
        scale = {"target_mean_": self.target_mean_.tolist(), "target_sd_": self.target_sd_.tolist()}
        return super()._fitted_json() | scale | {"is_flat": self._is_flat}

    def _restore(self, fitted: dict[str, Any], samples: Samples) -> None:
        super()._restore(fitted, samples)
        self.target_mean_, self.target_sd_ = np.array(fitted["target_mean_"]), np.array(fitted["target_sd_"])
        self._is_flat = fitted["is_flat"]
        self.model_ = build.model(self._settings(), self._task())
