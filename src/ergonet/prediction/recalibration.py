"""Recalibration on held-out rows: an explicit step, after which scores need rows that were used for neither.

Probabilities of classes get a temperature (Guo2017) and label noise, quantiles of real targets other levels
(Kuleshov2018). Neither changes the order of classes or values, and neither belongs to the posterior: name it beside
every figure made with it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax

from ergonet._errors import SettingError
from ergonet.prediction.calibration import check_classification, finite_array
from ergonet.prediction.probabilities import log_with_label_noise, logs_of, power, with_label_noise

_RANGE = (-4.0, 4.0)  # of the logarithm of a temperature
_NUM_COSTS, _NUM_BETWEEN = 161, 20_001  # log temperatures whose cost is computed, and interpolated
_NUM_AVERAGED = 32  # temperatures
_LARGEST_NOISE = 0.9
_FIRST_NOISE = (0.003, 0.05)  # where the search begins
FEWEST_ROWS = 50


@dataclass(frozen=True)
class ClassCalibration:
    """Class probabilities to the power 1 / temperature, normalized, of which label noise takes a share.

    With label noise e and K classes, p becomes (1 - e) p + e / K. A few wrong labels make every temperature too high,
    because a confident prediction must not miss one of them; a share of noise leaves the other rows as sure as they
    are.

    Attributes:
        temperature: the temperature; above 1 it makes probabilities less sure.
        label_noise: share of rows whose label says nothing, in [0, 1).
        rows: number of held-out rows on which they were chosen.
        gain: by how much they lowered the negative log probability of a row there, in nats; at least 0.
    """

    temperature: float
    label_noise: float
    rows: int
    gain: float

    def __call__(self, probabilities: np.ndarray) -> Float[np.ndarray, "rows classes"]:
        """Recalibrated probabilities, ``[rows, classes]``."""
        powers, _ = power(finite_array(probabilities, "probabilities", 2), 1 / self.temperature)
        return with_label_noise(powers, self.label_noise)

    def to_table(self) -> dict[str, Any]:
        """For `from_table`."""
        return asdict(self)

    def __str__(self) -> str:
        return f"Recalibrated on {self.rows} held-out rows: {self.what}."

    @property
    def what(self) -> str:
        """What is done, as words of a sentence."""
        if self.temperature == 1 and self.label_noise == 0:
            return "probabilities stay as they are"
        said = f"probabilities to the power 1/{self.temperature:.3g}, normalized"
        return said + (f", with {100 * self.label_noise:.2g} % label noise" if self.label_noise else "")


@dataclass(frozen=True, eq=False)
class Levels:
    """Quantiles at other levels.

    Attributes:
        stated: probabilities that the model states, ``[point]``, ascending from 0 to 1.
        observed: fraction of held-out rows below the quantiles of these, ``[point]``, ascending from 0 to 1.
        rows: number of held-out rows on which they were found.
    """

    stated: Float[np.ndarray, "point"]
    observed: Float[np.ndarray, "point"]
    rows: int

    def __call__(self, levels: Sequence[float] | np.ndarray) -> Float[np.ndarray, "level"]:
        """Levels to predict in place of wanted ones in (0, 1): `predict(..., levels=recalibration([0.05, 0.95]))`."""
        wanted = np.asarray(levels, np.float64)
        if not ((wanted > 0) & (wanted < 1)).all():
            raise SettingError(f"`levels` must lie strictly between 0 and 1, got {list(levels)}.")
        edge = 0.5 / self.rows  # beyond, the rows say nothing
        return np.clip(np.interp(wanted, self.observed, self.stated), min(edge, 0.25), 1 - min(edge, 0.25))

    def transform(self, values: Any) -> np.ndarray:
        """The probability integral transform of the recalibrated distribution, from that of the model."""
        return np.interp(np.asarray(values, np.float64), self.stated, self.observed)

    def to_table(self) -> dict[str, Any]:
        """For `from_table`."""
        return {"stated": self.stated.tolist(), "observed": self.observed.tolist(), "rows": self.rows}

    def __str__(self) -> str:
        low, high = self([0.05, 0.95])
        return (
            f"Recalibrated on {self.rows} held-out rows: the 5 % and 95 % quantiles are those that the model states "
            f"with {100 * low:.1f} % and {100 * high:.1f} %."
        )


def from_table(found: Mapping[str, Any]) -> ClassCalibration | Levels:
    """The recalibration of which this is the `to_table`.

    Raises:
        KeyError: it is not complete.
        TypeError: an entry is no number.
        ValueError: a number is out of range.
    """
    rows = int(found["rows"])
    if "temperature" in found:
        temperature, label_noise = float(found["temperature"]), float(found.get("label_noise", 0.0))
        if not (0 < temperature < float("inf") and 0 <= label_noise < 1 and rows > 0):
            raise ValueError(f"temperature {temperature}, label noise {label_noise}, {rows} rows")
        return ClassCalibration(temperature, label_noise, rows, float(found["gain"]))
    stated, observed = (np.asarray(found[name], np.float64) for name in ("stated", "observed"))
    if stated.shape != observed.shape or rows < 1 or not all((np.diff(one) >= 0).all() for one in (stated, observed)):
        raise ValueError("levels that do not ascend")
    return Levels(stated, observed, rows)


def recalibrate_classes(probabilities: np.ndarray, truth: np.ndarray) -> ClassCalibration:
    """Choose temperature and label noise by the negative log probability of held-out rows.

    Neither, the temperature alone, or both: each of them must lower the sum over n rows by more than log(n) / 2
    (the BIC of Schwarz1978), so that few rows do not make something of a chance. Where a temperature counts, it is the
    one whose probabilities are nearest, in KL divergence, to those averaged over all that the rows leave open, with
    log temperature ~ N(0, 1) before: of few rows with hardly a mistake, every low temperature is likely, and the
    lowest would be punished by the first mistake.

    Args:
        probabilities: predicted for rows that were not used for fitting, ``[rows, classes]``.
        truth: indices of the true classes, ``[rows]``.

    Raises:
        DataError: shapes do not match, or a row is not a probability distribution.
        SettingError: there are fewer than 50 rows.
    """
    probabilities, truth = check_classification(probabilities, truth)
    _require_rows(len(truth))
    logs, rows, num_classes = logs_of(probabilities), np.arange(len(truth)), probabilities.shape[1]

    def surprise(log_temperature: float, label_noise: float = 0.0) -> float:
        log_probability = log_softmax(logs / np.exp(log_temperature), axis=1)[rows, truth]
        return float(-log_with_label_noise(log_probability, label_noise, num_classes).mean())

    alone: Any = minimize_scalar(surprise, bounds=_RANGE, method="bounded", options={"xatol": 1e-6})
    both: list[Any] = [
        minimize(
            lambda pair: surprise(*pair),
            (float(alone.x), first),
            method="Nelder-Mead",
            bounds=(_RANGE, (0.0, _LARGEST_NOISE)),
            options={"xatol": 1e-6, "fatol": 1e-9},
        )
        for first in _FIRST_NOISE
    ]
    candidates = [(0.0, 0.0), (float(alone.x), 0.0), *(tuple(map(float, one.x)) for one in both)]
    price = 0.5 * np.log(len(truth)) / len(truth)
    costs = [surprise(*pair) + price * number for pair, number in zip(candidates, (0, 1, 2, 2), strict=True)]
    log_temperature, label_noise = candidates[int(np.argmin(costs))]
    if log_temperature:
        log_temperature = _nearest(logs, _left_open(lambda one: len(truth) * surprise(one, label_noise)))
    gain = surprise(0.0) - surprise(log_temperature, label_noise)
    return ClassCalibration(float(np.exp(log_temperature)), label_noise, len(truth), gain)


def _left_open(cost: Callable[[float], float]) -> Float[np.ndarray, "points"]:
    """Evenly spaced quantiles of the posterior of the log temperature.

    Args:
        cost: negative log probability of all rows, by the log temperature.
    """
    points, between = (np.linspace(*_RANGE, count) for count in (_NUM_COSTS, _NUM_BETWEEN))
    log_density = -CubicSpline(points, [cost(one) for one in points])(between) - 0.5 * between**2
    cumulative = softmax(log_density).cumsum()
    return np.interp((np.arange(_NUM_AVERAGED) + 0.5) / _NUM_AVERAGED, cumulative, between)


def _nearest(logs: Float[np.ndarray, "rows classes"], open_ones: Float[np.ndarray, "points"]) -> float:
    """The log temperature whose probabilities are nearest to averages over these."""
    average = np.zeros_like(logs)
    for one in open_ones:
        average += softmax(logs / np.exp(one), axis=1) / len(open_ones)

    def cross_entropy(log_temperature: float) -> float:
        return float(-(average * log_softmax(logs / np.exp(log_temperature), axis=1)).sum(axis=1).mean())

    found: Any = minimize_scalar(cross_entropy, bounds=_RANGE, method="bounded", options={"xatol": 1e-6})
    return float(found.x)


def recalibrate_levels(transform: np.ndarray) -> Levels:
    """Find which levels the quantiles of a model have on held-out rows.

    Args:
        transform: probability integral transform of rows that were not used for fitting, ``[rows]``, or ``[rows,
            targets]`` for levels that all targets share.

    Raises:
        DataError: a value is not finite.
        SettingError: there are fewer than 50 rows.
    """
    values = np.sort(finite_array(np.asarray(transform).reshape(-1), "transform", 1))
    _require_rows(len(np.asarray(transform)))
    fractions = (np.arange(len(values)) + 0.5) / len(values)
    stated, first = np.unique(values, return_index=True)
    last = np.append(first[1:], len(values)) - 1
    observed = (fractions[first] + fractions[last]) / 2
    inside = (stated > 0) & (stated < 1)
    return Levels(
        np.concatenate([[0.0], stated[inside], [1.0]]),
        np.concatenate([[0.0], observed[inside], [1.0]]),
        len(np.asarray(transform)),
    )


def _require_rows(count: int) -> None:
    if count < FEWEST_ROWS:
        raise SettingError(f"Recalibration needs at least {FEWEST_ROWS} held-out rows, got {count}.")
