"""Fitted estimators of fewer networks, with fewer digits, or as a graph, and what that changes."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ergonet._errors import CapabilityError, RunDirectoryError, SettingError
from ergonet.draws.durable import replacing
from ergonet.draws.samples import Samples
from ergonet.estimators.updating import TrainingRows
from ergonet.prediction.compression import compress
from ergonet.prediction.loss import PredictiveLoss
from ergonet.prediction.onnx_graph import onnx_model
from ergonet.prediction.predictive import Predictor
from ergonet.runs.facts import ROUNDED

if TYPE_CHECKING:
    from ergonet.estimators.base import BayesianEstimator

PRECISIONS = ("float16",)


def compressed(estimator: "BayesianEstimator", k: int | Any, X: Any) -> "BayesianEstimator":
    """A copy of the estimator with k networks; see `BayesianEstimator.compress`."""
    samples = compress(estimator.predictor(), _rows(estimator, X, "compress(k, X=...)"), k)
    found = copy.copy(estimator)
    found.use(samples)
    return found


def stored(estimator: "BayesianEstimator", precision: str | Any, X: Any) -> Samples:
    """The draws in the precision in which they are to be stored, with the measured loss in `about`.

    Raises:
        CapabilityError: X is None, and the training rows are not known.
        SettingError: the precision is not known, or a draw is too large for it.
    """
    samples = estimator.samples_
    if precision is None:
        return samples
    if precision not in PRECISIONS:
        raise SettingError(f"`precision` must be None or {' or '.join(map(repr, PRECISIONS))}, got {precision!r}.")
    rows = _rows(estimator, X, f"save(..., precision={precision!r}, X=...)")
    positions = np.asarray(samples.positions[...])
    with np.errstate(over="ignore"):
        rounded = positions.astype(precision)
    if not np.isfinite(rounded).all():
        raise SettingError(
            f"`precision={precision!r}` has numbers up to {np.finfo(precision).max:g}, but a draw has "
            f"{np.abs(positions).max():g}. Leave `precision` out."
        )
    before = estimator.predictor().predict(rows, levels=())
    read = replace(samples, positions=rounded.astype(positions.dtype), target=None)
    loss = PredictiveLoss.between(before, Predictor(read, estimator.model_).predict(rows, levels=()))
    about = {**samples.about, ROUNDED: {"precision": precision, **loss.record()}}
    return replace(samples, positions=rounded, about=about)


def exported(estimator: "BayesianEstimator", path: Path, *, overwrite: bool) -> Path:
    """Write the ensemble as an ONNX file; see `BayesianEstimator.export_onnx`."""
    if path.exists() and not overwrite:
        raise RunDirectoryError(f"{str(path)!r} exists already. Choose another name, or pass `overwrite=True`.")
    made = onnx_model(estimator.model_, estimator.samples_, estimator.preprocessing_)
    with replacing(path) as file:
        file.write(made.SerializeToString())
    return path


def _rows(estimator: "BayesianEstimator", X: Any, call: str) -> np.ndarray:
    """Scaled inputs of the given rows, or of the training rows."""
    if X is not None:
        return estimator.scaled_inputs(X)
    rows: TrainingRows | None = getattr(estimator, "_rows", None)  # which the fallback of a time limit has, too
    if rows is None:
        raise CapabilityError(
            f"This {type(estimator).__name__} does not hold its training rows, which files and pickles do not have. "
            f"Pass rows like those that it will predict: `{call}`."
        )
    return rows.x
