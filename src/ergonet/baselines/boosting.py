"""Gradient boosting of a table, with as many iterations as held-out rows choose and the time allows."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergonet._types import Float
from ergonet.baselines.forecast import (
    CountForecast,
    Forecast,
    LeftOutError,
    Rows,
    dispersion_of,
    of_all_classes,
)

MOST_ITERATIONS, FEWEST_ITERATIONS, MOST_FOLDS, MOST_TARGETS = 300, 10, 5, 5
FIRST_FOLD_SHARE = 0.4  # of the time
BOOSTING = "gradient boosting"  # its name


@dataclass(frozen=True)
class BoostedTrees:
    """Fitted boosting, one ensemble of trees for each target or one for all classes.

    Attributes:
        name: the method.
        says: how it was fitted, in words.
        num_train: number of training rows that it has seen.
        models: scikit-learn's models.
        error_sd: standard deviation of the error of a new row `[target]`; None for classes and counts.
        num_classes: number of classes; 0 for regression.
        dispersion: for counts, whose variance is m + dispersion m^2 if their mean is m; None for other targets.
    """

    name: str
    says: str
    num_train: int
    models: tuple[Any, ...]
    error_sd: Float[np.ndarray, "outputs"] | None
    num_classes: int
    dispersion: float | None = None

    def forecast(self, x: np.ndarray) -> Forecast | CountForecast:
        """The predictive distribution of each row of `x` `[rows, features]`."""
        if self.dispersion is not None:
            return CountForecast(self.models[0].predict(x)[:, None], self.dispersion)
        if self.error_sd is not None:
            return Forecast(np.stack([one.predict(x) for one in self.models], axis=1), self.error_sd)
        return Forecast(_probabilities(self.models[0].predict_proba(x), self.models[0], self.num_classes), None)


def boosting(rows: Rows, *, until: float) -> BoostedTrees:
    """Histogram gradient boosting with scikit-learn's settings, except the number of iterations.

    That is the one with the lowest loss on held-out rows of up to five folds: squared error, whose root is also the
    standard deviation of Gaussian errors, or log loss. For counts, the dispersion of a negative binomial
    distribution is the one that explains the squared error.

    Args:
        rows: the training rows.
        until: by `time.perf_counter`; iterations and folds that would not fit are left out.

    Raises:
        LeftOutError: there are too many targets, or one fold and ten iterations do not fit in the time.
    """
    if rows.num_classes:
        curve, folds = _curve(rows, until=until)
        model = _grown(rows, most=int(np.argmin(curve)) + 1, until=until)
        return BoostedTrees(BOOSTING, _said([model], folds), len(rows.x), (model,), None, rows.num_classes)
    targets = rows.y.shape[1]
    if targets > MOST_TARGETS:
        raise LeftOutError(f"there are {targets} targets, and it needs a model for each.")
    models, errors, fewest = [], [], MOST_FOLDS
    for target in range(targets):
        now = time.perf_counter()
        end = now + (until - now) / (targets - target)
        one = replace(rows, y=rows.y[:, target])
        curve, folds = _curve(one, until=end)
        models.append(_grown(one, most=int(np.argmin(curve)) + 1, until=end))
        errors.append(np.sqrt(curve.min()))
        fewest = min(fewest, folds)
    sd = np.maximum(errors, np.finfo(np.float32).eps)
    found = BoostedTrees(BOOSTING, _said(models, fewest), len(rows.x), tuple(models), sd, 0)
    return replace(found, error_sd=None, dispersion=_dispersion(rows, sd[0] ** 2)) if rows.is_of_counts else found


def _dispersion(rows: Rows, squared: float) -> float:
    """The dispersion of counts around means with this mean squared error."""
    mean, square = rows.mean(rows.y[:, 0]), rows.mean(rows.y[:, 0] ** 2)
    return dispersion_of((squared - mean) / max(square - squared, mean**2))  # by the mean square of these means


def _said(models: list[Any], folds: int) -> str:
    rounds = " and ".join(str(one.n_iter_) for one in models)
    return f"{rounds} iterations, chosen on {folds} held-out fold{'s' * (folds > 1)}"


def _curve(rows: Rows, *, until: float) -> tuple[np.ndarray, int]:
    """Mean loss of held-out rows after each iteration, and the number of folds that were used."""
    began = time.perf_counter()
    curves: list[np.ndarray] = []
    for rest, held in rows.folds(MOST_FOLDS):
        now = time.perf_counter()
        each = (now - began) / max(len(curves), 1)
        if curves and now + 2.5 * each > until:  # this fold, and the fit of all rows
            break
        if not len(held.x) or ((rows.num_classes or rows.is_of_counts) and len(np.unique(rest.y)) < 2):
            continue
        model = _grown(rest, most=MOST_ITERATIONS, until=now + FIRST_FOLD_SHARE * (until - now))
        curves.append(np.asarray([held.mean(loss) for loss in _losses(model, held)]))
    shortest = min(map(len, curves), default=0)
    if shortest < FEWEST_ITERATIONS or time.perf_counter() > until:
        raise LeftOutError("it takes longer than a baseline may.")
    return np.mean([one[:shortest] for one in curves], axis=0), len(curves)


def _losses(model: Any, held: Rows) -> Iterator[np.ndarray]:
    if held.num_classes:
        for raw in model.staged_predict_proba(held.x):
            yield -Forecast(_probabilities(raw, model, held.num_classes), None).log_density(held.y)
    else:
        for mean in model.staged_predict(held.x):
            yield (mean - held.y) ** 2


def _probabilities(raw: np.ndarray, model: Any, num_classes: int) -> np.ndarray:
    """Probabilities of all classes, also of those that do not occur in the training rows."""
    if len(model.classes_) == num_classes:
        return raw
    found = of_all_classes(raw.T, model.classes_, num_classes, blank=1e-3).T
    return found / found.sum(axis=1, keepdims=True)


def _grown(rows: Rows, *, most: int, until: float) -> Any:
    """A model with so many iterations, or as many as fit in the time; at least one."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    make: Any = HistGradientBoostingClassifier if rows.num_classes else HistGradientBoostingRegressor
    loss = {"loss": "poisson"} if rows.is_of_counts else {}
    model = make(max_iter=1, warm_start=True, early_stopping=False, random_state=0, **loss)
    first = _seconds_to_fit(model, rows)  # mostly for sorting the rows into bins, which every call does again
    more = 4
    while (done := int(model.n_iter_)) < most and more > 0:
        model.set_params(max_iter=min(most, done + more))
        took = _seconds_to_fit(model, rows)
        each = max(took - first, 0.05 * first, 1e-9) / (int(model.n_iter_) - done)
        left = until - time.perf_counter() - first
        more = int(min(left / 2 / each, most))  # half: later iterations may take longer
    return model


def _seconds_to_fit(model: Any, rows: Rows) -> float:
    began = time.perf_counter()
    model.fit(rows.x, rows.y, sample_weight=rows.relative_weights)
    return time.perf_counter() - began
