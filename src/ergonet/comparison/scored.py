"""Scores of held-out rows with what it takes to compare them: the part of each row, and the error between chains."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from ergonet.comparison.sources import Known, uncalibrated
from ergonet.draws.samples import Samples
from ergonet.models.network_posterior import BayesianNetwork
from ergonet.prediction.calibration import reliability_curve, standard_error, transform_coverage
from ergonet.prediction.pit import between, cumulative, steps_of
from ergonet.prediction.predictive import Predictor, predict
from ergonet.prediction.probabilities import calibrated
from ergonet.prediction.units import predict_in_units

QUANTITIES: Final = ("log_score", "error", "calibration")

PerRow = Float[np.ndarray, "row"]


@dataclass(frozen=True, eq=False)
class Figure:
    """A score of held-out rows.

    Attributes:
        value: the score.
        rows: to first order, the score varies with the rows as the mean of these does, ``[row]``.
        chance: Monte Carlo error, by leaving out each chain; 0 with a single chain, where it is unknown.
    """

    value: float
    rows: PerRow
    chance: float = 0.0

    @property
    def error(self) -> float:
        """Standard error over rows."""
        return standard_error(self.rows)

    def apart(self, other: "Figure") -> float:
        """Standard error over rows of the difference from a score of the same rows."""
        return standard_error(self.rows - other.rows)


@dataclass(frozen=True, eq=False)
class HeldOutScores:
    """The scores of held-out rows.

    Attributes:
        figures: ``log_score``, ``error`` and ``calibration``.
        error_name: what `error` is: ``error rate`` or ``RMSE``.
        by_chance: the calibration error to expect of calibrated probabilities.
        num_rows: rows.
        num_chains: chains of the draws.
        max_rhat: largest R-hat of the monitored predictions; NaN with one chain.
        divergences: number of draws with a divergent transition.
    """

    figures: dict[str, Figure]
    error_name: str
    by_chance: float
    num_rows: int
    num_chains: int
    max_rhat: float
    divergences: int


@dataclass(frozen=True, eq=False)
class _Predicted:
    """What one chain predicts: log densities `[row]`, means or probabilities `[row, ...]`, ends of the transform.

    Class probabilities are those before a temperature and label noise, which are for the average of all chains.
    """

    weight: float
    log_density: PerRow
    mean: np.ndarray
    ends: np.ndarray | None


def score_rows(known: Known, x: Any, y: Any) -> HeldOutScores:
    """Score rows, as the network takes them, in the units of the table.

    Raises:
        CapabilityError: the samples carry no network.
        DataError: the rows cannot be used.
    """
    samples, model = known.samples, Predictor(known.samples, known.model).model
    calibration, raw = model.likelihood.calibration, uncalibrated(model)
    counts = np.flatnonzero(samples.weights().any(axis=1))  # a chain of weight 0 predicts nothing
    chains = [_predicted(_chain(samples, int(number)), raw, known, x, y) for number in counts]
    is_classes = model.likelihood.is_classification
    truth = np.asarray(y).astype(np.int64) if is_classes else known.in_units(y)
    found, by_chance = _figures(chains, truth, calibration)
    if len(chains) > 1:
        rest = [[*chains[:number], *chains[number + 1 :]] for number in range(len(chains))]
        left = [_figures(others, truth, calibration)[0] for others in rest]
        found = {
            name: replace(one, chance=_jackknife([other[name].value for other in left])) for name, one in found.items()
        }
    diverging = samples.stats.get("diverging")
    return HeldOutScores(
        figures=found,
        error_name="error rate" if is_classes else "RMSE",
        by_chance=by_chance,
        num_rows=len(truth),
        num_chains=samples.num_chains,
        max_rhat=float(samples.convergence().max_rhat),
        divergences=0 if diverging is None else int(np.sum(diverging)),
    )


def _chain(samples: Samples, number: int) -> Samples:
    """The samples of one chain."""
    only = slice(number, number + 1)
    stats = {name: np.asarray(samples.stats[name])[only] for name in samples.stats if name == "weight"}
    return replace(samples, positions=np.asarray(samples.positions[only]), stats=stats)


def _predicted(samples: Samples, model: BayesianNetwork, known: Known, x: Any, y: Any) -> _Predicted:
    scaling = known.preprocessing
    if scaling is None or scaling.task == "classification":
        found = predict(samples, x, model=model, levels=(), y=y)
    else:
        found = predict_in_units(samples, x, model=model, preprocessing=scaling, levels=(), y=y)
    ends = None
    if not model.likelihood.is_classification:
        ends = cumulative(samples, x, y, model=model, steps=steps_of(model.likelihood, y, scaling=scaling))
    return _Predicted(
        weight=float(np.sum(samples.weights())),
        log_density=np.asarray(found.log_density, np.float64),
        mean=np.asarray(found.mean, np.float64),
        ends=ends,
    )


def _figures(
    chains: Sequence[_Predicted], truth: np.ndarray, calibration: tuple[Any, Any] | None
) -> tuple[dict[str, Figure], float]:
    """The scores of the average of some chains, and the calibration error to expect by chance.

    `calibration` is the temperature and the label noise of the average, if it has any.
    """
    shares = np.array([one.weight for one in chains]) / sum(one.weight for one in chains)
    density = logsumexp(np.stack([one.log_density for one in chains]), axis=0, b=shares[:, None])
    mean = np.tensordot(shares, np.stack([one.mean for one in chains]), axes=1)
    if calibration is not None:
        mean, density = calibrated(mean, density, calibration)
        assert density is not None  # as it was given
    score = Figure(float(density.mean()), density)
    ends = [one.ends for one in chains if one.ends is not None]
    if not ends:
        wrong = (mean.argmax(axis=1) != truth).astype(np.float64)
        gap, by_chance = _of_probabilities(mean / mean.sum(axis=1, keepdims=True), truth)
        return {"log_score": score, "error": Figure(float(wrong.mean()), wrong), "calibration": gap}, by_chance
    squares = np.square(mean - truth).mean(axis=1)
    root = float(np.sqrt(squares.mean()))
    error = Figure(root, squares / (2 * root) if root > 0 else np.zeros_like(squares))
    gap, by_chance = _of_transform(between(np.tensordot(shares, np.stack(ends), axes=1)).T)
    return {"log_score": score, "error": error, "calibration": gap}, by_chance


def _of_probabilities(probabilities: np.ndarray, truth: np.ndarray) -> tuple[Figure, float]:
    """The expected calibration error of class probabilities; bins and signs are held fixed in the parts of rows."""
    curve = reliability_curve(probabilities, truth)
    sure, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == truth
    where = np.clip(np.ceil(sure * len(curve.counts)).astype(np.int64) - 1, 0, len(curve.counts) - 1)
    signs = np.sign(curve.accuracy - curve.confidence)[where]
    return Figure(curve.expected_calibration_error, signs * (right - sure)), curve.by_chance


def _of_transform(transform: np.ndarray) -> tuple[Figure, float]:
    """The mean gap between nominal probability and coverage of central intervals; signs are held fixed."""
    curve = transform_coverage(transform)
    inside = (2 * np.abs(transform - 0.5)[None] <= curve.nominal[:, None, None]).mean(axis=2)
    signs = np.sign(curve.coverage - curve.nominal)[:, None]
    return Figure(curve.mean_gap, (signs * (inside - curve.nominal[:, None])).mean(axis=0)), curve.by_chance


def _jackknife(values: Sequence[float]) -> float:
    """Standard error from the values without each chain."""
    found = np.asarray(values)
    return float(np.sqrt((len(found) - 1) * np.mean((found - found.mean()) ** 2)))
