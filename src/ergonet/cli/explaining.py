"""Explanations of a fit for its report: which columns matter, and how the prediction depends on them."""

from dataclasses import replace
from typing import Any

import numpy as np

from ergonet.baselines.comparison import seconds_for
from ergonet.cli.evaluation import Evaluation
from ergonet.datasets.dataset import Dataset
from ergonet.draws.samples import Samples
from ergonet.explanation.dependence import dependence_on
from ergonet.explanation.explained import Explained, few
from ergonet.explanation.importance import importance_of

MOST_PICTURES = 4
LEAST_SECONDS = 0.5


def with_explanation(
    found: Evaluation, samples: Samples, dataset: Dataset, model: Any, *, limit: float | None, left: float | None
) -> Evaluation:
    """Add the arrays of the section on what predictions depend on, described in `ergonet.report.RunRecord`.

    Images have none: their inputs are pixels.

    Args:
        found: the evaluation of the network.
        samples: draws from its posterior.
        dataset: the data set; importance needs test rows, and without them dependence is averaged over training rows.
        model: the `BayesianNetwork`.
        limit: the time limit of the fit; None: none.
        left: seconds left of it; None: the fit is over.
    """
    seconds = seconds_for(limit, left)
    if dataset.image_shape is not None or seconds < LEAST_SECONDS:
        return found
    explained = Explained(few(samples), model, dataset.preprocessing, dataset.preprocessing.classes)
    is_tested = len(dataset.x_test) > 0
    rows = dataset.x_test if is_tested else dataset.x_train
    columns, arrays = explained.columns(rows.shape[1]), dict(found.arrays)
    if is_tested:
        shown = importance_of(explained, (rows, dataset.y_test), columns, seconds=seconds)
        arrays["importance_names"] = np.asarray(shown.names)
        arrays["importance"] = np.stack([shown.loss, shown.standard_error, shown.repeats])
        columns = tuple(columns[index] for index in shown.order)
    settable = [one for one in explained.settable(rows.shape[1]) if one.can_vary]
    names = [one.name for column in columns for one in settable if set(one.indices) <= set(column.indices)]
    dependence = dependence_on(explained, rows, names[:MOST_PICTURES])
    arrays["dependence_names"] = np.asarray([one.name for one in dependence])
    for number, one in enumerate(dependence):
        arrays[f"dependence_{number}_values"] = one.values
        arrays[f"dependence_{number}"] = np.stack([one.mean, one.lower, one.upper])
    return replace(found, arrays=arrays)
