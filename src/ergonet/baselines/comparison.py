"""Does the network earn its place? Its scores beside those of simple methods, on the same rows.

The methods see the same training rows in the same preprocessing, and have a bounded time. Differences are paired by
test row, so their standard errors are those of the difference and not of either score.
"""

import math
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from scipy.special import bdtrc, ndtr, ndtri, stdtrit

from ergonet.baselines.boosting import BOOSTING, BoostedTrees, boosting
from ergonet.baselines.forecast import CountForecast, Forecast, LeftOutError, Rows, inputs_of
from ergonet.baselines.linear import LinearBaseline, logistic, poisson, ridge
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.validation import capital
from ergonet.diagnostics.finding import number
from ergonet.prediction.calibration import standard_error
from ergonet.prediction.pit import between, steps_of
from ergonet.prediction.scores import (
    COUNT_LEVELS,
    classification_scores,
    count_scores,
    regression_scores,
    transform_scores,
)

SECONDS = 8.0  # for all baselines of a fit without a time limit
LIMIT_SHARE = 0.05  # of a time limit
LINEAR_SHARE = 0.25  # of these seconds
LEAST_SECONDS = 0.5
MOST_WORK = 1e7  # rows times features times classes; above, some of the rows are used
WORK_WITHOUT_CLASSES = 4  # counts as so many classes
MOST_RIDGE_WORK = 2e9  # operations of a decomposition
CLEAR = 2.0  # standard errors of many rows; of few, the same two-sided level
SCALED_RMSE = "scaled_rmse"  # difference for several targets, in standard deviations of each
LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))


@dataclass(frozen=True)
class Baselines:
    """The baselines of a data set.

    Attributes:
        fitted: the methods.
        left_out: a sentence for each method that was not fitted.
    """

    fitted: tuple[LinearBaseline | BoostedTrees, ...] = ()
    left_out: tuple[str, ...] = ()


def seconds_for(time_limit: float | None, left: float | None) -> float:
    """The time that all baselines of a fit may take.

    Args:
        time_limit: of the fit; None: none.
        left: of this limit; None: the fit is not watched.
    """
    if time_limit is None:
        return SECONDS
    most = min(SECONDS, LIMIT_SHARE * time_limit)
    return most if left is None else min(most, left / 2)


def fit_baselines(dataset: Dataset, *, seconds: float) -> Baselines:
    """Fit ridge, logistic or Poisson regression and gradient boosting to the training rows.

    Args:
        dataset: the data set.
        seconds: for both; boosting does as much as fits, and is left out if that is too little.
    """
    for module in ("ensemble", "linear_model"):
        import_module(f"sklearn.{module}")  # not on the clock
    rows, began = Rows.of(dataset), time.perf_counter()
    if seconds < LEAST_SECONDS:
        return Baselines(left_out=("The baselines were left out: the time limit leaves no time for them.",))
    if rows.num_classes and len(np.unique(rows.y)) < 2:
        return Baselines(left_out=("The baselines were left out: the training rows have only one class.",))
    linear = "Poisson" if rows.is_of_counts else "logistic" if rows.num_classes else "ridge"
    methods: dict[str, Callable[..., Any]] = {f"{linear} regression": _linear, BOOSTING: _boosting}
    fitted: list[LinearBaseline | BoostedTrees] = []
    left_out: list[str] = []
    for name, fit in methods.items():
        with _failures_as_sentences(name, left_out):
            fitted.append(fit(rows, began=began, seconds=seconds))
    return Baselines(tuple(fitted), tuple(left_out))


def fit_linear(rows: Rows, *, seconds: float) -> LinearBaseline:
    """Fit ridge, logistic or Poisson regression alone, to as many rows as that takes a second or so.

    Args:
        rows: the training rows.
        seconds: for the choice of the penalty of a logistic regression.
    """
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return _linear(rows, began=time.perf_counter(), seconds=seconds / LINEAR_SHARE)


