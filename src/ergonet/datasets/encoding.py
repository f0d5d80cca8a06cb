"""How one column of a table becomes inputs of a network: numbers, ranks, 0/1 columns, parts of dates, embeddings.

A category that no training row has, and a missing entry where training rows have some, are never an error: each kind
has an input, or a row of an embedding, that was 0 (or unused) in all training rows. The posterior of its weights is
their prior, so predictions for such rows are as uncertain as the prior says.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Shaped

from ergonet._errors import DataError, shown
from ergonet.datasets import dates
from ergonet.datasets.columns import EXACT, one_hot
from ergonet.datasets.kinds import CATEGORICAL, CLOSED, DATE, EMBEDDED, KINDS, NUMERIC, ORDINAL, UNUSED
from ergonet.datasets.validation import (
    Label,
    as_labels,
    as_numbers,
    check_finite,
    for_each,
    is_missing,
    nearest,
    position_of,
    row_name,
)

OTHER, MISSING = "(other)", "(missing)"


@dataclass(frozen=True)
class Encoder:
    """What was learned about a column.

    Attributes:
        kind: ``numeric``, ``categorical`` (a 0/1 column for each category and one for all others), ``embedded`` (an
            index of a category), ``ordinal`` (a rank), ``date``; ``closed`` (0/1 columns without one for others, as
            older versions made); ``identifier`` or ``unused`` for columns that are no inputs.
        categories: Categories, or levels in their order.
        fill: What replaces missing entries, which an indicator column marks; None: they are an error, but for
            categories.
        parts: Names of the parts of a date that are inputs.
        form: Format of dates.
        refuses: Whether missing categories are an error.
    """

    kind: str = NUMERIC
    categories: tuple[Label, ...] = ()
    fill: float | None = None
    parts: tuple[str, ...] = ()
    form: str = ""
    refuses: bool = False

    def names(self, column: str) -> tuple[str, ...]:
        """Names of the inputs: ``age``, ``city=Bern``, ``day: year``, ``age is missing``."""
        if self.kind in (CATEGORICAL, CLOSED):
            rest = (OTHER,) if self.kind == CATEGORICAL else ()
            return tuple(f"{column}={one}" for one in (*self.categories, *rest))
        inputs = [f"{column}: {part}" for part in self.parts] if self.kind == DATE else [column]
        return (*inputs, *([] if self.fill is None else [f"{column} is missing"]))

    @property
    def choice(self) -> str | None:
        """The kind as a person chooses it; None for numbers, unused columns, and levels with commas."""
        if self.kind in (NUMERIC, UNUSED) or (self.kind == ORDINAL and any("," in str(one) for one in self.categories)):
            return None
        if self.kind == ORDINAL:
            return f"{ORDINAL}:{','.join(map(str, self.categories))}"
        return CATEGORICAL if self.kind in (EMBEDDED, CLOSED) else self.kind

    def encode(self, values: Any, *, column: str, argument: str) -> Float[np.ndarray, "rows inputs"]:
        """The inputs before scaling.

        Raises:
            DataError: An entry cannot be used; names column, row and value.
        """
        if self.kind == CLOSED:
            return one_hot(values, self.categories, column=column, argument=argument)
        if self.kind in (CATEGORICAL, EMBEDDED):
            index = self._index(values, column=column, argument=argument)
            if self.kind == EMBEDDED:
                return index[:, None].astype(np.float64)
            return (index[:, None] == np.arange(len(self.categories) + 1)).astype(np.float64)
        numbers, missing = self._filled(values, column=column, argument=argument)
        inputs = numbers[:, None]
        if self.kind == DATE:
            inputs = dates.parts_of(numbers)[:, [dates.PARTS.index(part) for part in self.parts]]
        return inputs if self.fill is None else np.column_stack([inputs, missing])

    def numbers(self, values: Any, *, column: str, argument: str) -> Float[np.ndarray, "rows"]:
        """Numbers, ranks or days, with NaN for missing entries; raises `DataError` for anything else."""
        if self.kind == DATE:
            return dates.as_days(np.asarray(values), self.form, column=column, argument=argument)
        if self.kind == ORDINAL:
            return self._ranks(values, column=column, argument=argument)
        return as_numbers(values, column=column, argument=argument)

    def _filled(
        self, values: Any, *, column: str, argument: str
    ) -> tuple[Float[np.ndarray, "rows"], Bool[np.ndarray, "rows"]]:
        numbers = self.numbers(values, column=column, argument=argument)
        missing = np.isnan(numbers)
        if self.fill is not None:
            numbers = np.where(missing, self.fill, numbers)
        check_finite(numbers[:, None], argument=argument, names=[column])
        return numbers, missing

    def _index(self, values: Any, *, column: str, argument: str) -> Shaped[np.ndarray, "rows"]:
        """Positions of categories; unknown ones, and missing ones if there were none, have the position after all."""
        labels = labels_of(values, column=column, argument=argument, refuses=self.refuses)
        positions = {category: index for index, category in enumerate(self.categories)}
        found = for_each(labels, lambda label: _position(label, positions))
        if None in found:
            row = found.index(None)
            warnings.warn(
                f"Column {column!r} of {argument} has {found.count(None)} "
                f"{'entries' if found.count(None) > 1 else 'entry'} that no training row has, the first is "
                f"{shown(labels[row])} at {row_name(row)}: predictions for such rows are as uncertain as the prior.",
                UserWarning,
                stacklevel=5,
            )
        return np.array([len(positions) if one is None else one for one in found], dtype=np.int64)

    def _ranks(self, values: Any, *, column: str, argument: str) -> Float[np.ndarray, "rows"]:
        labels = labels_of(values, column=column, argument=argument, refuses=self.fill is None)
        positions = {category: index for index, category in enumerate(self.categories)}
        ranks = for_each(labels, lambda label: np.nan if label == MISSING else _position(label, positions))
        if None in ranks:
            row = ranks.index(None)
            raise DataError(
                f"Column {column!r} of {argument} has {shown(labels[row])} at {row_name(row)}, which is none of its "
                f"levels. {nearest(str(labels[row]), [str(one) for one in self.categories])} Correct the value, or "
                "remove the row."
            )
        return np.array(ranks, dtype=np.float64)

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON types."""
        return {
            "kind": self.kind,
            "categories": list(self.categories),
            "fill": self.fill,
            "parts": list(self.parts),
            "form": self.form,
            "refuses": self.refuses,
        }

    @classmethod
    def from_dict(cls, record: Any) -> "Encoder":
        """Restore the result of `to_dict`; raises `ValueError` or `KeyError` if it is none."""
        if not isinstance(record, Mapping) or record["kind"] not in (*KINDS, EMBEDDED, CLOSED, UNUSED):
            raise ValueError
        found = cls(
            kind=record["kind"],
            categories=_distinct(record["categories"], (str, bool, int, float)),
            fill=record["fill"],
            parts=_distinct(record["parts"], (str,)),
            form=record["form"],
            refuses=record["refuses"],
        )
        is_number = found.fill is None or (type(found.fill) in (int, float) and abs(found.fill) < np.inf)
        is_date = found.kind != DATE or (
            found.form in dates.FORMATS and found.parts and {*found.parts} <= {*dates.PARTS}
        )
        is_listed = found.kind not in (CATEGORICAL, CLOSED, EMBEDDED, ORDINAL) or found.categories
        if not (is_number and is_date and is_listed and type(found.refuses) is bool):
            raise ValueError
        return found


