"""Recalibration on held-out rows: an explicit step, after which scores need rows that were used for neither.

Probabilities of classes get a temperature (Guo2017), quantiles of real targets other levels (Kuleshov2018). Neither
changes the order of classes or values, and neither belongs to the posterior: name it beside every figure made with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from ergonet._errors import SettingError
from ergonet.prediction.calibration import check_classification, finite_array
from ergonet.prediction.probabilities import logs_of, power

_RANGE = (-4.0, 4.0)  # of the logarithm of a temperature
FEWEST_ROWS = 50


@dataclass(frozen=True)
class Temperature:
    """Class probabilities to the power 1 / temperature, normalized.

    Attributes:
        value: the temperature; above 1 it makes probabilities less sure.
        rows: number of held-out rows on which it was chosen.
        gain: by how much it lowered the negative log probability of a row there, in nats; at least 0.
    """

    value: float
    rows: int
    gain: float

    def __call__(self, probabilities: np.ndarray) -> Float[np.ndarray, "rows classes"]:
        """Recalibrated probabilities, ``[rows, classes]``."""
        return power(finite_array(probabilities, "probabilities", 2), 1 / self.value)[0]

    def to_table(self) -> dict[str, Any]:
        """For `from_table`."""
        return {"temperature": self.value, "rows": self.rows, "gain": self.gain}

    def __str__(self) -> str:
        return f"Recalibrated on {self.rows} held-out rows: probabilities to the power 1/{self.value:.3g}, normalized."


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


def from_table(found: Mapping[str, Any]) -> Temperature | Levels:
    """The recalibration of which this is the `to_table`.

    Raises:
        KeyError: it is not complete.
        TypeError: an entry is no number.
        ValueError: a number is out of range.
    """
    rows = int(found["rows"])
    if "temperature" in found:
        value = float(found["temperature"])
        if not (0 < value < float("inf") and rows > 0):
            raise ValueError(f"temperature {value}, {rows} rows")
        return Temperature(value, rows, float(found["gain"]))
    stated, observed = (np.asarray(found[name], np.float64) for name in ("stated", "observed"))
    if stated.shape != observed.shape or rows < 1 or not all((np.diff(one) >= 0).all() for one in (stated, observed)):
        raise ValueError("levels that do not ascend")
    return Levels(stated, observed, rows)


def recalibrate_classes(probabilities: np.ndarray, truth: np.ndarray) -> Temperature:
    """Choose the temperature with the smallest negative log probability of held-out rows.

    Args:
        probabilities: predicted for rows that were not used for fitting, ``[rows, classes]``.
        truth: indices of the true classes, ``[rows]``.

    Raises:
        DataError: shapes do not match, or a row is not a probability distribution.
        SettingError: there are fewer than 50 rows.
    """
    probabilities, truth = check_classification(probabilities, truth)
    _require_rows(len(truth))
    logs, rows = logs_of(probabilities), np.arange(len(truth))

    def surprise(log_temperature: float) -> float:
        return float(-log_softmax(logs / np.exp(log_temperature), axis=1)[rows, truth].mean())

    best: Any = minimize_scalar(surprise, bounds=_RANGE, method="bounded", options={"xatol": 1e-6})
    found = float(best.x)
    gain = surprise(0.0) - surprise(found)
    return Temperature(float(np.exp(found)), len(truth), gain) if gain > 0 else Temperature(1.0, len(truth), 0.0)


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
