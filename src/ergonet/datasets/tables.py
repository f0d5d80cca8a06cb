"""From a table with named columns to a data set: choice of task, of columns and of held-out rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from ergonet._checks import is_number
from ergonet._errors import DataError, SettingError, shown, suggest
from ergonet.datasets.choosing import (
    MOST_NAMED,
    PLAIN_NUMBERS,
    Choices,
    decide,
    row_of_written_number,
    share_of_numbers,
)
from ergonet.datasets.columns import column_values
from ergonet.datasets.dataset import Dataset
from ergonet.datasets.frames import as_pandas
from ergonet.datasets.kinds import TASKS
from ergonet.datasets.learning import Scaling, learn
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.registry import transform_named
from ergonet.datasets.row_weights import without_weights
from ergonet.datasets.splitting import Rows, split_rows
from ergonet.datasets.suspicion import warn_of_suspects
from ergonet.datasets.validation import (
    FOR_A_QUANTITY,
    Label,
    as_float,
    as_labels,
    as_numbers,
    capital,
    check_counts,
    check_finite,
    check_rows,
    check_seed,
    check_test_fraction,
    is_missing,
    label_classes,
    nearest,
    row_name,
    rows_named,
    shorten,
)


def from_table(
    frame: Any,
    target: str | Sequence[str],
    *,
    task: str | None = None,
    test_fraction: float = 0.2,
    test_frame: Any = None,
    choices: Choices | None = None,
    seed: int = 0,
    target_scaling: Scaling | None = None,
    weights: str | None = None,
    target_transform: Any = None,
    log_beyond: float | Mapping[str, float] = 0.0,
) -> Dataset:
    """Split a table, learn the scaling from its training rows, and apply it to all rows.

    Numeric columns are standardized with the mean and standard deviation of the training rows, and missing entries
    become their median, with another column that marks them. Categories become 0/1 columns, or, if there are many, an
    index for a learned embedding. `choices` says otherwise. Columns that are constant are dropped, texts that differ in
    every row are left out, and columns that look like identifiers or copies of the target are named, each with a
    warning. Regression targets are standardized, too. Rows are shuffled before the split, within each class for
    classification; a held-out row whose class occurs in no training row is moved to the training rows with a warning.
    Both parts keep the order of the file.

    Args:
        frame: The table, of pandas, Polars or PyArrow; all columns but the targets are inputs.
        target: Name of the target column; several names for regression.
        task: ``"classification"``, ``"regression"`` or ``"count"``; None: `infer_task` decides.
        test_fraction: Fraction of the rows held out, in [0, 1); ignored with a `test_frame`.
        test_frame: Separate test rows with the columns of `frame`; then all rows of `frame` are for training.
        choices: Columns to use and their kinds; None: as the table suggests.
        seed: Seed of the split, 0 or larger.
        target_scaling: How the targets of a regression are scaled, as for `learn`.
        weights: Name of the column with the weight of each training row, which is not an input; None: 1. Rows of
            weight 0 are left out before the split.
        target_transform: A monotone transform of the targets of a regression, by name or as an object, applied before
            they are standardized; None: none.
        log_beyond: Standard deviations beyond which scaled inputs grow by their logarithm, or this by task; 0: nowhere.

    Returns:
        The data set.

    Raises:
        DataError: The table cannot be used; says which column and row, what was found, and what to do.
        SettingError: `task`, `test_fraction`, `seed`, `log_beyond` or one of the choices is out of range.
    """
    choices = Choices() if choices is None else choices
    choices.check()
    check_test_fraction(test_fraction)
    check_seed(seed)
    _check_beyond(log_beyond)
    if task is not None and task not in TASKS:
        raise SettingError(f"`task`: there is no task {shown(task)}. {suggest(task, TASKS)}")
    frame, of_rows = (
        (frame, None) if weights is None else without_weights(as_pandas(frame, argument="the table"), weights)
    )
    table = _Table.read(frame, target, argument="the table")
    task = table.task() if task is None else task
    values = table.targets(task)
    features, decided = decide(table.frame, targets=table.names, choices=choices, argument=table.argument)
    if isinstance(values, list):
        label_classes(values, argument=f"target {table.labels}")
    used = np.arange(len(table.frame))
    if of_rows is not None:  # a row of weight 0 counts for nothing, not even for the scaling
        used = np.flatnonzero(of_rows)
        table, of_rows, values = table.taken(used), of_rows[used], taken(values, used)
        features = {name: column[used] for name, column in features.items()}
    warn_of_suspects(features, values, kinds=decided.kinds, target_names=table.names)
    if test_frame is None:
        test = table
        rows, held_out = table.split(values, test_fraction=test_fraction, seed=seed)
    else:
        test = _Table.read(test_frame, table.names, argument="the test table", minimum_rows=1).without(weights)
        rows, held_out = np.arange(len(table.frame)), np.arange(len(test.frame))
    with rows_named(used[rows]):
        preprocessing = learn(
            {name: column[rows] for name, column in features.items()},
            taken(values, rows),
            task=task,
            target_names=table.names,
            decided=decided,
            target_scaling=target_scaling,
            target_transform=transform_named(target_transform),
        )
    beyond = log_beyond.get(task) if isinstance(log_beyond, Mapping) else log_beyond
    preprocessing = replace(preprocessing, log_beyond=beyond or None)
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
        test_rows=used[held_out] if test is table else held_out,
        weights=None if of_rows is None else of_rows[rows],
    )


def _check_beyond(log_beyond: Any) -> None:
    for value in log_beyond.values() if isinstance(log_beyond, Mapping) else (log_beyond,):
        if not is_number(value) or not 0 <= value < np.inf:
            raise SettingError(f"`log_beyond` must be a number of at least 0, got {shown(value)}. 0 turns it off.")


def taken(values: Any, rows: np.ndarray) -> Any:
    """Some entries of a list or an array."""
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def infer_task(values: Any) -> str:
    """Infer the task from the target.

    Classification if the entries are strings, booleans or categorical, or two different whole numbers (1 or 1.0).
    Regression if some are no whole numbers or there are several target columns, and for text that is mostly numbers
    with more than 20 distinct values (later an error that names the first entry that is not a number); also for whole
    numbers of which some are negative and more than 20 differ. Texts of numbers with a unit are an error. Other whole
    numbers could be classes, counts or a quantity, so they are an error that asks. Missing entries are ignored.

    Args:
        values: A pandas Series or an array, [rows], [rows, 1] or [rows, targets].

    Returns:
        ``"classification"`` or ``"regression"``.

    Raises:
        DataError: The entries are whole numbers that could be classes, counts or a quantity, or mostly numbers with a
            decimal comma, marks between thousands, or the same currency sign, percent sign or unit.
    """
    if str(getattr(values, "dtype", "")) == "category":
        return "classification"
    array = np.asarray(values) if hasattr(values, "dtype") else np.array(values, dtype=object)
    if array.ndim > 1 and array.shape[1] > 1:
        return "regression"
    entries = [entry for entry in array.reshape(-1).tolist() if not is_missing(entry)]
    if any(isinstance(entry, (str, bool)) for entry in entries):
        return _task_of_texts(array.reshape(-1), name=getattr(values, "name", None))
    if array.dtype.kind in "mM" or not all(isinstance(entry, (int, float)) for entry in entries):
        return "regression"
    if not all(isinstance(entry, int) or entry.is_integer() for entry in entries):
        return "regression"
    distinct = len(set(entries))
    if distinct <= 2:
        return "classification"
    if distinct > MOST_NAMED and min(entries) < 0:
        return "regression"
    counts = ", or count (how often something happened)" if min(entries) >= 0 else ""
    least, most = as_float(min(entries)), as_float(max(entries))
    raise DataError(
        f"The target holds whole numbers, {distinct} different ones from {least:g} to {most:g}, so its "
        "task cannot be told. Set `--task` (`task` in Python): classification (names of classes), regression (a "
        f"quantity){counts}."
    )


def _task_of_texts(entries: np.ndarray, *, name: Any) -> str:
    if share_of_numbers(entries) > 0.5:
        return "regression" if len(set(entries.tolist())) > MOST_NAMED else "classification"
    if (row := row_of_written_number(entries)) is not None:
        raise DataError(
            f"{'The target' if name is None else f'Target column {name!r}'} is not numeric: {shown(entries[row])} at "
            f"{row_name(row)}. {PLAIN_NUMBERS}, or set `--task classification` (`task='classification'` in Python) if "
            "these are names of classes."
        )
    return "classification"


@dataclass(frozen=True, eq=False)
class _Table:
    """A table with validated column names, its target columns, and its rows in the table of the user; None: all."""

    frame: pd.DataFrame
    names: tuple[str, ...]
    argument: str
    rows: Rows | None = None

    @classmethod
    def read(cls, frame: Any, target: str | Sequence[str], *, argument: str, minimum_rows: int = 2) -> "_Table":
        frame = as_pandas(frame, argument=argument)
        names = [str(name) for name in frame.columns]
        targets = (str(target),) if isinstance(target, (str, int)) else tuple(str(name) for name in target)
        if not targets or len(set(targets)) < len(targets):
            raise DataError(f"`target` must name at least one column, each only once, got {list(targets)}.")
        for name in targets:
            if name not in names:
                are_several = "," in name and {one.strip() for one in name.split(",")} <= set(names)
                hint = "Give `--target` (a list in Python) for each of them." if are_several else nearest(name, names)
                raise DataError(f"`target`: {argument} has no column {name!r}. {hint}")
        if len(names) == len(targets):
            raise DataError(
                f"{capital(argument)} has no input columns besides the target: {shorten(names)}. "
                "Add at least one input column."
            )
        check_rows(len(frame), argument=argument, minimum=minimum_rows)
        return cls(frame.set_axis(names, axis=1), targets, argument)

    def taken(self, rows: np.ndarray) -> "_Table":
        check_rows(len(rows), argument=f"{self.argument} without rows of weight 0")
        return replace(self, frame=self.frame.iloc[rows], rows=rows)

    def without(self, column: str | None) -> "_Table":
        """The table without a column, if it has it."""
        return replace(self, frame=self.frame.drop(columns=[column], errors="ignore"))

    def task(self) -> str:
        values = self.frame[self.names[0]]
        return infer_task(values) if len(self.names) == 1 else "regression"

    @property
    def labels(self) -> str:
        """The name of the column of labels in messages."""
        return f"column {self.names[0]!r} of {self.argument}"

    def targets(self, task: str) -> list[Label] | Float[np.ndarray, "rows targets"]:
        """Labels or numbers, checked for missing entries."""
        if task in ("classification", "count") and self.names[1:]:
            raise DataError(
                f"`target`: {task} needs exactly one target column, got {len(self.names)}: "
                f"{shorten(self.names)}. Fit one model per column, or {FOR_A_QUANTITY}"
            )
        if task == "classification":
            return as_labels(self.frame[self.names[0]], argument=self.labels)
        columns = [
            as_numbers(column_values(self.frame[name]), column=name, argument=self.argument) for name in self.names
        ]
        values = np.stack(columns, axis=1)
        check_finite(values, argument=self.argument, names=self.names)
        if task == "count":
            check_counts(values, argument=self.argument, names=self.names)
        return values

    def split(self, values: Any, *, test_fraction: float, seed: int) -> tuple[Rows, Rows]:
        """Split into training and held-out rows so that every class occurs in the training rows."""
        labels = values if isinstance(values, list) else None
        groups = {} if labels is None else {self.names[0]: np.array(labels, dtype=object)}
        with rows_named(self.rows):
            return split_rows(len(self.frame), test_fraction, seed=seed, stratify=labels, groups=groups)

    def transformed(self, preprocessing: Preprocessing) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of all rows, as the network sees them."""
        argument = self.labels if preprocessing.task == "classification" else self.argument
        with rows_named(self.rows):
            targets = preprocessing.transform_target(self.targets(preprocessing.task), argument=argument)
            return preprocessing.transform(self.frame, argument=self.argument), targets


def _raw_columns(frame: pd.DataFrame, preprocessing: Preprocessing) -> Float[np.ndarray, "rows raw_features"]:
    names = [name for name in preprocessing.kept if name not in preprocessing.encoders]
    columns = [as_numbers(column_values(frame[name]), column=name, argument="the table") for name in names]
    return np.stack(columns, axis=1) if columns else np.zeros((len(frame), 0))
