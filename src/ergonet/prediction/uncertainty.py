"""Predictive entropy by groups of inputs, and how well it separates in-distribution from other groups.

The entropy of the predictive class distribution is the sum of the mean entropy of the draws (aleatoric: the draws agree
that classes overlap) and the mutual information between class and draw (epistemic: the draws disagree, which more data
could resolve). Source: Depeweg2018.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Float
from scipy.stats import rankdata

from ergonet._errors import CapabilityError, SettingError, suggest
from ergonet.prediction.calibration import finite_array, standard_error

SCORES: Final = {"entropy": "entropy", "expected_entropy": "aleatoric", "mutual_information": "epistemic"}
"""Fields of a `Prediction`, and their names in tables."""


@dataclass(frozen=True)
class GroupScore:
    """One score of one group of inputs.

    Attributes:
        group: name of the group.
        score: ``entropy``, ``expected_entropy`` (aleatoric) or ``mutual_information`` (epistemic).
        count: number of rows in the group.
        mean: mean over rows, in nats.
        standard_error: standard error of the mean over rows; NaN for a single row.
        quantiles: quantiles over rows, in nats, ``[level]``.
        auroc: probability that a row of this group scores higher than a row of the inside group, ties counting 1/2:
            1 means perfect separation, 1/2 none; NaN for the inside group itself.
        auroc_standard_error: its standard error over the rows of both groups (DeLong1988); NaN if either group has
            a single row.
    """

    group: str
    score: str
    count: int
    mean: float
    standard_error: float
    quantiles: Float[np.ndarray, "level"]
    auroc: float
    auroc_standard_error: float


@dataclass(frozen=True)
class UncertaintyTable:
    """Scores of all groups.

    Attributes:
        inside: name of the in-distribution group.
        levels: probabilities of the quantiles.
        rows: three scores for each group, group by group.
    """

    inside: str
    levels: tuple[float, ...]
    rows: tuple[GroupScore, ...]

    def row(self, group: str, score: str = "entropy") -> GroupScore:
        """Return one row; raises `SettingError` if there is no such row."""
        found = next((one for one in self.rows if (one.group, one.score) == (group, score)), None)
        if found is None:
            groups = dict.fromkeys(one.group for one in self.rows)
            raise SettingError(f"`row({group!r}, {score!r})`: {suggest(group, groups)} {suggest(score, SCORES)}")
        return found

    def to_markdown(self) -> str:
        """Format the table as Markdown, with three decimals."""
        levels = " | ".join(f"{100 * level:g} %" for level in self.levels)
        lines = [
            f"| group | rows | score | mean | {levels} | AUROC against {self.inside} |",
            f"| --- | ---: | --- | ---: |{' ---: |' * len(self.levels)} ---: |",
        ]
        for one in self.rows:
            quantiles = " | ".join(f"{value:.3f}" for value in one.quantiles)
            apart = "" if np.isnan(one.auroc) else _with_error(one.auroc, one.auroc_standard_error)
            lines.append(
                f"| {one.group} | {one.count} | {SCORES[one.score]} | {_with_error(one.mean, one.standard_error)} | "
                f"{quantiles} | {apart} |"
            )
        return "\n".join(lines) + "\n"


def uncertainty_table(
    groups: Mapping[str, Any], *, inside: str, levels: Sequence[float] = (0.05, 0.5, 0.95)
) -> UncertaintyTable:
    """Tabulate entropies by groups of inputs, and how well they separate each group from the inside group.

    Args:
        groups: maps names to `Prediction` objects of a classification, such as test rows, other images, or noise.
        inside: name of the in-distribution group.
        levels: probabilities of the quantiles over rows, each from 0 to 1.

    Returns:
        A table with three rows for each group, in the given order.

    Raises:
        CapabilityError: a prediction has no entropies because it is a regression.
        DataError: a group has no rows, or an entropy is not finite.
        SettingError: `inside` is not a group, or a level is out of range.
    """
    if inside not in groups:
        raise SettingError(f"`inside={inside!r}` is not one of the groups. {suggest(inside, groups)}")
    if not all(0 <= level <= 1 for level in levels):
        raise SettingError(f"`levels` must lie between 0 and 1, got {tuple(levels)}.")
    scores = {name: entropies(prediction, name) for name, prediction in groups.items()}
    rows = []
    for name, found in scores.items():
        for score, values in found.items():
            apart = (float("nan"), float("nan")) if name == inside else auroc(scores[inside][score], values)
            rows.append(
                GroupScore(
                    group=name,
                    score=score,
                    count=len(values),
                    mean=float(values.mean()),
                    standard_error=standard_error(values),
                    quantiles=np.quantile(values, levels),
                    auroc=apart[0],
                    auroc_standard_error=apart[1],
                )
            )
    return UncertaintyTable(inside=inside, levels=tuple(levels), rows=tuple(rows))


def entropies(prediction: Any, name: str) -> dict[str, Float[np.ndarray, "rows"]]:
    """The three scores of each row, in nats; raises as `uncertainty_table` does, naming the group."""
    values = {score: getattr(prediction, score, None) for score in SCORES}
    lacking = [score for score, value in values.items() if value is None]
    if lacking:
        raise CapabilityError(
            f"The group {name!r} has no `{lacking[0]}`: entropies need predictions of a classifier, made by `predict`."
        )
    return {score: finite_array(np.asarray(value), f"{score} of {name!r}", 1) for score, value in values.items()}


def auroc(inside: Float[np.ndarray, "inside"], outside: Float[np.ndarray, "outside"]) -> tuple[float, float]:
    """Area under the ROC curve and its standard error (DeLong1988).

    Args:
        inside: scores of rows that should score low, at least one.
        outside: scores of rows that should score high, at least one.

    Returns:
        The probability that a random element of `outside` exceeds a random element of `inside` (ties count 1/2), and
        its standard error over the rows of both; NaN if either has a single row.
    """
    together = rankdata(np.concatenate([inside, outside]))
    below = (together[len(inside) :] - rankdata(outside)) / len(inside)  # fraction of `inside` below each outside row
    above = 1 - (together[: len(inside)] - rankdata(inside)) / len(outside)
    variance = standard_error(below) ** 2 + standard_error(above) ** 2
    return float(below.mean()), float(np.sqrt(variance))


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} +- {error:.3f}"
