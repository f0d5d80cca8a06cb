"""The section of the report on predictions of the test rows and their uncertainty."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergonet import plots
from ergonet._errors import ErgonetError
from ergonet.plots.images import entropy, most_uncertain
from ergonet.prediction.calibration import CoverageCurve, coverage_curve, reliability_curve, transform_coverage
from ergonet.prediction.ecdf import transform_curve
from ergonet.prediction.trust import root_mean_squares
from ergonet.report import trust, wording
from ergonet.report.pictures import Picture, draw, image_address
from ergonet.report.record import RunRecord

_MOST_CLASSES = 12
_MOST_TARGETS = 3
_MOST_CARDS = 12
_MOST_ROWS = 10


def section(record: RunRecord) -> dict[str, Any]:
    """Collect what the template shows of the predictions.

    Returns:
        ``notice`` if there is nothing to show or it cannot be shown; otherwise ``kind`` and the entries of that kind.
    """
    evaluation = record.evaluation
    truth = evaluation.get("truth")
    if truth is None or len(truth) == 0:
        return {"notice": "No rows were held out for testing, so nothing can be said about new data. "
                "Fit with a test fraction or a test file to see scores here."}  # fmt: skip
    try:
        if "probabilities" in evaluation:
            return _classification(record)
        if "mean" in evaluation and "sd" in evaluation:
            return _regression(record)
    except ErgonetError as error:
        return {"notice": f"The predictions cannot be shown: {error}"}
    return {"notice": "The run recorded true values of the test rows, but no predictions for them."}


def _classification(record: RunRecord) -> dict[str, Any]:
    evaluation = record.evaluation
    probabilities, truth = np.asarray(evaluation["probabilities"], np.float64), evaluation["truth"]
    curve = reliability_curve(probabilities, truth)
    used, outside = np.count_nonzero(curve.counts), np.count_nonzero(curve.is_outside)
    names = class_names(record.metrics, probabilities.shape[1])
    reliability = Picture(
        title="Are the stated probabilities right?",
        svg=draw("reliability", lambda: plots.reliability_diagram(curve)),
        caption="Points on the dashed line are calibrated: 80 % of the rows predicted with 80 % are right. Of 95 of "
        f"100 right models, all points are within the gray bars; here {outside or 'none'} of {used} "
        f"{'is' if outside == 1 else 'are'} outside.",
        alternative=(
            "Fraction of correct predictions against stated probability. Mean distance from the diagonal: "
            f"{100 * curve.expected_calibration_error:.1f} %."
        ),
    )
    return {
        "kind": "classification",
        "pictures": [reliability],
        "bands": _confidence_bands(probabilities, truth),
        "sources": _entropy_sources(evaluation),
        "confusions": _confusions(probabilities, truth, names),
        "uncertain": _uncertain(evaluation, names),
    }


def class_names(metrics: Mapping[str, Any], count: int) -> list[str]:
    """Names of so many classes; numbers if they are unknown."""
    data = metrics.get("data")
    names = data.get("classes") if isinstance(data, Mapping) else None
    if isinstance(names, (list, tuple)) and len(names) == count:
        return [str(name) for name in names]
    return [str(index) for index in range(count)]


def _confidence_bands(probabilities: np.ndarray, truth: np.ndarray) -> list[dict[str, str]]:
    """Errors among the most certain half, the next 30 %, and the rest."""
    order = np.argsort(-probabilities.max(axis=1), kind="stable")
    wrong = probabilities.argmax(axis=1) != truth
    rows, bands = len(order), []
    limits = (("The surest half", 0.0, 0.5), ("The next 30 %", 0.5, 0.8), ("The least sure 20 %", 0.8, 1.0))
    for name, start, stop in limits:
        chosen = order[round(start * rows) : round(stop * rows)]
        if len(chosen):
            bands.append(
                {
                    "name": name,
                    "rows": wording.grouped(float(len(chosen))),
                    "wrong": str(int(wrong[chosen].sum())),
                    "share": f"{100 * wrong[chosen].mean():.1f} %",
                    "sure": f"{100 * probabilities[chosen].max(axis=1).mean():.0f} %",
                }
            )
    return bands


def _entropy_sources(evaluation: Mapping[str, np.ndarray]) -> str:
    noise, weights = evaluation.get("aleatoric"), evaluation.get("epistemic")
    if noise is None or weights is None or not np.mean(noise) + np.mean(weights) > 0:
        return ""
    share = 100 * float(np.mean(weights) / (np.mean(noise) + np.mean(weights)))
    return (
        f"About {share:.0f} % of the uncertainty in these predictions is epistemic: it comes from not knowing the "
        f"weights, and more data would reduce it. The other {100 - share:.0f} % is aleatoric: the classes overlap in "
        f"the inputs."
    )


def _confusions(probabilities: np.ndarray, truth: np.ndarray, names: list[str]) -> dict[str, Any]:
    count = len(names)
    predicted = probabilities.argmax(axis=1)
    matrix = np.bincount(truth * count + predicted, minlength=count * count).reshape(count, count)
    off = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-off.ravel(), kind="stable")[:5]
    frequent = [
        f"{names[cell // count]} predicted as {names[cell % count]} ({off.ravel()[cell]})"
        for cell in order
        if off.ravel()[cell] > 0
    ]
    table = None
    if count <= _MOST_CLASSES:
        largest = max(int(off.max()), 1)
        table = [
            {
                "name": names[row],
                "cells": [
                    {"count": int(n), "right": row == column, "shade": round(0.1 + 0.4 * n / largest, 2)}
                    for column, n in enumerate(matrix[row])
                ],
            }
            for row in range(count)
        ]
    return {"names": names, "table": table, "frequent": frequent}


def _uncertain(evaluation: Mapping[str, np.ndarray], names: list[str]) -> dict[str, Any]:
    probabilities, truth = evaluation["probabilities"], evaluation["truth"]
    images = evaluation.get("images")
    shown = most_uncertain(probabilities, _MOST_CARDS if images is not None else _MOST_ROWS)
    numbers = _row_numbers(evaluation, len(truth))
    rows = []
    for row in shown:
        likeliest = np.argsort(-probabilities[row], kind="stable")[:3]
        rows.append(
            {
                "number": str(numbers[row]),
                "truth": names[truth[row]],
                "right": bool(likeliest[0] == truth[row]),
                "image": image_address(images[row]) if images is not None else "",
                "entropy": f"{entropy(probabilities[row : row + 1])[0]:.2f}",
                "classes": [
                    {
                        "name": names[index],
                        "text": f"{100 * probabilities[row, index]:.0f} %",
                        "width": f"{100 * probabilities[row, index]:.1f}",
                        "true": bool(index == truth[row]),
                    }
                    for index in likeliest
                ],
            }
        )
    return {"images": images is not None, "rows": rows}


def _row_numbers(evaluation: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    numbers = evaluation.get("test_rows")
    return np.arange(count) if numbers is None or len(numbers) != count else numbers


def _regression(record: RunRecord) -> dict[str, Any]:
    evaluation = record.evaluation
    mean, sd, truth = (_columns(evaluation[name]) for name in ("mean", "sd", "truth"))
    names = wording.target_names(record.metrics, truth.shape[1])
    lower, upper, level = _interval(evaluation, mean, sd)
    errors = root_mean_squares(mean, truth)
    targets = []
    for target in range(min(truth.shape[1], _MOST_TARGETS)):
        column = {"mean": mean, "sd": sd, "truth": truth, "lower": lower, "upper": upper}
        one = {name: values[:, target] for name, values in column.items()}
        targets.append(
            {
                "name": names[target],
                "pictures": [
                    *_target_pictures(one, names[target], level, number=target),
                    *trust.residuals(one["mean"], one["sd"], one["truth"], name=names[target], number=target),
                ],
                "rows": _widest(one, _row_numbers(evaluation, len(truth))),
                "rmse": wording.number(float(errors[target])),
                "spread": wording.number(float(np.std(one["truth"]))),
                "sources": _variance_sources(evaluation, sd, target),
            }
        )
    return {
        "kind": "regression",
        "pictures": _calibration(evaluation, truth),
        "targets": targets,
        "level": level,
        "trust": trust.table({**evaluation, "mean": mean, "truth": truth}),
        "left_out": max(truth.shape[1] - _MOST_TARGETS, 0),
    }


def _columns(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values, dtype=np.float64)
    return values[:, None] if values.ndim == 1 else values


def _interval(
    evaluation: Mapping[str, np.ndarray], mean: np.ndarray, sd: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """The central interval closest to 90 % among the quantiles, or else a normal interval."""
    levels = np.asarray(evaluation.get("levels", ()), dtype=np.float64)
    if "quantiles" in evaluation and levels.size:
        low, high = int(np.argmin(np.abs(levels - 0.05))), int(np.argmin(np.abs(levels - 0.95)))
        if levels[low] < levels[high]:
            quantiles = np.asarray(evaluation["quantiles"], np.float64)
            quantiles = quantiles.reshape(len(levels), *mean.shape)
            return quantiles[low], quantiles[high], f"{100 * (levels[high] - levels[low]):.0f} %"
    return mean - 1.645 * sd, mean + 1.645 * sd, "90 %"


def _calibration(evaluation: Mapping[str, np.ndarray], truth: np.ndarray) -> list[Picture]:
    if "transform" in evaluation:
        transform = np.asarray(evaluation["transform"])
        return [_coverage(transform_coverage(transform)), _transform(transform)]
    if "quantiles" not in evaluation:
        return []
    levels = [float(level) for level in evaluation["levels"]]
    quantiles = np.asarray(evaluation["quantiles"]).reshape(len(levels), *truth.shape)
    return [_coverage(coverage_curve(quantiles, levels, truth))]


def _transform(transform: np.ndarray) -> Picture:
    """Whether the transform is uniform: its distribution function, or of several targets together a histogram."""
    title = "Are the stated distributions right?"
    if transform.shape[1] == 1:
        curve = transform_curve(transform)
        found = "stays in" if curve.is_calibrated else "leaves"
        return Picture(
            title=title,
            svg=draw("transform", lambda: plots.transform_curve_plot(curve)),
            caption=f"The line {found} the band, in which that of 95 of 100 right models stays. Predictions are too "
            "sure if it is above 0 on the left and below 0 on the right, too cautious the other way round, too high if "
            "it is above 0 everywhere, and too low if it is below.",
            alternative="Share of test rows with a stated probability of at most the true value below each level, "
            f"minus the level. The line {found} the band that chance allows.",
        )
    quarters = np.histogram(transform, 4, (0.0, 1.0))[0] / transform.size
    said = ", ".join(f"{100 * share:.0f} %" for share in quarters)
    return Picture(
        title=title,
        svg=draw("transform", lambda: plots.transform_histogram(transform)),
        caption="The bars should be equally high. A hill says that predictions are too cautious, a valley that they "
        "are too sure, a slope that they are too low or too high.",
        alternative="Histogram of the stated probability of at most the true value. From left to right, the quarters "
        f"of the range have {said} of the test rows.",
    )


def _coverage(curve: CoverageCurve) -> Picture:
    said = ", ".join(
        f"{100 * found:.0f} % inside the {100 * stated:.0f} % interval"
        for stated, found in zip(curve.nominal, curve.coverage, strict=True)
    )
    return Picture(
        title="Do the intervals have the stated coverage?",
        svg=draw("coverage", lambda: plots.coverage_plot(curve)),
        caption="Points on the dashed line are calibrated: 90 % intervals contain 90 % of the true values.",
        alternative=f"Fraction of truths inside intervals against their stated probability: {said}.",
    )


def _target_pictures(one: dict[str, np.ndarray], name: str, level: str, *, number: int) -> list[Picture]:
    mean, truth = one["mean"], one["truth"]
    inside = float(np.mean((one["lower"] <= truth) & (truth <= one["upper"])))
    far = float(np.mean(np.abs(truth - mean) > 2 * one["sd"]))
    return [
        Picture(
            title=f"How close are the predictions of {name}?",
            svg=draw(
                f"truth-{number}",
                lambda: plots.prediction_vs_truth(mean, truth, one["lower"], one["upper"], name=name),
            ),
            caption=f"Each line is the {level} interval of a row. It should cross the dashed diagonal in {level} of "
            "rows.",
            alternative=f"Scatter plot of predicted against true {name}. {100 * inside:.0f} % of the intervals contain "
            "the true value.",
        ),
        Picture(
            title=f"Is the stated uncertainty of {name} right everywhere?",
            svg=draw(
                f"residuals-{number}",
                lambda: plots.residual_plot(mean, truth, one["sd"], name=name),
            ),
            caption="Errors in units of the stated uncertainty: about 19 in 20 should lie in the band, without a curve "
            "or funnel from left to right.",
            alternative=f"Scatter plot of standardized errors of {name}. {100 * far:.0f} % exceed two stated standard "
            "deviations.",
        ),
    ]


def _widest(one: dict[str, np.ndarray], numbers: np.ndarray) -> list[dict[str, str]]:
    order = np.argsort(-one["sd"], kind="stable")[:_MOST_ROWS]
    return [
        {
            "number": str(numbers[row]),
            "mean": wording.number(float(one["mean"][row]), 4),
            "sd": wording.number(float(one["sd"][row])),
            "lower": wording.number(float(one["lower"][row])),
            "upper": wording.number(float(one["upper"][row])),
            "truth": wording.number(float(one["truth"][row]), 4),
            "inside": "yes" if one["lower"][row] <= one["truth"][row] <= one["upper"][row] else "no",
        }
        for row in order
    ]


def _variance_sources(evaluation: Mapping[str, np.ndarray], sd: np.ndarray, target: int) -> str:
    noise = evaluation.get("noise_sd")
    if noise is None or not (sd[:, target] > 0).any():
        return ""
    try:
        variance = np.square(np.broadcast_to(np.asarray(noise, np.float64), sd.shape)[:, target])
    except ValueError:
        return ""
    share = 100 * float(np.clip(1 - variance.sum() / np.square(sd[:, target]).sum(), 0.0, 1.0))
    return (
        f"About {share:.0f} % of the predictive variance comes from not knowing the weights, which more data would "
        f"reduce, and {100 - share:.0f} % from noise in the target."
    )
