"""The transformation of columns learned from the training rows, applied to new rows in the same way.

Numeric columns are standardized with the mean and standard deviation of the training rows; other columns are first
encoded (`encoding.Encoder`). Columns that are constant over the training rows are dropped. Nothing is pickled:
`Preprocessing.to_dict` returns JSON types only.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32, Shaped

from ergonet._checks import is_number
from ergonet._errors import CapabilityError, DataError, RunDirectoryError
from ergonet.datasets.columns import select_columns
from ergonet.datasets.encoding import Encoder
from ergonet.datasets.frames import as_frame_or_array
from ergonet.datasets.kinds import CLOSED, EMBEDDED, TASKS
from ergonet.datasets.record_parts import labels, number_range, numbers, require, texts
from ergonet.datasets.registry import TARGET_TRANSFORMS, transform_named
from ergonet.datasets.tails import FAR, check_range, damped, far_values, undamped
from ergonet.datasets.transforms import AbstractTransform, transformed
from ergonet.datasets.validation import Label, as_labels, as_targets, capital, check_counts, encode_labels

Predicted = Float[np.ndarray, "... rows targets"]
SCHEMA_VERSION, TRANSFORMED_VERSION, DAMPED_VERSION = 2, 3, 4  # 3 if targets are transformed, 4 with `log_beyond`
_OPTIONAL = ("feature_range", "target_transform", "log_beyond")
UNSCALED = "none"
_NUMBERS = Encoder()
PER_COLUMN_SCALING = "each input column minus its training mean, divided by its training standard deviation"


def in_order(names: Iterable[str], encoders: Mapping[str, Encoder]) -> list[str]:
    """Columns in the order of their network inputs: embedded ones last."""
    return sorted(names, key=lambda name: name in encoders and encoders[name].kind == EMBEDDED)


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """Everything that prediction on new rows needs besides the draws.

    Attributes:
        task: ``"classification"``, ``"regression"`` or ``"count"``, a regression whose targets are not scaled.
        feature_names: Input columns in the order of the user's file, dropped ones included.
        target_names: Target columns; one for classification.
        dropped: Input columns that are not used: constant over the training rows, or so chosen.
        feature_mean: Mean of each network input before scaling, Float64 [encoded].
        feature_sd: Standard deviation of each network input before scaling, above 0, Float64 [encoded].
        target_mean: Regression: mean of each target, Float64 [targets]; classification: 0 entries.
        target_sd: Regression: standard deviation of each target; classification: 0 entries.
        classes: Classification: the user's labels by class index; regression: empty.
        scaling: Description of the scaling, for readers.
        encoders: How columns become network inputs, for all but numeric ones without missing entries.
        feature_range: Smallest and largest value of each network input over the training rows, before scaling,
            Float64 [2, encoded]; None: unknown, as for images and runs of version 0.1.0.
        target_transform: Regression: what is applied to the targets before they are scaled, so that `target_mean` and
            `target_sd` are those of transformed targets; None: nothing.
        log_beyond: Standard deviations, above 0, beyond which scaled inputs grow by their logarithm (`tails.damped`),
            but not indices of embeddings; None: nowhere.
    """

    task: str
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    dropped: tuple[str, ...]
    feature_mean: Float[np.ndarray, "encoded"]
    feature_sd: Float[np.ndarray, "encoded"]
    target_mean: Float[np.ndarray, "targets"]
    target_sd: Float[np.ndarray, "targets"]
    classes: tuple[Label, ...]
    scaling: str = PER_COLUMN_SCALING
    encoders: Mapping[str, Encoder] = field(default_factory=dict)
    feature_range: Float[np.ndarray, "2 encoded"] | None = None
    target_transform: AbstractTransform | None = None
    log_beyond: float | None = None

    @property
    def kept(self) -> tuple[str, ...]:
        """The user's columns that are used, in file order."""
        dropped = set(self.dropped)
        return tuple(name for name in self.feature_names if name not in dropped)

    @property
    def encoded_names(self) -> tuple[str, ...]:
        """Names of the network inputs: ``age``, or ``city=Bern`` for a category."""
        return tuple(one for names in self.inputs_of.values() for one in names)

    @property
    def inputs_of(self) -> dict[str, tuple[str, ...]]:
        """Names of the network inputs that each column becomes, in their order."""
        return {name: self.encoder(name).names(name) for name in self._order}

    @property
    def embeddings(self) -> tuple[int, ...]:
        """Rows of the embeddings, whose indices are the last network inputs: categories, and one for all others."""
        found = (self.encoder(name) for name in self._order)
        return tuple(len(one.categories) + 1 for one in found if one.kind == EMBEDDED)

    @property
    def types(self) -> dict[str, str]:
        """Kinds of the columns that are not numeric, as `choosing.Choices` takes them."""
        return {name: one.choice for name, one in self.encoders.items() if one.choice is not None}

    @property
    def _order(self) -> list[str]:
        return in_order(self.kept, self.encoders)

    @property
    def encoded(self) -> tuple[str, ...]:
        """The columns in use that are not plain numbers."""
        return tuple(name for name in self.kept if name in self.encoders)

    def encoder(self, name: str) -> Encoder:
        """How a column becomes network inputs."""
        return self.encoders.get(name, _NUMBERS)

    def transform(self, table: Any, *, argument: str = "the new data") -> Float32[np.ndarray, "rows encoded"]:
        """Scale new rows in the same way as the training rows.

        Args:
            table: A table of pandas, Polars or PyArrow (columns are matched by name, in any order; extra columns are
                ignored with a warning), or an array [rows, raw_features] with the columns of `feature_names` in order.
            argument: Name of the table in messages.

        Returns:
            Network inputs, Float32 [rows, encoded]. A warning names the first value that is more than 10 000 standard
            deviations from the mean of the training rows.

        Raises:
            DataError: A column is missing, or an entry is missing where no training row was, infinite or not a number;
                names column, first row, value and count.
        """
        table, ignored = as_frame_or_array(table), self.target_names
        columns = select_columns(table, self.feature_names, unused=self.dropped, ignored=ignored, argument=argument)
        num_rows = len(next(iter(columns.values())))
        inputs, far, end = np.empty((num_rows, len(self.feature_mean)), np.float32), [], 0
        for name in self._order:  # one by one, since the table can fill much of the memory
            encoder = self.encoder(name)
            encoded, names = encoder.encode(columns.pop(name), column=name, argument=argument), encoder.names(name)
            part = slice(end, end := end + len(names))
            with np.errstate(over="ignore"):
                scaled = ((encoded - self.feature_mean[part]) / self.feature_sd[part]).astype(np.float32)
            if encoder.kind != EMBEDDED:
                if not np.abs(scaled).max(initial=0.0) <= FAR:
                    check_range(scaled, encoded, names=names, argument=argument)
                    far += far_values(scaled, encoded, names=names, argument=argument)
                scaled = scaled if self.log_beyond is None else damped(scaled, self.log_beyond)
            inputs[:, part] = scaled
        if far and self.scaling != UNSCALED:
            warnings.warn(min(far)[1], UserWarning, stacklevel=2)
        return inputs

    def to_inputs(self, values: Any, indices: Sequence[int]) -> Float[np.ndarray, "... inputs"]:
        """Network inputs for encoded values [..., inputs] of the inputs with these indices."""
        scaled = (np.asarray(values) - self.feature_mean[indices]) / self.feature_sd[indices]
        return scaled if self.log_beyond is None else damped(scaled, self.log_beyond)

    def from_inputs(self, inputs: Any, indices: Sequence[int]) -> Float[np.ndarray, "... inputs"]:
        """The inverse of `to_inputs`."""
        return self.standardized(inputs) * self.feature_sd[indices] + self.feature_mean[indices]

    def standardized(self, inputs: Any) -> np.ndarray:
        """Network inputs that are no indices of embeddings in standard deviations from the mean."""
        return np.asarray(inputs) if self.log_beyond is None else undamped(inputs, self.log_beyond)

    def _damped(self, scaled: np.ndarray) -> np.ndarray:
        """Scaled inputs [..., encoded] that are brought closer, but for indices of embeddings."""
        if self.log_beyond is None:
            return scaled
        plain = scaled.shape[-1] - len(self.embeddings)
        near = damped(scaled[..., :plain], self.log_beyond)
        return np.concatenate([near, scaled[..., plain:]], axis=-1, dtype=scaled.dtype)

    def outside(self, scaled: Float32[np.ndarray, "rows encoded"]) -> Bool[np.ndarray, "rows encoded"] | None:
        """Whether each entry of what `transform` returned lies outside the range of the training rows.

        Returns:
            Bool [rows, encoded], with the columns of `encoded_names`; None if the range is unknown.
        """
        if self.feature_range is None:
            return None
        low, high = self._damped(((self.feature_range - self.feature_mean) / self.feature_sd).astype(np.float32))
        return (scaled < low) | (scaled > high)

    def transform_target(
        self, values: Any, *, argument: str = "the target"
    ) -> Int32[np.ndarray, "rows"] | Float32[np.ndarray, "rows targets"]:
        """Convert labels to class indices, or transform and standardize real targets.

        Args:
            values: Labels [rows] or [rows, 1]; or numbers [rows] or [rows, targets].
            argument: Name of the values in messages.

        Returns:
            Int32 [rows] for classification, Float32 [rows, targets] for regression.

        Raises:
            DataError: An entry is missing, infinite, not a number, too large for float32 after scaling, no argument of
                the transform, or a label that does not occur in the training rows.
        """
        if self.task == "classification":
            return encode_labels(as_labels(values, argument=argument), self.classes, argument=argument)
        targets = as_targets(values, argument=argument, names=self.target_names)
        if targets.shape[1] != len(self.target_names):
            raise DataError(
                f"{capital(argument)} has {targets.shape[1]} columns, training had {len(self.target_names)}: "
                f"{', '.join(self.target_names)}."
            )
        if self.task == "count":
            check_counts(targets, names=self.target_names, argument=argument)
        plain = transformed(self.target_transform, targets, self.target_names, argument=argument)
        with np.errstate(over="ignore"):
            scaled = ((plain - self.target_mean) / self.target_sd).astype(np.float32)
        check_range(scaled, targets, names=self.target_names, argument=argument)
        return scaled

    def inverse_target(self, standardized: Any) -> Predicted:
        """Convert values of the target, such as quantiles and draws, to the user's units: exactly, if not means.

        Args:
            standardized: Values on the network's scale, [..., rows, targets].

        Returns:
            Float64 of the same shape.

        Raises:
            CapabilityError: The task is classification.
        """
        self._require_regression("inverse_target")
        plain = np.asarray(standardized, dtype=np.float64) * self.target_sd + self.target_mean
        return plain if self.target_transform is None else self.target_transform.inverse(plain)

    def inverse_mean(self, standardized: Any) -> Predicted:
        """Convert predicted means to the user's units; arguments and result as of `inverse_target`.

        Raises:
            CapabilityError: The task is classification; or there is a transform, under which the inverse of a mean is
                not the mean of the inverse. `prediction.units.predict_in_units` computes it.
        """
        self._require_linear("inverse_mean")
        return self.inverse_target(standardized)

    def inverse_sd(self, standardized: Any) -> Predicted:
        """Convert predicted standard deviations to the user's units; see `inverse_mean`."""
        self._require_linear("inverse_sd")
        return np.asarray(standardized, dtype=np.float64) * self.target_sd

    def inverse_normal(self, mean: Any, sd: Any) -> tuple[Predicted, Predicted]:
        """Mean and standard deviation, in the user's units, of targets that are normal on the network's scale."""
        mean, sd = np.broadcast_arrays(np.asarray(mean, np.float64), sd)
        if self.target_transform is None:
            return self.inverse_mean(mean), self.inverse_sd(sd)
        plain = mean * self.target_sd + self.target_mean
        found, variance = self.target_transform.moments(plain, (sd * self.target_sd) ** 2)
        return found, np.sqrt(variance)

    def log_slope(self, targets: Any) -> Float[np.ndarray, "rows"]:
        """Log of what turns a density on the network's scale into one in the user's units, for all targets of a row.

        Args:
            targets: True values in the user's units, [rows, targets].
        """
        self._require_regression("log_slope")
        volume = np.broadcast_to(-np.log(self.target_sd).sum(), len(targets))
        if self.target_transform is None:
            return volume
        return volume + self.target_transform.log_slope(np.asarray(targets, np.float64)).sum(axis=1)

    def labels(self, index: Any) -> Shaped[np.ndarray, "..."]:
        """Convert class indices to the user's labels, in the shape of `index`.

        Raises:
            CapabilityError: The task is regression.
        """
        if self.task != "classification":
            raise CapabilityError("`labels` needs a classification task, but this is a regression.")
        return np.array(self.classes)[np.asarray(index, dtype=np.int64)]

    def _require_regression(self, method: str) -> None:
        if self.task == "classification":
            raise CapabilityError(f"`{method}` needs a regression task: class probabilities have no units.")

    def _require_linear(self, method: str) -> None:
        self._require_regression(method)
        if self.target_transform is not None:
            raise CapabilityError(
                f"`{method}` would be biased: the target is transformed by {self.target_transform.name!r}, and the "
                f"inverse of a mean is not the mean of the inverse. Use `ergonet.prediction.units.predict_in_units`."
            )

    def to_dict(self) -> dict[str, Any]:
        """Convert the record to JSON types, with the version of its layout; a user's own transform stays an object."""
        record = {
            "version": SCHEMA_VERSION,
            "task": self.task,
            "feature_names": list(self.feature_names),
            "target_names": list(self.target_names),
            "encoders": {name: one.to_dict() for name, one in self.encoders.items()},
            "dropped": list(self.dropped),
            "feature_mean": self.feature_mean.tolist(),
            "feature_sd": self.feature_sd.tolist(),
            "target_mean": self.target_mean.tolist(),
            "target_sd": self.target_sd.tolist(),
            "classes": list(self.classes),
            "scaling": self.scaling,
        } | ({} if self.feature_range is None else {"feature_range": self.feature_range.tolist()})
        if self.target_transform is not None:
            is_named = self.target_transform.name in TARGET_TRANSFORMS
            named = self.target_transform.name if is_named else self.target_transform
            record |= {"version": TRANSFORMED_VERSION, "target_transform": named}
        beyond = self.log_beyond
        return record if beyond is None else record | {"version": DAMPED_VERSION, "log_beyond": beyond}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Preprocessing":
        """Restore the result of `to_dict`, bit for bit.

        Raises:
            RunDirectoryError: The layout has another version, or a part is missing or not as `to_dict` writes it.
        """
        if record.get("version") == 1:
            record = _of_version_1(record)
        if record.get("version") not in range(SCHEMA_VERSION, DAMPED_VERSION + 1):
            raise RunDirectoryError(
                f"The preprocessing record has version {record.get('version')!r}, but this version of Ergonet reads "
                f"versions {SCHEMA_VERSION} to {DAMPED_VERSION}. Use the version of Ergonet that wrote the run, "
                f"or fit again."
            )
        parts = [name for name in cls.__dataclass_fields__ if name not in {*record, *_OPTIONAL}]
        if parts:
            raise RunDirectoryError(f"The preprocessing record lacks {', '.join(parts)}. Fit again.")
        require(isinstance(record["scaling"], str), "scaling", "text")
        restored = cls(
            task=record["task"],
            feature_names=texts(record, "feature_names"),
            target_names=texts(record, "target_names"),
            dropped=texts(record, "dropped"),
            feature_mean=numbers(record, "feature_mean"),
            feature_sd=numbers(record, "feature_sd"),
            target_mean=numbers(record, "target_mean"),
            target_sd=numbers(record, "target_sd"),
            classes=labels(record, "classes"),
            scaling=record["scaling"],
            encoders=_encoders(record),
            feature_range=number_range(record) if "feature_range" in record else None,
            target_transform=_transform(record.get("target_transform")),
            log_beyond=_beyond(record.get("log_beyond")),
        )
        restored._check()
        return restored

    def _check(self) -> None:
        """Check that the parts fit together; raises `RunDirectoryError`."""
        is_regression, encoded = self.task != "classification", len(self.encoded_names)
        targets = len(self.target_names) if is_regression else 0
        require(self.task in TASKS, "task", f"one of {', '.join(TASKS)}")
        require(len(set(self.feature_names)) == len(self.feature_names), "feature_names", "different names")
        require({*self.dropped, *self.encoders} <= {*self.feature_names}, "dropped", "names of input columns")
        require(encoded >= 1 and len(self.target_names) >= 1, "feature_names", "at least one input and one target")
        require(is_regression == (not self.classes) and len(self.classes) != 1, "classes", "the labels of two classes")
        require(self.feature_mean.shape == self.feature_sd.shape == (encoded,), "feature_mean", f"{encoded} numbers")
        require(self.target_mean.shape == self.target_sd.shape == (targets,), "target_mean", f"{targets} numbers")
        if self.feature_range is not None:
            require(self.feature_range.shape == (2, encoded), "feature_range", f"two lists of {encoded} numbers")
        require(
            self.log_beyond is None or (is_number(self.log_beyond) and self.log_beyond > 0), "log_beyond", "above 0"
        )
        require((self.feature_sd > 0).all() and (self.target_sd > 0).all(), "feature_sd", "numbers above 0")


def _of_version_1(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a version that refused unseen categories and missing entries."""
    categories = record.get("categories", {})
    require(isinstance(categories, Mapping), "categories", "a table")
    encoders = {name: Encoder(kind=CLOSED, categories=labels(categories, name)).to_dict() for name in categories}
    return {**record, "version": SCHEMA_VERSION, "encoders": encoders}


def _transform(found: Any) -> AbstractTransform | None:
    is_known = found is None or isinstance(found, AbstractTransform) or found in TARGET_TRANSFORMS
    require(is_known, "target_transform", f"one of {TARGET_TRANSFORMS.listed()}")
    return transform_named(found)


def _beyond(found: Any) -> float | None:
    require(found is None or (is_number(found) and found > 0), "log_beyond", "a number above 0")
    return None if found is None else float(found)


def _encoders(record: Mapping[str, Any]) -> dict[str, Encoder]:
    found = record["encoders"]
    require(isinstance(found, Mapping), "encoders", "a table")
    try:
        return {str(name): Encoder.from_dict(one) for name, one in found.items()}
    except (ValueError, KeyError, TypeError):
        require(None, "encoders", "a table of encoders")
        raise
