"""Linear baselines of a table: ridge, logistic and Poisson regression, with a penalty that held-out rows choose."""

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergonet._types import Float
from ergonet.baselines.forecast import (
    CountForecast,
    Forecast,
    Rows,
    dispersion_of,
    held_out_log_loss,
    of_all_classes,
)

RIDGE_PENALTIES = tuple(10.0 ** (step / 2) for step in range(-6, 13))
LOGISTIC_STRENGTHS = (1.0, 0.1, 0.01, 10.0)  # C, the inverse of the penalty; the first is scikit-learn's default
POISSON_PENALTIES = (1e-4, 1e-2, 1.0)
NUM_FOLDS = 3
_TINY = 1e-6


@dataclass(frozen=True)
class LinearBaseline:
    """A fitted linear baseline.

    Attributes:
        name: the method.
        says: how it was fitted, in words.
        num_train: number of training rows that it has seen.
        coefficients: `[output, feature]`, on the network's scale.
        intercepts: `[output]`.
        error_sd: standard deviation of the error of a new row `[target]`, on the network's scale; None: the outputs
            are logits of classes, or log means of counts.
        dispersion: of counts, whose variance is m + dispersion m^2 if their mean is m; None: there are none.
    """

    name: str
    says: str
    num_train: int
    coefficients: Float[np.ndarray, "outputs features"]
    intercepts: Float[np.ndarray, "outputs"]
    error_sd: Float[np.ndarray, "outputs"] | None
    dispersion: float | None = None

    def forecast(self, x: np.ndarray) -> Forecast | CountForecast:
        """The predictive distribution of each row of `x` `[rows, features]`."""
        outputs = np.asarray(x, np.float64) @ self.coefficients.T + self.intercepts
        if self.dispersion is not None:
            from ergonet.models.likelihoods.counts import LARGEST_LOG_MEAN  # with NumPyro

            return CountForecast(np.exp(np.clip(outputs, -LARGEST_LOG_MEAN, LARGEST_LOG_MEAN)), self.dispersion)
        if self.error_sd is not None:
            return Forecast(outputs, self.error_sd)
        powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return Forecast(powers / powers.sum(axis=1, keepdims=True), None)


def ridge(rows: Rows) -> LinearBaseline:
    """Ridge regression; its penalty, one for each target, and its error are those of leaving out one row at a time."""
    from sklearn.linear_model import RidgeCV

    model = RidgeCV(RIDGE_PENALTIES, store_cv_results=True, alpha_per_target=rows.y.shape[1] > 1)
    model.fit(rows.x, rows.y, sample_weight=rows.relative_weights)  # which the squares are multiplied by, too
    squares = np.asarray(model.cv_results_).reshape(len(rows.x), rows.y.shape[1], len(RIDGE_PENALTIES))
    chosen = np.searchsorted(RIDGE_PENALTIES, np.broadcast_to(model.alpha_, rows.y.shape[1]))
    error = squares.mean(axis=0)[np.arange(rows.y.shape[1]), chosen]
    return LinearBaseline(
        name="ridge regression",
        says="penalty and standard deviation of errors by leaving out one row at a time",
        num_train=len(rows.x),
        coefficients=np.reshape(model.coef_, (rows.y.shape[1], -1)),
        intercepts=np.broadcast_to(model.intercept_, rows.y.shape[1]),
        error_sd=np.maximum(np.sqrt(error), np.finfo(np.float32).eps),
    )


def logistic(rows: Rows, *, until: float) -> LinearBaseline:
    """Logistic regression; its penalty has the lowest log loss on three folds.

    Args:
        rows: the training rows.
        until: by `time.perf_counter`; no further penalty is tried after it.
    """
    losses: dict[float, float] = {}
    for strength in LOGISTIC_STRENGTHS:
        if losses and time.perf_counter() > until:
            break
        losses[strength] = held_out_log_loss(lambda part, c=strength: _logistic(part, c), rows, NUM_FOLDS)
    chosen = min(losses, key=lambda strength: losses[strength])
    return _logistic(rows, chosen)


def _logistic(rows: Rows, strength: float) -> LinearBaseline:
    from sklearn.linear_model import LogisticRegression

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the fit is scored as it is
        model: Any = LogisticRegression(C=strength, max_iter=200)
        model.fit(rows.x, rows.y, sample_weight=rows.relative_weights)
    coefficients, intercepts = model.coef_, model.intercept_
    if len(model.classes_) == 2:  # its one output is the logit of the second class
        coefficients, intercepts = (np.concatenate([np.zeros_like(one), one]) for one in (coefficients, intercepts))
    return LinearBaseline(
        name="logistic regression",
        says=f"penalty {1 / strength:g} by {NUM_FOLDS}-fold cross-validation",
        num_train=len(rows.x),
        coefficients=of_all_classes(coefficients, model.classes_, rows.num_classes, blank=0.0),
        intercepts=of_all_classes(intercepts, model.classes_, rows.num_classes, blank=-np.log(len(rows.x) + 1.0)),
        error_sd=None,
    )


def poisson(rows: Rows) -> LinearBaseline:
    """Poisson regression, with the dispersion of a negative binomial distribution from its errors on held-out folds.

    The dispersion is that by which the squared errors have the expected mean (a moment estimator).
    """
    from sklearn.linear_model import PoissonRegressor
    from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

    counts, given = rows.y[:, 0] + _TINY, {"sample_weight": rows.relative_weights}  # so that no fold has only zeros
    folds = KFold(min(NUM_FOLDS, len(rows.x)), shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the fit is taken as it is
        search: Any = GridSearchCV(PoissonRegressor(), {"alpha": POISSON_PENALTIES}, cv=folds)
        model = search.fit(rows.x, counts, **given).best_estimator_
        means = np.asarray(cross_val_predict(model, rows.x, counts, cv=folds, params=given), np.float64)
        excess = rows.mean((counts - means) ** 2 - means) / rows.mean(means**2)
    return LinearBaseline(
        name="Poisson regression",
        says=f"penalty {model.alpha:g} by {NUM_FOLDS}-fold cross-validation, dispersion by its errors",
        num_train=len(rows.x),
        coefficients=model.coef_[None],
        intercepts=np.atleast_1d(model.intercept_),
        error_sd=None,
        dispersion=dispersion_of(excess),
    )
