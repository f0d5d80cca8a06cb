"""From a table with named columns to a data set: choice of task, of columns and of held-out rows."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from ergonet._errors import DataError, SettingError, shown, suggest
from ergonet.datasets.columns import column_values
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.learning import learn
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.splitting import Rows, split_rows
from ergonet.datasets.validation import (
    Label,
    as_labels,
    as_numbers,
    capital,
    check_finite,
    check_rows,
    check_seed,
    check_test_fraction,
    is_missing,
    label_classes,
    nearest,
    row_name,
    shorten,
)

TASKS = ("classification", "regression")
_MOST_INFERRED_CLASSES = 20


def from_table(
    frame: pd.DataFrame,
    target: str | Sequence[str],
    *,
    task: str | None = None,
    test_fraction: float = 0.2,
    test_frame: pd.DataFrame | None = None,
    one_hot: bool = False,
    seed: int = 0,
) -> Dataset:
    """Split a table, learn the scaling from its training rows, and apply it to all rows.

    Every input column is standardized with the mean and standard deviation of the training rows; columns that are
    constant there are dropped with a warning. Regression targets are standardized, too. Rows are shuffled before the
    split, within each class for classification; a held-out row whose class or category occurs in no training row is
    moved to the training rows with a warning. Both parts keep the order of the file.

    Args:
        frame: The table; all columns but the targets are inputs.
        target: Name of the target column; several names for regression.
        task: ``"classification"`` or ``"regression"``; None: `infer_task` decides.
        test_fraction: Fraction of the rows held out, in [0, 1); ignored with a `test_frame`.
        test_frame: Separate test rows with the columns of `frame`; then all rows of `frame` are for training.
        one_hot: Encode categorical columns as one 0/1 column per category; otherwise they are an error.
        seed: Seed of the split, 0 or larger.

    Returns:
        The data set.

    Raises:
        DataError: The table cannot be used; says which column and row, what was found, and what to do.
        SettingError: `task`, `test_fraction` or `seed` is out of range.
    """
    check_test_fraction(test_fraction)
    check_seed(seed)
    if task is not None and task not in TASKS:
        raise SettingError(f"`task`: there is no task {shown(task)}. {suggest(task, TASKS)}")
    table = _Table.read(frame, target, argument="the table")
    task = table.task() if task is None else task
    values, features = table.targets(task), table.features(one_hot=one_hot)
    if isinstance(values, list):
        label_classes(values, argument=f"target column {table.names[0]!r} of {table.argument}")
    if test_frame is None:
        test = table
        rows, held_out = table.split(values, features, test_fraction=test_fraction, seed=seed)
    else:
        test = _Table.read(test_frame, table.names, argument="the test table", minimum_rows=1)
        rows, held_out = np.arange(len(frame)), np.arange(len(test_frame))
    preprocessing = learn(
        {name: column[rows] for name, column in features.items()},
        [values[row] for row in rows] if isinstance(values, list) else values[rows],
        task=task,
        target_names=table.names,
        rows=rows,
    )
    inputs, targets = table.transformed(preprocessing)
    test_inputs, test_targets = (inputs, targets) if test is table else test.transformed(preprocessing)
    return Dataset(
        name="table",
        task=task,
        x_train=inputs[rows],
        y_train=targets[rows],
        x_test=test_inputs[held_out],
        y_test=test_targets[held_out],
        preprocessing=preprocessing,
        image_shape=None,
        raw_test=_raw_columns(test.frame.iloc[held_out], preprocessing),
        test_rows=held_out,
    )


def infer_task(values: Any) -> str:
    """Infer the task from the target.

    Classification if the entries are strings, booleans or categorical, or if they are whole numbers (1 or 1.0) with at
    most 20 distinct values that occur at least twice on average. Otherwise, and for several target columns, regression;
    also for text that is mostly numbers with more than 20 distinct values (later an error that names the first entry
    that is not a number). Missing entries are ignored.

    Args:
        values: A pandas Series or an array, [rows], [rows, 1] or [rows, targets].

    Returns:
        ``"classification"`` or ``"regression"``.
    """
    if str(getattr(values, "dtype", "")) == "category":
        return "classification"
    array = np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=object)
    if array.ndim > 1 and array.shape[1] > 1:
        return "regression"
    entries = [entry for entry in array.reshape(-1).tolist() if not is_missing(entry)]
    if any(isinstance(entry, (str, bool)) for entry in entries):
        numbers = len(set(entries)) > _MOST_INFERRED_CLASSES and _share_of_numbers(array.reshape(-1)) > 0.5
        return "regression" if numbers else "classification"
    if array.dtype.kind in "mM" or not all(isinstance(entry, (int, float)) for entry in entries):
        return "regression"
    whole = all(isinstance(entry, int) or entry.is_integer() for entry in entries)
    distinct = len(set(entries))
    few = distinct <= _MOST_INFERRED_CLASSES and 2 * distinct <= len(entries)
    return "classification" if whole and few else "regression"


@dataclass(frozen=True, eq=False)
class _Table:
    """A table with validated column names, and its target columns."""

    frame: pd.DataFrame
    names: tuple[str, ...]
    argument: str

    @classmethod
    def read(cls, frame: Any, target: str | Sequence[str], *, argument: str, minimum_rows: int = 2) -> "_Table":
        if not isinstance(frame, pd.DataFrame):
            raise DataError(f"{capital(argument)} must be a pandas DataFrame, got {type(frame).__name__}.")
        names = [str(name) for name in frame.columns]
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        if repeated:
            raise DataError(
                f"Column names appear more than once in {argument}: "
                f"{shorten([repr(one) for one in repeated])}. Give every column its own name."
            )
        targets = (str(target),) if isinstance(target, (str, int)) else tuple(str(name) for name in target)
        if not targets or len(set(targets)) < len(targets):
            raise DataError(f"`target` must name at least one column, each only once, got {list(targets)}.")
        for name in targets:
            if name not in names:
                raise DataError(f"`target`: {argument} has no column {name!r}. {nearest(name, names)}")
        if len(names) == len(targets):
            raise DataError(
                f"{capital(argument)} has no input columns besides the target: {shorten(names)}. "
                "Add at least one input column."
            )
        check_rows(len(frame), argument=argument, minimum=minimum_rows)
        return cls(frame.set_axis(names, axis=1), targets, argument)

    def task(self) -> str:
        values = self.frame[self.names[0]]
        return infer_task(values) if len(self.names) == 1 else "regression"

    def targets(self, task: str) -> list[Label] | Float[np.ndarray, "rows targets"]:
        """Labels or numbers, checked for missing entries."""
        if task == "classification":
            if self.names[1:]:
                raise DataError(
                    f"`target`: classification needs exactly one target column, got {len(self.names)}: "
                    f"{shorten(self.names)}. Fit one model per column, or set task='regression'."
                )
            return as_labels(self.frame[self.names[0]], argument=f"column {self.names[0]!r} of {self.argument}")
        columns = [
            as_numbers(column_values(self.frame[name]), column=name, argument=self.argument) for name in self.names
        ]
        values = np.stack(columns, axis=1)
        check_finite(values, argument=self.argument, names=self.names)
        return values

    def split(
        self, values: Any, features: Mapping[str, np.ndarray], *, test_fraction: float, seed: int
    ) -> tuple[Rows, Rows]:
        """Split into training and held-out rows so that every class and category occurs in the training rows."""
        groups = {name: column for name, column in features.items() if column.dtype.kind == "O"}
        labels = values if isinstance(values, list) else None
        if labels is not None:
            groups = {self.names[0]: np.array(labels, dtype=object)} | groups
        return split_rows(len(self.frame), test_fraction, seed=seed, stratify=labels, groups=groups)

    def transformed(self, preprocessing: Preprocessing) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of all rows, as the network sees them."""
        targets = preprocessing.transform_target(
            self.targets(preprocessing.task), argument=f"target column {self.names[0]!r} of {self.argument}"
        )
        return preprocessing.transform(self.frame, argument=self.argument), targets

    def features(self, *, one_hot: bool) -> dict[str, np.ndarray]:
        """Input columns by name, Float64 or (with `one_hot`) objects; checked over all rows."""
        found = {name: column_values(self.frame[name]) for name in self.frame.columns if name not in self.names}
        for name, column in found.items():
            if column.dtype.kind == "f":
                check_finite(column[:, None], argument=self.argument, names=[name])
            elif column.dtype.kind in "mM":
                raise DataError(
                    f"Column {name!r} of {self.argument} holds dates or times, the first is {column[0]}. "
                    "Convert them to numbers, such as days since a reference date, or remove the column."
                )
            else:
                self._check_categories(name, column, found, one_hot=one_hot)
        return found

    def _check_categories(
        self, name: str, column: np.ndarray, columns: Mapping[str, np.ndarray], *, one_hot: bool
    ) -> None:
        declared = str(self.frame[name].dtype) == "category"
        if not declared and _share_of_numbers(column) > 0.5:
            numbers = as_numbers(column, column=name, argument=self.argument)
            raise DataError(
                f"Column {name!r} of {self.argument} holds numbers written as text: {shown(column[0])} at "
                f"{row_name(0)}. Convert it, for example with `frame[{name!r}].astype(float)`."
                f"{' There are missing values too.' if np.isnan(numbers).any() else ''}"
            )
        entries = as_labels(column, argument=f"column {name!r} of {self.argument}")
        if not one_hot:
            others = [repr(one) for one in columns if one != name and columns[one].dtype.kind == "O"]
            also = f" Also not numeric: {shorten(others)}." if others else ""
            comma = isinstance(entries[0], str) and re.fullmatch(r"[+-]?\d*,\d+", entries[0].strip())
            advice = (
                "Use a decimal point in numbers."
                if comma
                else "Set `one_hot=True` (`--one-hot` on the command line) to encode categories as 0/1 "
                "columns, or remove the column."
            )
            raise DataError(
                f"Column {name!r} of {self.argument} is not numeric: {shown(entries[0])} at {row_name(0)}.{also} "
                f"{advice}"
            )
        if len(set(entries)) == len(entries):
            raise DataError(
                f"Column {name!r} of {self.argument} has a different category in every row, the first is "
                f"{shown(entries[0])}: it looks like a name or an identifier. Remove the column."
            )


def _share_of_numbers(column: np.ndarray) -> float:
    def is_number(entry: Any) -> bool:
        try:
            return not math.isnan(float(entry))
        except (TypeError, ValueError):
            return False

    present = [entry for entry in column.tolist() if entry is not None]
    return sum(is_number(entry) for entry in present) / max(len(present), 1)


def _raw_columns(frame: pd.DataFrame, preprocessing: Preprocessing) -> Float[np.ndarray, "rows raw_features"]:
    names = [name for name in preprocessing.kept if name not in preprocessing.categories]
    columns = [as_numbers(column_values(frame[name]), column=name, argument="the table") for name in names]
    return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
