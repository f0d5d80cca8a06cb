"""How far the predictions of fewer or rounded draws are from those of the original ones."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ergonet.prediction.predictive import Prediction


@dataclass(frozen=True)
class PredictiveLoss:
    """Changes of predictions over rows and targets, or rows and classes.

    Attributes:
        rows: number of rows on which it was measured.
        unit: `sd` for numbers: means change in units of the predictive standard deviation of their row, standard
            deviations in proportion. `probability` for classes: changes of class probabilities, and of their standard
            deviations over draws.
        mean: root mean square of the changes of the mean, at least 0.
        largest_mean: the largest of them.
        sd: root mean square of the changes of the standard deviation, at least 0.
        largest_sd: the largest of them.
    """

    rows: int
    unit: str
    mean: float
    largest_mean: float
    sd: float
    largest_sd: float

    @staticmethod
    def between(original: Prediction, other: Prediction) -> "PredictiveLoss":
        """The loss of other predictions for the same rows."""
        if original.sd is None or other.sd is None:
            unit, before, after, scale = "probability", original.function_sd, other.function_sd, np.float64(1.0)
        else:
            unit, before, after, scale = "sd", original.sd, other.sd, original.sd
        mean = np.abs(other.mean.astype(np.float64) - original.mean) / scale
        sd = np.abs(after.astype(np.float64) - before) / scale
        figures = [float(one) for one in (_rms(mean), mean.max(), _rms(sd), sd.max())]
        return PredictiveLoss(len(mean), unit, *figures)

    @staticmethod
    def of_record(record: Mapping[str, Any]) -> "PredictiveLoss":
        """The inverse of `record`; other entries are ignored."""
        return PredictiveLoss(**{name: record[name] for name in PredictiveLoss.__dataclass_fields__})

    def record(self) -> dict[str, Any]:
        """JSON types by name."""
        return asdict(self)

    def __str__(self) -> str:
        word = {"sd": "predictive sd", "probability": "in probability"}[self.unit]
        return (
            f"on {self.rows} rows, means change by {self.mean:.2g} {word} (rms; at most {self.largest_mean:.2g}), "
            f"standard deviations by {self.sd:.2g}{'' if self.unit == 'probability' else ' of themselves'} "
            f"(at most {self.largest_sd:.2g})"
        )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
