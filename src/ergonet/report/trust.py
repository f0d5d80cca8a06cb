"""The block of the report on whether the numbers of a regression can be trusted."""

from typing import Any

import numpy as np

from ergonet import plots
from ergonet.datasets.domain import UNUSUAL
from ergonet.prediction.calibration import rounding_steps
from ergonet.prediction.trust import (
    ResidualFigures,
    coverages,
    relative_errors,
    residual_figures,
    standardized_residuals,
)
from ergonet.report import wording
from ergonet.report.pictures import Picture, draw

COARSE = 0.1  # steps of rounded values, in predictive standard deviations, that intervals notice


def residuals(mean: np.ndarray, sd: np.ndarray, truth: np.ndarray, *, name: str, number: int) -> list[Picture]:
    """The picture of standardized residuals of a target; none if a standard deviation is 0 or there is one row."""
    if len(truth) < 2 or not (sd > 0).all():
        return []
    values = standardized_residuals(mean[:, None], sd[:, None], truth[:, None])
    found = residual_figures(values)
    return [
        Picture(
            title=f"Do the errors of {name} follow a normal distribution?",
            svg=draw(f"normal-{number}", lambda: plots.residual_histogram(values)),
            caption=f"The curve is that of normal errors; the outer bars contain all beyond. {_in_words(found)}",
            alternative=f"Histogram of standardized errors of {name}. {_in_words(found)}",
        )
    ]


def _in_words(found: ResidualFigures) -> str:
    return (
        f"They have the mean {found.mean:.2f} and the sd {found.sd:.2f}; if the model is right these are about 0 and "
        f"1. {100 * found.beyond_two:.1f} % exceed 2 and {100 * found.beyond_three:.1f} % exceed 3; of normal errors "
        f"4.6 % and 0.3 % do. Student-t noise has longer tails, and other likelihoods other shapes."
    )


def table(arrays: Any) -> list[dict[str, str]]:
    """Lines of a table: the figure, its value and what it means."""
    truth = np.asarray(arrays["truth"], np.float64)
    lines: list[dict[str, str]] = []
    if "quantiles" in arrays:
        is_coarse = (rounding_steps(truth) > COARSE * np.median(np.asarray(arrays["sd"], np.float64), axis=0)).any()
        more = "; for whole or rounded numbers, even correct intervals contain more" if is_coarse else ""
        lines += [
            {
                "name": f"true values inside the {100 * one.nominal:.0f} % interval",
                "value": f"{100 * one.found:.1f} %",
                "meaning": f"{100 * one.lower:.1f} % to {100 * one.upper:.1f} % with the chance of these rows{more}",
            }
            for one in coverages(arrays["quantiles"], arrays["levels"], truth)
        ]
    if truth.all():
        size = np.abs(relative_errors(np.asarray(arrays["mean"], np.float64), truth))
        middle, most = (wording.number(100 * float(one)) for one in (np.median(size), np.quantile(size, 0.9)))
        lines.append({"name": "relative error", "value": f"{middle} %", "meaning": f"median; 90 % are below {most} %"})
    if "usual" in arrays:
        share = float(np.mean(np.asarray(arrays["usual"]) < UNUSUAL))
        lines.append(
            {
                "name": "rows unlike the training rows",
                "value": f"{100 * share:.1f} %",
                "meaning": "farther from them than 99 % of them are from each other; about 1 % are expected",
            }
        )
    return lines
