"""What baselines of a table have in common: training rows, folds, and predictive distributions."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ergonet._types import Float
from ergonet.datasets.dataset import Dataset

SMALLEST = float(np.finfo(np.float32).tiny)  # probability, as in the scores


class LeftOutError(Exception):
    """A method that does not suit the data or the time; says why, as the end of "... was left out: "."""


@dataclass(frozen=True)
class Forecast:
    """Predictive distributions of rows.

    Attributes:
        mean: predictive means `[rows, targets]`, or class probabilities `[rows, classes]`.
        sd: standard deviation of the Gaussian error of each target; None: the means are probabilities.
    """

    mean: Float[np.ndarray, "rows outputs"]
    sd: Float[np.ndarray, "outputs"] | None

    def log_density(self, y: np.ndarray) -> Float[np.ndarray, "rows"]:
        """Log density or log probability of the true targets, joint for several targets."""
        if self.sd is None:
            return np.log(np.clip(self.mean[np.arange(len(y)), np.asarray(y, int)], SMALLEST, 1.0))
        scaled = (np.asarray(y, np.float64) - self.mean) / self.sd
        return -0.5 * (scaled**2).sum(axis=1) - np.log(self.sd).sum() - 0.5 * y.shape[1] * math.log(2 * math.pi)


@dataclass(frozen=True)
class CountForecast:
    """Negative binomial distributions of the counts of rows.

    Attributes:
        mean: predictive means `[rows, 1]`, above 0.
        dispersion: the variance is m + dispersion m^2 if the mean is m.
    """

    mean: Float[np.ndarray, "rows 1"]
    dispersion: float

    @property
    def distribution(self) -> Any:
        """SciPy's distribution of each count."""
        from scipy.stats import nbinom

        size = 1 / self.dispersion
        return nbinom(size, size / (size + self.mean))

    def log_density(self, y: np.ndarray) -> Float[np.ndarray, "rows"]:
        """Log probability of the true counts `[rows, 1]`."""
        return np.maximum(self.distribution.logpmf(y), math.log(SMALLEST))[:, 0]


def dispersion_of(excess: float) -> float:
    """The dispersion of counts, from the excess of squared errors over means, in units of the mean squared.

    At least the smallest one of the likelihoods of counts.
    """
    from ergonet.models.likelihoods.counts import LEAST_DISPERSION

    return max(excess, LEAST_DISPERSION) if math.isfinite(excess) else 1.0  # of means that overflow


@dataclass(frozen=True)
class Rows:
    """Training rows, as the network sees them.

    Attributes:
        x: inputs `[rows, features]`.
        y: standardized targets `[rows, targets]`, counts `[rows, 1]`, or class indices `[rows]`.
        num_classes: number of classes; 0 for regression.
        weights: weight of each row, `[rows]`, above 0; None: 1.
        is_of_counts: whether the target is a count.
    """

    x: np.ndarray
    y: np.ndarray
    num_classes: int
    weights: np.ndarray | None = None
    is_of_counts: bool = False

    @classmethod
    def of(cls, dataset: Dataset) -> "Rows":
        """The training rows of a data set, in double precision."""
        y = np.asarray(dataset.y_train)
        x = inputs_of(dataset, dataset.x_train)
        classes = len(dataset.preprocessing.classes)
        y = y if classes else np.asarray(y, np.float64)
        return cls(x, y, classes, dataset.weights, is_of_counts=dataset.task == "count")

    def part(self, chosen: np.ndarray) -> "Rows":
        """Some of the rows, by number or as flags."""
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, x=self.x[chosen], y=self.y[chosen], weights=weights)

    @property
    def relative_weights(self) -> np.ndarray | None:
        """The weights with a mean of 1, so that a penalty is worth the same whatever their unit; None: all are 1."""
        return None if self.weights is None else self.weights / self.weights.mean()

    def mean(self, values: np.ndarray) -> float:
        """The mean of a value of each row, by the weights."""
        return float(np.average(values, weights=self.weights))

    def at_most(self, count: float, *, seed: int) -> "Rows":
        """So many of the rows, chosen at random; all of them if there are no more."""
        if len(self.x) <= count:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(len(self.x), max(int(count), 1), replace=False))
        return self.part(chosen)

    def folds(self, count: int) -> Iterator[tuple["Rows", "Rows"]]:
        """Parts of the rows to train on, each with the rows that it leaves out."""
        fold = np.random.default_rng(0).permutation(len(self.x)) % count
        for number in range(count):
            yield self.part(fold != number), self.part(fold == number)


def inputs_of(dataset: Dataset, x: np.ndarray) -> np.ndarray:
    """Inputs in double precision, with a 0/1 column for each category instead of the indices of embeddings."""
    x = np.asarray(x, np.float64).reshape(len(x), -1)
    levels = dataset.preprocessing.embeddings
    plain, indices = x[:, : x.shape[1] - len(levels)], x[:, x.shape[1] - len(levels) :]
    coded = [index[:, None] == np.arange(count) for index, count in zip(indices.T, levels, strict=True)]
    return np.concatenate([plain, *coded], axis=1, dtype=np.float64)


def held_out_log_loss(fit: Callable[[Rows], Any], rows: Rows, count: int) -> float:
    """Mean log loss of the rows of each fold under a fit of the others; folds that cannot be fitted are skipped."""
    losses = []
    for rest, held in rows.folds(count):
        if len(np.unique(rest.y)) > 1 and len(held.x):
            losses.append(-held.mean(fit(rest).forecast(held.x).log_density(held.y)))
    return float(np.mean(losses)) if losses else math.inf


def of_all_classes(values: Any, classes: np.ndarray, num_classes: int, *, blank: float) -> np.ndarray:
    """Values of the classes that occur, `[class, ...]`, with a blank for every other one."""
    complete = np.full((num_classes, *np.shape(values)[1:]), blank)
    complete[np.asarray(classes, int)] = values
    return complete