def _linear(rows: Rows, *, began: float, seconds: float) -> LinearBaseline:
    if rows.is_of_counts:
        return poisson(_affordable(rows))
    if rows.num_classes:
        return logistic(_affordable(rows), until=began + LINEAR_SHARE * seconds)
    return _ridge(rows)


def _ridge(rows: Rows) -> LinearBaseline:
    features = rows.x.shape[1]
    most = min(
        MOST_WORK / (WORK_WITHOUT_CLASSES * features),
        max(MOST_RIDGE_WORK / features**2, math.sqrt(MOST_RIDGE_WORK / features)),
    )
    return ridge(rows.at_most(most, seed=0))


def _boosting(rows: Rows, *, began: float, seconds: float) -> BoostedTrees:
    return boosting(_affordable(rows), until=began + seconds)


def _affordable(rows: Rows) -> Rows:
    return rows.at_most(MOST_WORK / (rows.x.shape[1] * (rows.num_classes or WORK_WITHOUT_CLASSES)), seed=0)


@contextmanager
def _failures_as_sentences(name: str, sentences: list[str]) -> Generator[None]:
    """On one thread, because small models gain nothing from threads, and on a busy machine lose much."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            yield
    except LeftOutError as error:
        sentences.append(f"{name.capitalize()} was left out: {error}")
    except Exception as error:  # noqa: BLE001  another method's failure must not cost a fit
        sentences.append(f"{name.capitalize()} failed: {type(error).__name__}: {' '.join(str(error).split())[:200]}")


def compare(baselines: Baselines, dataset: Dataset, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Score the baselines on the test rows, each with the difference of the network's scores from its own.

    Args:
        baselines: what `fit_baselines` returned.
        dataset: the data set that they were fitted to.
        arrays: the network's `probabilities`, or its `mean` and `log_density` `[rows]`, of the test rows, and their
            `truth`, in units of the data.

    Returns:
        `methods`, the entries of each; `left_out`, sentences; and `sentence`, whether the network earns its place,
        if there is a method.
    """
    methods: list[dict[str, Any]] = []
    left_out, scale = list(baselines.left_out), _scale_of(dataset)
    own = _rows_of(arrays, scale)
    for one in baselines.fitted:
        with _failures_as_sentences(one.name, left_out):
            scores, found = evaluated(one, dataset)
            rows = _rows_of(found, scale)
            entry = {"name": one.name, "says": one.says, "num_train": one.num_train}
            methods.append({**entry, "test": scores, "difference": _differences(own, rows)})
    content: dict[str, Any] = {"methods": methods, "left_out": left_out}
    return content | ({"sentence": verdict(methods, len(own.nll))} if methods else {})


@dataclass(frozen=True)
class _RowScores:
    """Scores of single test rows: `nll` in nats, and `loss`, misclassifications or squared errors, perhaps scaled."""

    nll: np.ndarray
    loss: np.ndarray
    is_squared: bool
    is_scaled: bool = False


def _scale_of(dataset: Dataset) -> np.ndarray | None:
    """Standard deviations of several targets, so that the unit of none decides about errors; else None."""
    if dataset.task == "classification" or dataset.y_train.shape[1] == 1:
        return None
    sd = dataset.preprocessing.inverse_target(dataset.y_train).std(axis=0)
    return np.where(sd > 0, sd, 1.0)


def _rows_of(arrays: Mapping[str, np.ndarray], scale: np.ndarray | None) -> _RowScores:
    truth = arrays["truth"]
    if "probabilities" in arrays:
        return _of_probabilities(Forecast(arrays["probabilities"], None), truth)
    errors = (arrays["mean"] - truth) / (1.0 if scale is None else scale)
    loss = np.square(errors).mean(axis=1)
    return _RowScores(-arrays["log_density"], loss, is_squared=True, is_scaled=scale is not None)


def _of_probabilities(forecast: Forecast, truth: np.ndarray) -> _RowScores:
    wrong = forecast.mean.argmax(axis=1) != truth
    return _RowScores(-forecast.log_density(truth), wrong.astype(np.float64), is_squared=False)


