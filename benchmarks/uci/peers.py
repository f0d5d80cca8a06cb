"""The predictors of scikit-learn, each in its best form: `python -m benchmarks.uci.peers NAME SPLIT.npz OUT.npz`.

Every predictor has one or more settings. The one with the best held-out log score is fitted again to all training rows
and predicts with the form (`benchmarks.uci.forms`) that was learned from the held-out rows.
"""

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.uci.forms import Noise, Softening, held_out, learn_noise, learn_softening
from benchmarks.uci.tables import Split, read_split

QUANTILES = (0.16, 0.84)


@dataclass
class Scaled:
    """A scikit-learn estimator on scaled inputs, and on scaled targets if it is a regressor.

    Attributes:
        estimator: the estimator.
        is_classification: whether it predicts probabilities.
        spread_of: the spread of a fitted regressor's predictions given scaled inputs; None: there is none.
        beside: further estimators that are fitted to the same rows, from which the spread is made.
    """

    estimator: Any
    is_classification: bool
    spread_of: Callable[["Scaled", np.ndarray], np.ndarray] | None = None
    beside: Sequence[Any] = ()

    def fit(self, x: np.ndarray, y: np.ndarray) -> None:
        """Learn the scaling and fit."""
        self.center, self.scale = x.mean(axis=0), x.std(axis=0)
        self.scale = np.where(self.scale > 0, self.scale, 1.0)
        self.mean, self.sd = (0.0, 1.0) if self.is_classification else (y.mean(), y.std())
        target = y if self.is_classification else (y - self.mean) / self.sd
        for one in (self.estimator, *self.beside):
            one.fit((x - self.center) / self.scale, target)

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Probabilities `[rows, classes]`, or mean and spread `[rows, 2]`."""
        inputs = (x - self.center) / self.scale
        if self.is_classification:
            return np.asarray(self.estimator.predict_proba(inputs))
        spread = np.zeros(len(x)) if self.spread_of is None else self.spread_of(self, inputs)
        return np.stack([self.mean + self.sd * self.estimator.predict(inputs), self.sd * spread], axis=1)


def _linear(_settings: Mapping[str, Any], *, is_classification: bool) -> Scaled:
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    if is_classification:
        options: dict[str, Any] = {"l1_ratios": (0,), "use_legacy_attributes": False}  # what later versions do
        made = LogisticRegressionCV(scoring="neg_log_loss", max_iter=2000, **options)
        return Scaled(made, is_classification=True)
    return Scaled(RidgeCV(np.logspace(-3, 3, 13)), is_classification=False)


def _forest(settings: Mapping[str, Any], *, is_classification: bool) -> Scaled:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    def spread(fitted: Scaled, x: np.ndarray) -> np.ndarray:
        return np.std([tree.predict(x) for tree in fitted.estimator.estimators_], axis=0)

    kind = RandomForestClassifier if is_classification else RandomForestRegressor
    return Scaled(kind(random_state=0, **settings), is_classification, spread_of=spread)


def _boosting(settings: Mapping[str, Any], *, is_classification: bool) -> Scaled:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if is_classification:
        return Scaled(HistGradientBoostingClassifier(random_state=0, **settings), is_classification=True)

    def spread(fitted: Scaled, x: np.ndarray) -> np.ndarray:
        low, high = (one.predict(x) for one in fitted.beside)
        return np.abs(high - low) / 2

    made = [
        HistGradientBoostingRegressor(loss="quantile", quantile=one, random_state=0, **settings) for one in QUANTILES
    ]
    return Scaled(HistGradientBoostingRegressor(random_state=0, **settings), False, spread_of=spread, beside=made)


def _mlp(settings: Mapping[str, Any], *, is_classification: bool) -> Scaled:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    return Scaled((MLPClassifier if is_classification else MLPRegressor)(random_state=0, **settings), is_classification)


MAKERS: dict[str, Callable[..., Scaled]] = {"linear": _linear, "forest": _forest, "boosting": _boosting, "mlp": _mlp}


def predict(name: str, settings: Sequence[Mapping[str, Any]], split: Split) -> dict[str, np.ndarray]:
    """Predictions of the test rows, as `benchmarks.uci.scores` takes them, with what was chosen."""
    if name == "gp":
        return _gaussian_process(split)
    classes = split.is_classification
    tried: list[tuple[Noise | Softening, Mapping[str, Any]]] = []
    for one in settings:
        found, truth = held_out(
            lambda one=one: MAKERS[name](one, is_classification=classes),
            split.x_train,
            split.y_train,
            is_classification=classes,
        )
        form = learn_softening(found, truth) if classes else learn_noise(truth - found[:, 0], found[:, 1])
        tried.append((form, one))
    form, chosen = max(tried, key=lambda pair: pair[0].score)
    final = MAKERS[name](chosen, is_classification=classes)
    final.fit(split.x_train, split.y_train)
    found = final.predict(split.x_test)
    about = {"chosen": np.array(json.dumps(dict(chosen)))}
    if isinstance(form, Softening):
        return {"probabilities": form.apply(found), **about}
    return {"means": found[None, :, 0], "sds": form.sd(found[:, 1])[None], **about}


def _gaussian_process(split: Split) -> dict[str, np.ndarray]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    lengths: Any = np.ones(split.x_train.shape[1])
    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * RBF(lengths, (1e-2, 1e4)) + WhiteKernel(0.1, (1e-6, 1e1))
    model = Scaled(GaussianProcessRegressor(kernel, random_state=0), is_classification=False)
    model.fit(split.x_train, split.y_train)
    mean, sd = model.estimator.predict((split.x_test - model.center) / model.scale, return_std=True)
    return {"means": (model.mean + model.sd * mean)[None], "sds": (model.sd * sd)[None]}


def main(name: str, split: str, out: str, settings: str) -> None:
    """Fit, and write the predictions."""
    warnings.simplefilter("ignore")  # of settings that stop at their number of iterations
    np.savez(out, **predict(name, json.loads(settings), read_split(Path(split))))  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    main(*sys.argv[1:])
