"""Bayesian neural network regressors with the scikit-learn interface, of real targets and of counts."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ergonet._errors import SettingError
from ergonet.assembly.rules import above_zero
from ergonet.assembly.settings import ModelSettings
from ergonet.datasets.frames import as_frame_or_array
from ergonet.datasets.registry import TARGET_TRANSFORMS, transform_named
from ergonet.datasets.validation import check_counts
from ergonet.estimators.base import SEEDS, BayesianEstimator
from ergonet.estimators.parameters import documented, parameter
from ergonet.estimators.saving import Parts
from ergonet.estimators.validating import naming_entries
from ergonet.estimators.weights import weighted_rows
from ergonet.prediction.predictive import FINEST, sample_predictive


@dataclass(kw_only=True, eq=False, repr=False)
class AbstractRegressor(MultiOutputMixin, RegressorMixin, BayesianEstimator):
    """Base of the regressors: predictions of numbers."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Sample the posterior given X `[rows, features]` and y `[rows]` or `[rows, targets]`.

        The likelihood of a row is raised to its weight, `sample_weight` `[rows]`; rows of weight 0 are left out.

        Raises:
            SettingError: a parameter is out of range.
            DataError: y or every column of X is constant, or a value is too large for float32.
            ValueError: the data are not finite, empty, or of different lengths.
        """
        with naming_entries(("X", X), ("y", y)):
            x, target = validate_data(
                self, as_frame_or_array(X), y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2
            )
        x, target, weights = weighted_rows(x, np.asarray(target, np.float64), sample_weight)
        self._is_flat = target.ndim == 1
        target = target[:, None] if self._is_flat else target
        self._check_target(target)
        names = ("y",) if target.shape[1] == 1 else tuple(f"y{index}" for index in range(target.shape[1]))
        self._fit_network(x, target, target_names=names, weights=weights)
        return self

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Take new rows into account without starting over: fitted draws become draws of the posterior of all rows.

        The draws are weighted by the likelihood of the new rows, resampled and moved by the kernel, through tempered
        posteriors if fewer than half of them would count (sequential Monte Carlo: Chopin2002,
        DelMoralDoucetJasra2006). Where that is not possible, chains are run again from the old draws, with a warning.
        `update_` says which it was: `method` is `moved` or `sampled`. Scaling stays as it was learned by `fit`.

        Args:
            X: new rows `[rows, features]`, at least one.
            y: their targets.
            sample_weight: their weights; None: 1.

        Returns:
            The estimator itself.

        Raises:
            CapabilityError: the estimator was loaded, without its rows, or `time_limit` left a linear model.
            DataError: a value cannot be used.
        """
        check_is_fitted(self, "samples_")
        with naming_entries(("X", X), ("y", y)):
            x, target = validate_data(
                self, as_frame_or_array(X), y, reset=False, dtype=np.float64, multi_output=True, y_numeric=True
            )
        self._update(x, np.asarray(target, np.float64), sample_weight)
        return self

    def _check_target(self, target: np.ndarray) -> None:
        """Raise `DataError` if the values `[rows, targets]` are not those of this kind of regression."""

    def _shaped(self, values: Any) -> np.ndarray:
        """Values `[..., rows, targets]` without the target axis if y had none."""
        return np.asarray(values)[..., 0] if self._is_flat else np.asarray(values)

    def predict(self, X: Any, return_std: bool = False) -> Any:  # noqa: FBT001, FBT002  scikit-learn's signature
        """Predictive mean `[rows]` or `[rows, targets]`; with `return_std` also the total standard deviation."""
        prediction = self._predict(X)
        mean = self._shaped(prediction.mean)
        return (mean, self._shaped(prediction.sd)) if return_std else mean

    def predict_interval(self, X: Any, level: float = 0.9) -> np.ndarray:
        """Central predictive interval: lower and upper end on the last axis, `[rows, 2]` or `[rows, targets, 2]`.

        Args:
            X: rows to predict.
            level: probability of the interval, in (0, 1); at most 1 - 2e-6, as its ends are in single precision.
        """
        if not 0 < level < 1:
            raise SettingError(f"`level` must lie strictly between 0 and 1, got {level!r}.")
        if level > 1 - 2 * FINEST:
            raise SettingError(f"`level` must be at most 1 - {2 * FINEST:g} in single precision, got {level!r}.")
        prediction = self._predict(X, levels=(0.5 - level / 2, 0.5 + level / 2))
        return np.stack([self._shaped(one) for one in np.asarray(prediction.quantiles)], axis=-1)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Draws of y for each row, `[rows, samples]` or `[rows, targets, samples]`."""
        seed = int(check_random_state(random_state).randint(SEEDS))
        inputs = self.scaled_inputs(X)
        draws = sample_predictive(self.samples_, inputs, num_samples=n_samples, seed=seed, model=self.model_)
        return np.moveaxis(self._shaped(self.preprocessing_.inverse_target(draws)), 0, -1)

    def _own(self) -> dict[str, Any]:
        return {"is_flat": self._is_flat}

    def restore_parts(self, parts: Parts) -> None:
        super().restore_parts(parts)
        self._is_flat = parts.fitted["is_flat"]


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianRegressor(AbstractRegressor):
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

    task: ClassVar[str] = "regression"
    noise: float | Any | None = parameter(
        None, "Known noise standard deviation in the units of y, transformed if it is, above 0; None: learned."
    )
    target_transform: Any = parameter(
        None,
        f"None; a monotone transform that the network learns y by, with normal noise: {TARGET_TRANSFORMS.listed()}; or "
        f"one of your own, `ergonet.datasets.transforms.FromFunctions`. Means, standard deviations and intervals are "
        f"those of y itself, without the bias of transforming a mean back.",
    )

    def _transform(self) -> Any:
        return transform_named(self.target_transform)

    def model_settings(self) -> ModelSettings:
        settings = super().model_settings()
        if self.noise is None:
            return settings
        if self.likelihood is not None:
            raise SettingError("`noise` is for the default Gaussian likelihood; pass it to your `likelihood` instead.")
        noise = above_zero("a standard deviation").check(self.noise, "`noise`")
        return replace(settings, likelihood={"noise": noise})


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class BayesianCountRegressor(AbstractRegressor):
    """Regression of counts with a Bayesian neural network; y is never scaled.

    Parameters:
        {parameters}

    Attributes:
        samples_: the draws.
        diagnostics_: R-hat and effective sample sizes of predictions, divergences, E-BFMI.
        model_: the network with its prior and likelihood.
        preprocessing_: the scaling of X, learned from the training rows; constant columns of X are left out.
        n_features_in_, feature_names_in_: as in other scikit-learn estimators.
    """

    task: ClassVar[str] = "count"

    def _check_target(self, target: np.ndarray) -> None:
        names = [f"y{column}" if target.shape[1] > 1 else "y" for column in range(target.shape[1])]
        check_counts(target, argument="`y`", names=names)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the fraction of the Poisson deviance of y that the predicted means explain; 1 is best.

        With several targets, their average.
        """
        columns = (np.reshape(values, (len(values), -1)).T for values in (np.asarray(y), self.predict(X)))
        scores = [d2_tweedie_score(*pair, sample_weight=sample_weight, power=1) for pair in zip(*columns, strict=True)]
        return float(np.mean(scores))
