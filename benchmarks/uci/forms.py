"""The predictive distribution of a predictor that has none, or a poor one, learned from rows that it was not fitted to.

Regressions: N(prediction, a + b spread^2), where the spread is the predictor's own idea of its uncertainty. Classes:
the probabilities after a temperature and a share of uniform probability. Both maximize the likelihood of the held-out
rows; the prediction itself, and probabilities that are right already, are among the possible results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

FOLDS = 5
ONE_FOLD_ABOVE = 5000  # rows
SMALLEST_SHARE = 1e-6  # of the variance of the residuals


@dataclass(frozen=True)
class Noise:
    """A variance a + b spread^2 and the mean log density of the held-out rows with it."""

    a: float
    b: float
    score: float

    def sd(self, spread: np.ndarray) -> np.ndarray:
        """The predictive standard deviation."""
        return np.sqrt(self.a + self.b * spread**2)


@dataclass(frozen=True)
class Softening:
    """A temperature and a share of uniform probability, and the mean log probability of the held-out rows with them."""

    temperature: float
    share: float
    score: float

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """The probabilities after it."""
        mixed = (1 - self.share) * probabilities + self.share / probabilities.shape[1]
        logits = np.log(mixed) / self.temperature
        return np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


def held_out(
    make: Callable[[], Any], x: np.ndarray, y: np.ndarray, *, is_classification: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of rows by predictors that were not fitted to them, and these rows' targets.

    Five folds; only the first of them above 5000 rows.

    Args:
        make: makes a predictor with `fit` and `predict`; what `predict` returns is stacked over the folds.
        x: inputs.
        y: targets.
        is_classification: whether every fold has the same shares of the classes.
    """
    predictions, targets = [], []
    for train, test in _folds(x, y, is_classification=is_classification):
        predictor = make()
        predictor.fit(x[train], y[train])
        predictions.append(predictor.predict(x[test]))
        targets.append(y[test])
    return np.concatenate(predictions), np.concatenate(targets)


def learn_noise(residuals: np.ndarray, spread: np.ndarray) -> Noise:
    """The most likely variance of held-out residuals, given the spread of each."""
    scale = float(np.mean(residuals**2))
    floor = SMALLEST_SHARE * scale
    ratio = scale / max(float(np.mean(spread**2)), floor)
    slopes = (0.0,) if not spread.any() else (0.0, 0.1 * ratio, ratio)

    def loss(parameters: np.ndarray) -> float:
        variance = floor + scale * np.exp(parameters[0]) + ratio * np.exp(parameters[1]) * spread**2
        return float(0.5 * np.mean(np.log(2 * np.pi * variance) + residuals**2 / variance))

    found = []
    for slope in slopes:
        start = [0.0, np.log(slope / ratio) if slope else -30.0]
        best = minimize(loss, start, method="Nelder-Mead", options={"maxiter": 400})
        found.append((float(best.fun), best.x))
    least, (first, second) = min(found, key=lambda one: one[0])
    return Noise(floor + scale * float(np.exp(first)), ratio * float(np.exp(second)), -least)


def learn_softening(probabilities: np.ndarray, classes: np.ndarray) -> Softening:
    """The most likely softening of held-out probabilities."""

    def made(parameters: np.ndarray) -> Softening:
        return Softening(float(np.exp(parameters[0])), float(expit(parameters[1])), 0.0)

    def loss(parameters: np.ndarray) -> float:
        softened = made(parameters).apply(probabilities)[np.arange(len(classes)), classes]
        return float(-np.mean(np.log(np.maximum(softened, 1e-300))))

    best = minimize(loss, [0.0, -6.0], method="Nelder-Mead", options={"maxiter": 400})
    softening = made(best.x)
    return Softening(softening.temperature, softening.share, -float(best.fun))


def _folds(x: np.ndarray, y: np.ndarray, *, is_classification: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    from sklearn.model_selection import KFold, StratifiedKFold

    maker = StratifiedKFold if is_classification else KFold
    folds = list(maker(FOLDS, shuffle=True, random_state=0).split(x, y))
    yield from folds[:1] if len(x) > ONE_FOLD_ABOVE else folds
