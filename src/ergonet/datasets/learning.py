"""Learning the preprocessing of a table from its training rows."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from ergonet._errors import LONGEST_SHOWN, DataError
from ergonet.datasets.columns import extreme_row, mean_and_sd, one_hot
from ergonet.datasets.preprocessing import UNSCALED, Preprocessing
from ergonet.datasets.validation import Label, as_labels, as_targets, row_name, shorten, sorted_labels

_MOST_EXTREMES = 5  # named in one warning


def learn(
    features: Mapping[str, np.ndarray],
    target: Any,
    *,
    task: str,
    target_names: Sequence[str],
    rows: Int[np.ndarray, "rows"] | None = None,
) -> Preprocessing:
    """Learn the preprocessing from the training rows.

    Args:
        features: Maps column names to entries [rows], in file order; anything but numbers and booleans is treated as
            categorical.
        target: Labels [rows] that `validation.label_classes` accepted, or numbers [rows, targets].
        task: ``"classification"`` or ``"regression"``.
        target_names: Names of the target columns.
        rows: Index of each training row in the user's table, for messages; None: they are the table.

    Returns:
        The preprocessing; constant columns are dropped with one warning that names them, and one warning names values
        beside which the others look alike.

    Raises:
        DataError: Every input column is constant, or a regression target is constant.
    """
    dropped, categories, extremes = {}, {}, []
    means, scales = [], []
    for name, column in features.items():
        if column.dtype.kind in "biuf":
            encoded = column.astype(np.float64)[:, None]
            extremes += _extreme(name, encoded[:, 0], rows)
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
    if extremes:
        warnings.warn(
            f"{' '.join(extremes[:_MOST_EXTREMES])} Beside such a value all others look alike to the network. Correct "
            "it, remove the row, or transform the column, for example by a logarithm.",
            UserWarning,
            stacklevel=3,
        )
    target_mean = target_sd = np.zeros(0)
    if task == "regression":
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
        classes=_classes(target, task),
    )


def unscaled(
    features: Mapping[str, np.ndarray], target: Any, *, task: str, target_names: Sequence[str]
) -> Preprocessing:
    """The preprocessing of data that are used as they are, in single precision; arguments as of `learn`.

    Raises:
        DataError: A column varies, but not in single precision.
    """
    num_targets = len(target_names) if task == "regression" else 0
    columns = dict(features)
    if task == "regression":
        columns |= dict(zip(target_names, as_targets(target, argument="the target", names=target_names).T, strict=True))
    for name, column in columns.items():
        _check_resolved(name, column)
    return Preprocessing(
        task=task,
        feature_names=tuple(features),
        target_names=tuple(target_names),
        categories={},
        dropped=(),
        feature_mean=np.zeros(len(features)),
        feature_sd=np.ones(len(features)),
        target_mean=np.zeros(num_targets),
        target_sd=np.ones(num_targets),
        classes=_classes(target, task),
        scaling=UNSCALED,
    )


def _check_resolved(name: str, column: np.ndarray) -> None:
    with np.errstate(over="ignore"):
        single = column.astype(np.float32)
    if np.isfinite(single).all() and np.all(single == single[0]) and not np.all(column == column[0]):
        raise DataError(
            f"Column {name!r} has values from {column.min():.17g} to {column.max():.17g}, which are all {single[0]:g} "
            "in single precision. Standardize it, or change its unit."
        )


def _classes(target: Any, task: str) -> tuple[Label, ...]:
    return sorted_labels(as_labels(target, argument="the target")) if task == "classification" else ()


def _extreme(name: str, column: Float[np.ndarray, "rows"], rows: Int[np.ndarray, "rows"] | None) -> list[str]:
    """A sentence about the extreme value of a column, if there is one."""
    row = extreme_row(column)
    if row is None:
        return []
    low, high = np.quantile(column, [0.25, 0.75])
    where = row_name(row if rows is None else int(rows[row]))
    return [f"Column {name!r} has {column[row]:g} at {where}, but half of its values lie from {low:g} to {high:g}."]


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
    shown = shorten([f"{name!r} (always {str(value)[:LONGEST_SHOWN]})" for name, value in dropped.items()])
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
