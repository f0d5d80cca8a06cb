"""Learning the preprocessing of a table from its training rows."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from ergonet._errors import LONGEST_SHOWN, DataError
from ergonet.datasets.choosing import Decided
from ergonet.datasets.columns import extreme_row, mean_and_sd
from ergonet.datasets.dates import PARTS
from ergonet.datasets.encoding import Encoder, labels_of
from ergonet.datasets.kinds import CATEGORICAL, DATE, EMBEDDED, IDENTIFIER, NUMERIC, REFUSE, UNUSED
from ergonet.datasets.preprocessing import UNSCALED, Preprocessing, in_order
from ergonet.datasets.transforms import AbstractTransform, require_regression, transformed
from ergonet.datasets.validation import Label, as_labels, as_targets, row_name, shorten, sorted_labels

Scale = tuple[np.ndarray, np.ndarray, np.ndarray]  # mean, standard deviation, smallest and largest value
Scaling = Callable[[np.ndarray], tuple[np.ndarray, ...]]
_MOST_EXTREMES = 5  # named in one warning


def learn(
    features: Mapping[str, np.ndarray],
    target: Any,
    *,
    task: str,
    target_names: Sequence[str],
    decided: Decided | None = None,
    target_scaling: Scaling | None = None,
    target_transform: AbstractTransform | None = None,
) -> Preprocessing:
    """Learn the preprocessing from the training rows.

    Args:
        features: Maps column names to entries [rows], in file order.
        target: Labels [rows] that `validation.label_classes` accepted, or numbers [rows, targets].
        task: ``"classification"``, ``"regression"`` or ``"count"``.
        target_names: Names of the target columns.
        decided: Kinds of the columns; None: anything but numbers and booleans is categorical.
        target_scaling: Gives what is subtracted from the targets [rows, targets] of a regression, and by what they are
            then divided; None: their means and standard deviations. Counts are not scaled.
        target_transform: What is applied to the targets of a regression before; None: nothing.

    Returns:
        The preprocessing; constant columns are dropped with one warning that names them, and one warning names values
        beside which the others look alike.

    Raises:
        DataError: Every input column is constant, a regression target is constant, or the transform is not defined for
            it.
        SettingError: There is a transform, and the task is no regression.
    """
    require_regression(target_transform, task)
    decided = Decided({name: _usual_kind(column) for name, column in features.items()}) if decided is None else decided
    dropped, constant, encoders, extremes = [], {}, {}, []
    scales: dict[str, Scale] = {}
    for name, column in features.items():
        kind = decided.kinds[name]
        if kind in (UNUSED, IDENTIFIER):
            dropped.append(name)
            encoders[name] = Encoder(kind=kind)
            continue
        encoder = _encoder(name, column, decided)
        encoded = None if encoder is None else encoder.encode(column, column=name, argument="the training rows")
        scale = None if encoded is None or encoder is None else _scale(encoded, encoder)
        if encoder is None or encoded is None or scale is None:
            dropped.append(name)
            constant[name] = column[0]
            continue
        if kind == NUMERIC:
            extremes += _extreme(name, encoded[:, 0])
        if encoder != Encoder():
            encoders[name] = encoder
        scales[name] = scale
    _report_constant(constant, left=len(scales))
    if extremes:
        warnings.warn(
            f"{' '.join(extremes[:_MOST_EXTREMES])} Beside such a value all others look alike to the network. Correct "
            "it, remove the row, or transform the column, for example by a logarithm.",
            UserWarning,
            stacklevel=3,
        )
    order = in_order(scales, encoders)
    target_mean = target_sd = np.zeros(0)
    if task != "classification":
        targets = transformed(target_transform, _varying(target, target_names), target_names)
        target_mean, target_sd = (target_scaling or mean_and_sd)(targets)[:2]
        if task == "count":
            target_mean, target_sd = np.zeros_like(target_mean), np.ones_like(target_sd)
    return Preprocessing(
        task=task,
        feature_names=tuple(features),
        target_names=tuple(target_names),
        encoders=encoders,
        dropped=tuple(dropped),
        feature_mean=np.concatenate([scales[name][0] for name in order]),
        feature_sd=np.concatenate([scales[name][1] for name in order]),
        target_mean=target_mean,
        target_sd=target_sd,
        classes=_classes(target, task),
        feature_range=np.concatenate([scales[name][2] for name in order], axis=1),
        target_transform=target_transform,
    )


def _usual_kind(column: np.ndarray) -> str:
    return NUMERIC if column.dtype.kind in "biuf" else CATEGORICAL


def _encoder(name: str, column: np.ndarray, decided: Decided) -> Encoder | None:
    """Learn the encoder of a column; None if it has at most one category, or no entry at all."""
    kind, refuses = decided.kinds[name], decided.choices.missing == REFUSE
    if kind == CATEGORICAL:
        found = sorted_labels(labels_of(column, column=name, argument="the training rows", refuses=refuses))
        if len(found) < 2:
            return None
        kind = CATEGORICAL if len(found) <= decided.choices.one_hot_limit else EMBEDDED
        return Encoder(kind=kind, categories=found, refuses=refuses)
    encoder = Encoder(kind=kind, categories=decided.levels.get(name, ()), form=decided.forms.get(name, ""))
    if name in decided.gaps:
        numbers = replace(encoder, fill=0.0).numbers(column, column=name, argument="the training rows")
        if np.isnan(numbers).all():
            return None
        middle = np.nanquantile(numbers, 0.5, method="lower") if kind == DATE else np.nanmedian(numbers)
        encoder = replace(encoder, fill=float(middle))  # a date that occurs, and not the noon between two days
    if kind == DATE:
        every = replace(encoder, parts=PARTS).encode(column, column=name, argument="the training rows")
        varies = ~mean_and_sd(every)[2][: len(PARTS)]
        encoder = replace(encoder, parts=tuple(part for part, one in zip(PARTS, varies, strict=True) if one))
    return encoder


def _scale(encoded: Float[np.ndarray, "rows inputs"], encoder: Encoder) -> "Scale | None":
    """Mean and standard deviation of the inputs of a column; None if all are constant."""
    mean, sd, constant = mean_and_sd(encoded)
    if encoder.kind == EMBEDDED:
        return np.zeros(1), np.ones(1), np.stack([encoded.min(axis=0), encoded.max(axis=0)])
    if encoder.kind == CATEGORICAL:  # the input of unseen categories has the scale of the others on average
        mean[-1], sd[-1] = 0.0, np.sqrt(np.mean(sd[:-1] ** 2))
    ranges = np.stack([encoded.min(axis=0), encoded.max(axis=0)])
    return None if constant.all() else (mean, sd, ranges)


def unscaled(
    features: Mapping[str, np.ndarray],
    target: Any,
    *,
    task: str,
    target_names: Sequence[str],
    target_transform: AbstractTransform | None = None,
) -> Preprocessing:
    """The preprocessing of data that are used as they are, in single precision; arguments as of `learn`.

    Raises:
        DataError: A column varies, but not in single precision; or the transform is not defined for a target.
        SettingError: There is a transform, and the task is no regression.
    """
    require_regression(target_transform, task)
    num_targets = len(target_names) if task != "classification" else 0
    columns = dict(features)
    if task != "classification":
        targets = as_targets(target, argument="the target", names=target_names)
        columns |= dict(zip(target_names, transformed(target_transform, targets, target_names).T, strict=True))
    for name, column in columns.items():
        _check_resolved(name, column)
    return Preprocessing(
        task=task,
        feature_names=tuple(features),
        target_names=tuple(target_names),
        dropped=(),
        feature_mean=np.zeros(len(features)),
        feature_sd=np.ones(len(features)),
        target_mean=np.zeros(num_targets),
        target_sd=np.ones(num_targets),
        classes=_classes(target, task),
        scaling=UNSCALED,
        feature_range=np.array([[float(one.min()), float(one.max())] for one in features.values()]).T,
        target_transform=target_transform,
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


def _extreme(name: str, column: Float[np.ndarray, "rows"]) -> list[str]:
    """A sentence about the extreme value of a column, if there is one."""
    row = extreme_row(column)
    if row is None:
        return []
    low, high = np.quantile(column, [0.25, 0.75])
    return [
        f"Column {name!r} has {column[row]:g} at {row_name(row)}, but half of its values lie from {low:g} to {high:g}."
    ]


def _varying(target: Any, target_names: Sequence[str]) -> Float[np.ndarray, "rows targets"]:
    """The targets; raises `DataError` if a column is constant."""
    targets = as_targets(target, argument="the target", names=target_names)
    constant = mean_and_sd(targets)[2]
    if constant.any():
        column = int(np.flatnonzero(constant)[0])
        raise DataError(
            f"Target column {target_names[column]!r} is constant: every training row has "
            f"{targets[0, column]:g}. There is nothing to learn; check that the right column was chosen."
        )
    return targets


def _report_constant(dropped: Mapping[str, Any], *, left: int) -> None:
    if not dropped:
        return
    shown = shorten([f"{name!r} (always {str(value)[:LONGEST_SHOWN]})" for name, value in dropped.items()])
    if not left:
        raise DataError(
            f"All {len(dropped)} input columns are constant over the training rows: {shown}. "
            "There is nothing to learn from; check the file."
        )
    warnings.warn(
        f"Dropped {len(dropped)} constant column{'s' * (len(dropped) > 1)}: {shown}. "
        "A column that is always the same says nothing about the target.",
        UserWarning,
        stacklevel=4,
    )
