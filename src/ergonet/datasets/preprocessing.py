"""The transformation of columns learned from the training rows, applied to new rows in the same way.

Numeric columns are standardized with the mean and standard deviation of the training rows; categorical columns are
first encoded as one 0/1 column per category. Columns that are constant over the training rows are dropped. Nothing is
pickled: `Preprocessing.to_dict` returns JSON types only.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Int32, Shaped

from ergonet._errors import CapabilityError, DataError, RunDirectoryError
from ergonet.datasets.columns import one_hot, select_columns
from ergonet.datasets.validation import (
    Label,
    as_labels,
    as_numbers,
    as_targets,
    capital,
    check_finite,
    encode_labels,
    row_name,
)

Predicted = Float[np.ndarray, "... rows targets"]
SCHEMA_VERSION = 1
UNSCALED = "none"
LARGEST = float(np.finfo(np.float64).max)
FAR = 1e4  # standard deviations, more than the square root of the number of training rows
PER_COLUMN_SCALING = "each input column minus its training mean, divided by its training standard deviation"


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """Everything that prediction on new rows needs besides the draws.

    Attributes:
        task: ``"classification"`` or ``"regression"``.
        feature_names: Input columns in the order of the user's file, dropped ones included.
        target_names: Target columns; one for classification.
        categories: Maps the names of one-hot encoded columns to their categories.
        dropped: Input columns that were constant over the training rows.
        feature_mean: Mean of each network input before scaling, Float64 [encoded].
        feature_sd: Standard deviation of each network input before scaling, above 0, Float64 [encoded].
        target_mean: Regression: mean of each target, Float64 [targets]; classification: 0 entries.
        target_sd: Regression: standard deviation of each target; classification: 0 entries.
        classes: Classification: the user's labels by class index; regression: empty.
        scaling: Description of the scaling, for readers.
    """

    task: str
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    categories: Mapping[str, tuple[Label, ...]]
    dropped: tuple[str, ...]
    feature_mean: Float[np.ndarray, "encoded"]
    feature_sd: Float[np.ndarray, "encoded"]
    target_mean: Float[np.ndarray, "targets"]
    target_sd: Float[np.ndarray, "targets"]
    classes: tuple[Label, ...]
    scaling: str = PER_COLUMN_SCALING

    @property
    def kept(self) -> tuple[str, ...]:
        """The user's columns that are used, in file order."""
        dropped = set(self.dropped)
        return tuple(name for name in self.feature_names if name not in dropped)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the network inputs: ``age``, or ``city=Bern`` for a category."""
        return tuple(
            f"{name}={one}" if one is not None else name
            for name in self.kept
            for one in self.categories.get(name, (None,))
        )

    def transform(self, table: Any, *, argument: str = "the new data") -> Float32[np.ndarray, "rows encoded"]:
        """Scale new rows in the same way as the training rows.

        Args:
            table: A pandas DataFrame (columns are matched by name, in any order; extra columns are ignored with a
                warning), or an array [rows, raw_features] with the columns of `feature_names` in order.
            argument: Name of the table in messages.

        Returns:
            Network inputs, Float32 [rows, encoded]. A warning names the first value that is more than 10 000 standard
            deviations from the mean of the training rows.

        Raises:
            DataError: A column is missing, an entry is missing, infinite or not a number, or a category does not occur
                in the training rows; names column, first row, value and count.
        """
        columns = select_columns(
            table, self.feature_names, unused=self.dropped, ignored=self.target_names, argument=argument
        )
        parts = []
        for name in self.kept:
            if name in self.categories:
                parts.append(one_hot(columns[name], self.categories[name], column=name, argument=argument))
            else:
                numbers = as_numbers(columns[name], column=name, argument=argument)
                check_finite(numbers[:, None], argument=argument, names=[name])
                parts.append(numbers[:, None])
        encoded = np.concatenate(parts, axis=1)
        with np.errstate(over="ignore"):
            scaled = ((encoded - self.feature_mean) / self.feature_sd).astype(np.float32)
        _check_range(scaled, encoded, names=self.encoded_names, argument=argument)
        if self.scaling != UNSCALED:
            _warn_of_far_rows(scaled, encoded, names=self.encoded_names, argument=argument)
        return scaled

    def transform_target(
        self, values: Any, *, argument: str = "the target"
    ) -> Int32[np.ndarray, "rows"] | Float32[np.ndarray, "rows targets"]:
        """Convert labels to class indices, or standardize real targets.

        Args:
            values: Labels [rows] or [rows, 1]; or numbers [rows] or [rows, targets].
            argument: Name of the values in messages.

        Returns:
            Int32 [rows] for classification, Float32 [rows, targets] for regression.

        Raises:
            DataError: An entry is missing, infinite, not a number, too large for float32 after scaling, or a label
                that does not occur in the training rows.
        """
        if self.task == "classification":
            return encode_labels(as_labels(values, argument=argument), self.classes, argument=argument)
        targets = as_targets(values, argument=argument, names=self.target_names)
        if targets.shape[1] != len(self.target_names):
            raise DataError(
                f"{capital(argument)} has {targets.shape[1]} columns, training had {len(self.target_names)}: "
                f"{', '.join(self.target_names)}."
            )
        with np.errstate(over="ignore"):
            scaled = ((targets - self.target_mean) / self.target_sd).astype(np.float32)
        _check_range(scaled, targets, names=self.target_names, argument=argument)
        return scaled

    def inverse_mean(self, standardized: Any) -> Predicted:
        """Convert predicted locations (means, quantiles, draws) to the user's units.

        Args:
            standardized: Values on the network's scale, [..., rows, targets].

        Returns:
            Float64 of the same shape.

        Raises:
            CapabilityError: The task is classification.
        """
        self._require_regression("inverse_mean")
        return np.asarray(standardized, dtype=np.float64) * self.target_sd + self.target_mean

    def inverse_sd(self, standardized: Any) -> Predicted:
        """Convert predicted standard deviations to the user's units; see `inverse_mean`."""
        self._require_regression("inverse_sd")
        return np.asarray(standardized, dtype=np.float64) * self.target_sd

    def labels(self, index: Any) -> Shaped[np.ndarray, "..."]:
        """Convert class indices to the user's labels, in the shape of `index`.

        Raises:
            CapabilityError: The task is regression.
        """
        if self.task != "classification":
            raise CapabilityError("`labels` needs a classification task, but this is a regression.")
        return np.array(self.classes)[np.asarray(index, dtype=np.int64)]

    def _require_regression(self, method: str) -> None:
        if self.task != "regression":
            raise CapabilityError(f"`{method}` needs a regression task: class probabilities have no units.")

    def to_dict(self) -> dict[str, Any]:
        """Convert the record to JSON types, with the version of its layout."""
        return {
            "version": SCHEMA_VERSION,
            "task": self.task,
            "feature_names": list(self.feature_names),
            "target_names": list(self.target_names),
            "categories": {name: list(found) for name, found in self.categories.items()},
            "dropped": list(self.dropped),
            "feature_mean": self.feature_mean.tolist(),
            "feature_sd": self.feature_sd.tolist(),
            "target_mean": self.target_mean.tolist(),
            "target_sd": self.target_sd.tolist(),
            "classes": list(self.classes),
            "scaling": self.scaling,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Preprocessing":
        """Restore the result of `to_dict`, bit for bit.

        Raises:
            RunDirectoryError: The layout has another version, or a part is missing or not as `to_dict` writes it.
        """
        if record.get("version") != SCHEMA_VERSION:
            raise RunDirectoryError(
                f"The preprocessing record has version {record.get('version')!r}, but this version of Ergonet reads "
                f"version {SCHEMA_VERSION}. Use the version of Ergonet that wrote the run, or fit again."
            )
        parts = [name for name in cls.__dataclass_fields__ if name not in record]
        if parts:
            raise RunDirectoryError(f"The preprocessing record lacks {', '.join(parts)}. Fit again.")
        categories = record["categories"]
        _require(isinstance(record["scaling"], str), "scaling", "text")
        _require(isinstance(categories, Mapping), "categories", "a table")
        restored = cls(
            task=record["task"],
            feature_names=_texts(record, "feature_names"),
            target_names=_texts(record, "target_names"),
            categories={str(name): _labels(categories, name) for name in categories},
            dropped=_texts(record, "dropped"),
            feature_mean=_numbers(record, "feature_mean"),
            feature_sd=_numbers(record, "feature_sd"),
            target_mean=_numbers(record, "target_mean"),
            target_sd=_numbers(record, "target_sd"),
            classes=_labels(record, "classes"),
            scaling=record["scaling"],
        )
        restored._check()
        return restored

    def _check(self) -> None:
        """Check that the parts fit together; raises `RunDirectoryError`."""
        is_regression, encoded = self.task == "regression", len(self.encoded_names)
        targets = len(self.target_names) if is_regression else 0
        _require(self.task in ("regression", "classification"), "task", "regression or classification")
        _require(len(set(self.feature_names)) == len(self.feature_names), "feature_names", "different names")
        _require({*self.dropped, *self.categories} <= {*self.feature_names}, "dropped", "names of input columns")
        _require(encoded >= 1 and len(self.target_names) >= 1, "feature_names", "at least one input and one target")
        _require(is_regression == (not self.classes) and len(self.classes) != 1, "classes", "the labels of two classes")
        _require(self.feature_mean.shape == self.feature_sd.shape == (encoded,), "feature_mean", f"{encoded} numbers")
        _require(self.target_mean.shape == self.target_sd.shape == (targets,), "target_mean", f"{targets} numbers")
        _require((self.feature_sd > 0).all() and (self.target_sd > 0).all(), "feature_sd", "numbers above 0")


def _require(condition: object, part: str, wanted: str) -> None:
    if not condition:
        raise RunDirectoryError(
            f"The preprocessing record has a `{part}` that is not {wanted}: it was changed. Restore it from a backup, "
            f"or fit again."
        )


def _listed(record: Mapping[str, Any], part: str, kinds: tuple[type, ...], wanted: str) -> list[Any]:
    found = record[part]
    _require(isinstance(found, list) and all(type(one) in kinds for one in found), part, f"a list of {wanted}")
    return found


def _texts(record: Mapping[str, Any], part: str) -> tuple[str, ...]:
    return tuple(_listed(record, part, (str,), "texts"))


def _labels(record: Mapping[str, Any], part: str) -> tuple[Label, ...]:
    found = _listed(record, part, (str, bool, int, float), "texts or numbers")
    _require(len(set(found)) == len(found), part, "a list of different labels")
    return tuple(found)


def _numbers(record: Mapping[str, Any], part: str) -> Float[np.ndarray, "number"]:
    found = _listed(record, part, (int, float), "numbers")
    _require(all(abs(one) <= LARGEST for one in found), part, "a list of finite numbers")
    return np.asarray(found, dtype=np.float64)


def _check_range(
    scaled: Float32[np.ndarray, "rows encoded"],
    encoded: Float[np.ndarray, "rows encoded"],
    *,
    names: Sequence[str],
    argument: str,
) -> None:
    bad = ~np.isfinite(scaled)
    if bad.any():
        row, column = (int(one) for one in np.argwhere(bad)[0])
        raise DataError(
            f"Column {names[column]!r} of {argument} has {encoded[row, column]:g} at {row_name(row)}: "
            "too far from the training rows for float32. Check the value and its unit."
        )


def _warn_of_far_rows(
    scaled: Float32[np.ndarray, "rows encoded"],
    encoded: Float[np.ndarray, "rows encoded"],
    *,
    names: Sequence[str],
    argument: str,
) -> None:
    far = np.abs(scaled) > FAR
    if far.any():
        row, column = (int(one) for one in np.argwhere(far)[0])
        warnings.warn(
            f"Column {names[column]!r} of {argument} has {encoded[row, column]:g} at {row_name(row)}, "
            f"{abs(scaled[row, column]):.0g} standard deviations from the training rows: a prediction there means "
            "nothing. Check the value and its unit.",
            UserWarning,
            stacklevel=3,
        )