def evaluated(one: LinearBaseline | BoostedTrees, dataset: Dataset) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Scores of a baseline, and its predictions of the test rows, in units of the data, as `evaluation.npz` has them.

    Args:
        one: the baseline.
        dataset: the data set that it was fitted to.
    """
    units = dataset.preprocessing
    forecast = one.forecast(inputs_of(dataset, dataset.x_test))
    if isinstance(forecast, CountForecast):
        return _of_counts(forecast, np.asarray(dataset.y_test, np.float64))
    if forecast.sd is None:
        truth = np.asarray(dataset.y_test)
        return classification_scores(forecast.mean, truth), {"probabilities": forecast.mean, "truth": truth}
    truth = units.inverse_target(dataset.y_test)
    density = forecast.log_density(np.asarray(dataset.y_test)) + units.log_slope(truth)
    mean, sd = units.inverse_normal(forecast.mean, forecast.sd)
    quantiles = units.inverse_target(forecast.mean + forecast.sd * ndtri(np.asarray(LEVELS))[:, None, None])
    found = {"mean": mean, "sd": sd, "noise_sd": sd, "quantiles": quantiles, "levels": np.asarray(LEVELS)}
    found |= {"truth": truth, "log_density": density}
    scores = regression_scores(mean, truth, density, quantiles, LEVELS)
    steps = steps_of(None, dataset.y_test, known=dataset.y_train, scaling=units)
    if steps is not None:
        possible, beyond = np.isfinite(steps), np.array([0.0, 1.0])[:, None, None]
        scores |= transform_scores(between(np.where(possible, ndtr((steps - forecast.mean) / forecast.sd), beyond)))
    return scores, found


def _of_counts(forecast: CountForecast, truth: np.ndarray) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    found, density = forecast.distribution, forecast.log_density(truth)
    quantiles, sd = found.ppf(np.asarray(COUNT_LEVELS)[:, None, None]), found.std()
    transform = between(np.stack([found.cdf(truth - 1), found.cdf(truth)]))
    scores = count_scores(forecast.mean, truth, density, quantiles, transform=transform)
    arrays = {"mean": forecast.mean, "sd": sd, "noise_sd": sd, "quantiles": quantiles}
    arrays |= {"levels": np.asarray(COUNT_LEVELS), "truth": truth, "log_density": density}
    return scores, arrays


def _differences(network: _RowScores, baseline: _RowScores) -> dict[str, float]:
    """Scores of the network minus those of a baseline, with the standard errors of the differences."""
    nll = network.nll - baseline.nll
    found = {"nll": float(nll.mean()), "nll_standard_error": standard_error(nll)}
    if not network.is_squared:
        wrong = network.loss - baseline.loss
        return {**found, "error": float(wrong.mean()), "error_standard_error": standard_error(wrong)}
    roots = [math.sqrt(one.loss.mean()) for one in (network, baseline)]
    slopes = [one.loss / (2 * root) if root else one.loss for one, root in zip((network, baseline), roots, strict=True)]
    error = standard_error(slopes[0] - slopes[1])  # the first term of the root's expansion
    name = SCALED_RMSE if network.is_scaled else "rmse"
    return {**found, name: roots[0] - roots[1], f"{name}_standard_error": error}


BETTER, WORSE, SIMILAR, UNKNOWN = "better", "worse", "similar", "unknown"


@dataclass(frozen=True)
class Rival:
    """The baseline beside which the network is judged.

    Attributes:
        method: its entry in `methods` of `compare`.
        standing: where the log score of the network is beside its own: `BETTER`, `WORSE`, `SIMILAR` or `UNKNOWN`.
        is_closer: whether it has clearly fewer errors than the network, or smaller ones.
    """

    method: Mapping[str, Any]
    standing: str
    is_closer: bool

    @property
    def is_ahead(self) -> bool:
        """Whether the network is clearly worse."""
        return self.standing == WORSE or self.is_closer


def rival(methods: Sequence[Mapping[str, Any]], rows: int | None) -> Rival:
    """The baseline with the best log score or, if that is not clearly ahead, one whose predictions are clearly closer.

    Args:
        methods: entries of `methods` of `compare`, or of its copy in `metrics.json`, where unknown figures are None.
        rows: number of test rows; None: unknown.
    """
    best = _best_of(methods)
    standing = _standing(best["difference"], rows)
    closest = None if standing == WORSE else _closest(methods, rows)
    if closest is None:
        return Rival(best, standing, is_closer=False)
    return Rival(closest, _standing(closest["difference"], rows), is_closer=True)


def verdict(methods: Sequence[Mapping[str, Any]], rows: int | None) -> str:
    """Whether the network earns its place beside the baseline with the best log score, as a sentence.

    Args:
        methods: entries of `methods` of `compare`, or of its copy in `metrics.json`, where unknown figures are None.
        rows: number of test rows; None: unknown.
    """
    best = _best_of(methods)
    difference, error = _pair(best["difference"], "nll")
    against = f"that of the best baseline, {best['name']}"
    if not math.isfinite(difference):
        return f"The network's log score is not finite, so it cannot be compared with {against}."
    if not math.isfinite(error):
        return f"One test row cannot say whether the network is better than the best baseline, {best['name']}."
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 6) if error > 0 else 2
    figures = f"{abs(difference):.{decimals}f} ± {error:.{decimals}f} nats per row"
    found, closest = _standing(best["difference"], rows), _closest(methods, rows)
    if found == WORSE:
        return f"The network does not earn its place: its log score is worse than {against}, by {figures}."
    but = "" if closest is None else f"its point predictions are clearly worse than those of {closest['name']}."
    if found == BETTER:
        better = f"log score is better than {against}, by {figures}"
        return f"The network's {better}, but {but}" if but else f"The network earns its place: its {better}."
    side = "better" if difference < 0 else "worse"
    return (
        f"The network has yet to earn its place: its log score is within error of {against} ({side} by {figures})."
        f"{but and f' {capital(but)}'}"
    )


def _best_of(methods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return min(methods, key=lambda one: one["test"]["nll"])


def _closest(methods: Sequence[Mapping[str, Any]], rows: int | None) -> Mapping[str, Any] | None:
    """Of the baselines that have clearly fewer errors than the network, or smaller ones, the one with the least."""
    closer = [one for one in methods if _is_closer(one["difference"], rows)]
    return max(closer, key=lambda one: _pair(one["difference"], _loss_of(one["difference"]))[0], default=None)


def _standing(difference: Mapping[str, Any], rows: int | None) -> str:
    mean, error = _pair(difference, "nll")
    if not (math.isfinite(mean) and math.isfinite(error)):
        return UNKNOWN
    if not abs(mean) > _clear(rows) * error:
        return SIMILAR
    return BETTER if mean < 0 else WORSE


def _is_closer(difference: Mapping[str, Any], rows: int | None) -> bool:
    """By Student's t or, as errors of classes are counts, by the sign test of rows that one of both misclassifies."""
    mean, error = _pair(difference, name := _loss_of(difference))
    if name != "error" or rows is None or math.isnan(error):
        return mean > _clear(rows) * error
    either = rows * (mean**2 + (rows - 1) * error**2)  # rows that one misclassifies: squares of differences, summed
    own = (either + rows * mean) / 2
    return bool(bdtrc(round(own) - 1, round(either), 0.5) < ndtr(-CLEAR))


def _clear(rows: int | None) -> float:
    """Standard errors of a mean over so many rows beyond which it is clear, by Student's t."""
    return CLEAR if rows is None else float(-stdtrit(rows - 1, ndtr(-CLEAR)))


def _loss_of(difference: Mapping[str, Any]) -> str:
    return next((name for name in (SCALED_RMSE, "rmse") if name in difference), "error")


def _pair(difference: Mapping[str, Any], name: str) -> tuple[float, float]:
    """A difference and its standard error; NaN if unknown."""
    return number(difference, name), number(difference, f"{name}_standard_error")