def _distinct(entries: Any, kinds: tuple[type, ...]) -> tuple[Any, ...]:
    if not isinstance(entries, list) or not all(type(one) in kinds for one in entries):
        raise ValueError
    if len(set(entries)) != len(entries):
        raise ValueError
    return tuple(entries)


def labels_of(values: Any, *, column: str, argument: str, refuses: bool) -> Sequence[Label]:
    """Categories of a column; missing ones as ``(missing)`` unless they are refused.

    Raises:
        DataError: An entry is no category, or is a float of which nobody knows which whole number it was.
    """
    array = np.asarray(values)
    if array.dtype.kind == "f" and (beyond := (np.abs(array) >= EXACT) & np.isfinite(array)).any():
        row = int(np.argmax(beyond))
        raise DataError(
            f"Column {column!r} of {argument} has {array[row]:.17g} at {row_name(row)}, a float so large that several "
            "whole numbers become the same one. Write such categories as texts, or as integers with no entry missing."
        )
    if array.dtype.kind in "Of":
        entries = for_each(array.tolist(), lambda one: MISSING if is_missing(one) and not refuses else _whole(one))
        array = np.empty(len(entries), dtype=object)
        array[:] = entries
    return as_labels(array, argument=f"column {column!r} of {argument}")


def _whole(entry: Any) -> Any:
    """Whole numbers as integers, so that a column with missing entries has the categories 1, 2 and not 1.0, 2.0."""
    return int(entry) if isinstance(entry, float) and entry.is_integer() else entry


def _position(label: Label, positions: Mapping[Label, int]) -> int | None:
    """`position_of`, also for a number that other entries of its file made a text."""
    found = position_of(label, positions)
    if found is None and isinstance(label, str):
        with suppress(ValueError):
            return position_of(float(label), positions)
    return found
