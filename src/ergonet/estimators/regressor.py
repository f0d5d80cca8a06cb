"""A Bayesian neural network regressor with the scikit-learn interface."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ergonet._errors import SettingError
from ergonet.assembly.rules import above_zero
from ergonet.assembly.settings import ModelSettings
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.estimators.parameters import documented, parameter
from ergonet.estimators.saving import Parts
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
        preprocessing_: the scaling of X and y, learned from the training rows; constant columns of X are left out.
        n_features_in_, feature_names_in_: as in other scikit-learn estimators.
    """

    noise: float | Any | None = parameter(
        None, "Known noise standard deviation in the units of y, above 0; None: learned."
    )

    def fit(self, X: Any, y: Any) -> "BayesianRegressor":
        """Sample the posterior given X `[rows, features]` and y `[rows]` or `[rows, targets]`.

        Raises:
            SettingError: a parameter is out of range.
            DataError: y or every column of X is constant, or a value is too large for float32.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        x, target = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        target = np.asarray(target, np.float64)
        self._is_flat = target.ndim == 1
        target = target[:, None] if self._is_flat else target
        names = ("y",) if target.shape[1] == 1 else tuple(f"y{index}" for index in range(target.shape[1]))
        self._fit_network(np.asarray(x), target, task="regression", target_names=names)
        return self

    def model_settings(self) -> ModelSettings:
        settings = super().model_settings()
        if self.noise is None:
            return settings
        if self.likelihood is not None:
            raise SettingError("`noise` is for the default Gaussian likelihood; pass it to your `likelihood` instead.")
        noise = above_zero("a standard deviation").check(self.noise, "`noise`")
        return replace(settings, likelihood={"noise": noise})

    def _in_units(self, scaled: np.ndarray | None) -> np.ndarray:
        """Convert scaled values `[..., rows, targets]` to the units of y, without the target axis if y had none."""
        values = self.preprocessing_.inverse_mean(scaled)
        return values[..., 0] if self._is_flat else values

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: FBT001, FBT002  scikit-learn's signature
        """Predictive mean `[rows]` or `[rows, targets]`; with `return_std` also the total standard deviation."""
        prediction = self._predict(X)
        mean, sd = self._in_units(prediction.mean), self.preprocessing_.inverse_sd(prediction.sd)
        return (mean, sd[..., 0] if self._is_flat else sd) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Central predictive interval: lower and upper end on the last axis, `[rows, 2]` or `[rows, targets, 2]`.

        Args:
            X: rows to predict.
            level: probability of the interval, in (0, 1).
        """
        if not 0 < level < 1:
            raise SettingError(f"`level` must lie strictly between 0 and 1, got {level!r}.")
        prediction = self._predict(X, levels=(0.5 - level / 2, 0.5 + level / 2))
        return np.stack([self._in_units(q) for q in np.asarray(prediction.quantiles)], axis=-1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws of y for each row, `[rows, samples]` or `[rows, targets, samples]`."""
        seed = int(check_random_state(random_state).randint(SEEDS))
        inputs = self._inputs(X)
        draws = sample_predictive(self.samples_, inputs, num_samples=n_samples, seed=seed, model=self.model_)
        return np.moveaxis(self._in_units(draws), 0, -1)

    def _own(self) -> dict[str, Any]:
        return {"is_flat": self._is_flat}

    def restore_parts(self, parts: Parts) -> None:
        super().restore_parts(parts)
        self._is_flat = parts.fitted["is_flat"]
