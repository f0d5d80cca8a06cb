"""Does a classifier know what it does not know? Entropies of groups of inputs, and how well they tell groups apart.

The entropy of the predicted class is the mean entropy of the draws (aleatoric: the draws agree that the classes overlap
there) plus the mutual information of class and draw (epistemic: the draws disagree, which more data could end).
Source: Depeweg et al. 2018, Decomposition of uncertainty in Bayesian deep learning.
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
"""Fields of a prediction, and the words for them in tables."""


@dataclass(frozen=True)
class GroupScore:
    """One score of one group of inputs.

    Attributes:
        group: its name.
        score: ``entropy``, ``expected_entropy`` (aleatoric) or ``mutual_information`` (epistemic).
        count: rows of the group.
        mean: over rows, in nats.
        standard_error: of the mean over rows; NaN for one row.
        quantiles: over rows, in nats, ``[level]``.
        auroc: the chance that a row of this group scores higher than one of the group inside, ties counted half: 1
            tells them apart perfectly, 1/2 not at all; NaN for the group inside itself.
        auroc_standard_error: of it, over the rows of both groups (DeLong, DeLong and Clarke-Pearson 1988); NaN where a
            group has one row.
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
        inside: the group that the model was made for.
        levels: probabilities of the quantiles.
        rows: group by group, each with the three scores.
    """

    inside: str
    levels: tuple[float, ...]
    rows: tuple[GroupScore, ...]

    def row(self, group: str, score: str = "entropy") -> GroupScore:
        """One row; raises `SettingError` where there is none."""
        found = next((one for one in self.rows if (one.group, one.score) == (group, score)), None)
        if found is None:
            groups = dict.fromkeys(one.group for one in self.rows)
            raise SettingError(f"`row({group!r}, {score!r})`: {suggest(group, groups)} {suggest(score, SCORES)}")
        return found

    def to_markdown(self) -> str:
        """The table for a page, with nats to three digits."""
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
    """Entropies of groups of inputs, and how well each of them tells a group from the one inside.

    Args:
        groups: name to a `Prediction` of a classification, such as test rows, images of another kind, noise.
        inside: the name of the group that the model was made for.
        levels: probabilities of the quantiles over rows, each from 0 to 1.

    Returns:
        Three rows for each group, in the order given.

    Raises:
        CapabilityError: a prediction has no entropies: it is of reals.
        DataError: a group has no rows, or an entropy is not finite.
        SettingError: there is no group `inside`, or a level is out of its range.
    """
    if inside not in groups:
        raise SettingError(f"`inside={inside!r}` is none of the groups. {suggest(inside, groups)}")
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
    """The three scores of each row, in nats; errors as of `uncertainty_table`, with the name of the group."""
    values = {score: getattr(prediction, score, None) for score in SCORES}
    lacking = [score for score, value in values.items() if value is None]
    if lacking:
        raise CapabilityError(
            f"The group {name!r} has no `{lacking[0]}`: entropies need predictions of a classification by `predict`."
        )
    return {score: finite_array(np.asarray(value), f"{score} of {name!r}", 1) for score, value in values.items()}


def auroc(inside: Float[np.ndarray, "inside"], outside: Float[np.ndarray, "outside"]) -> tuple[float, float]:
    """The area under the receiver operating curve, and its standard error.

    Args:
        inside: scores of rows that should score low, at least one.
        outside: scores of rows that should score high, at least one.

    Returns:
        The chance that a random one of `outside` exceeds a random one of `inside` (ties count half), and its standard
        error over the rows of both; NaN where either has one row.
    """
    together = rankdata(np.concatenate([inside, outside]))
    below = (together[len(inside) :] - rankdata(outside)) / len(inside)  # share of `inside` below each outside row
    above = 1 - (together[: len(inside)] - rankdata(inside)) / len(outside)
    variance = standard_error(below) ** 2 + standard_error(above) ** 2
    return float(below.mean()), float(np.sqrt(variance))


def _with_error(value: float, error: float) -> str:
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} +- {error:.3f}"
