"""Learning the preprocessing of a table from its training rows."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from ergonet._errors import DataError
from ergonet.datasets.columns import mean_and_sd, one_hot
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.validation import Label, as_labels, as_targets, shorten, sorted_labels


def learn(features: Mapping[str, np.ndarray], target: Any, *, task: str, target_names: Sequence[str]) -> Preprocessing:
    """Learn the preprocessing from the training rows.

    Args:
        features: Maps column names to entries [rows], in file order; anything but numbers and booleans is treated as
            categorical.
        target: Labels [rows] that `validation.label_classes` accepted, or numbers [rows, targets].
        task: ``"classification"`` or ``"regression"``.
        target_names: Names of the target columns.

    Returns:
        The preprocessing; constant columns are dropped with one warning that names them.

    Raises:
        DataError: Every input column is constant, or a regression target is constant.
    """
    dropped, categories = {}, {}
    means, scales = [], []
    for name, column in features.items():
        if column.dtype.kind in "biuf":
            encoded = column.astype(np.float64)[:, None]
        else:
            found = sorted_labels(as_labels(column, argument=f"column {name!r}"))
            categories[name] = found
            encoded = one_hot(column, found, column=name, argument="the training rows")
        mean, scale, constant = mean_and_sd(encoded)
        if constant.all():
            dropped[name] = column[0]
        else:
            means.append(mean)
            scales.append(scale)
    _report_constant(dropped, len(features))
    classes: tuple[Label, ...] = ()
    target_mean = target_sd = np.zeros(0)
    if task == "classification":
        classes = sorted_labels(as_labels(target, argument="the target"))
    else:
        target_mean, target_sd = _target_scale(target, target_names)
    return Preprocessing(
        task=task,
        feature_names=tuple(features),
        target_names=tuple(target_names),
        categories={name: found for name, found in categories.items() if name not in dropped},
        dropped=tuple(dropped),
        feature_mean=np.concatenate(means),
        feature_sd=np.concatenate(scales),
        target_mean=target_mean,
        target_sd=target_sd,
        classes=classes,
    )


def _target_scale(
    target: Any, target_names: Sequence[str]
) -> tuple[Float[np.ndarray, "targets"], Float[np.ndarray, "targets"]]:
    targets = as_targets(target, argument="the target", names=target_names)
    mean, sd, constant = mean_and_sd(targets)
    if constant.any():
        column = int(np.flatnonzero(constant)[0])
        raise DataError(
            f"Target column {target_names[column]!r} is constant: every training row has "
            f"{targets[0, column]:g}. There is nothing to learn; check that the right column was chosen."
        )
    return mean, sd


def _report_constant(dropped: Mapping[str, Any], count: int) -> None:
    if not dropped:
        return
    shown = shorten([f"{name!r} (always {value})" for name, value in dropped.items()])
    if len(dropped) == count:
        raise DataError(
            f"All {count} input columns are constant over the training rows: {shown}. "
            "There is nothing to learn from; check the file."
        )
    warnings.warn(
        f"Dropped {len(dropped)} constant column{'s' * (len(dropped) > 1)}: {shown}. "
        "They carry no information in the training rows.",
        UserWarning,
        stacklevel=4,
    )
