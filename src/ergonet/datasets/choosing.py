"""Which columns of a table are inputs, and of which kind: as a person says, else as their entries suggest."""

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ergonet._checks import is_integer
from ergonet._errors import DataError, SettingError, shown, suggest
from ergonet.datasets import dates
from ergonet.datasets.columns import are_numbers, column_values
from ergonet.datasets.encoding import MISSING, labels_of
from ergonet.datasets.kinds import (
    CATEGORICAL,
    DATE,
    IDENTIFIER,
    INDICATOR,
    KINDS,
    NUMERIC,
    ONE_HOT_LIMIT,
    ORDINAL,
    REFUSE,
    UNUSED,
)
from ergonet.datasets.layout import MARKS
from ergonet.datasets.validation import (
    Label,
    as_float,
    as_numbers,
    check_finite,
    for_each,
    is_missing,
    nearest,
    row_name,
    shorten,
    sorted_labels,
)

_CURRENCY = r"(?:[A-Z]{1,2})?[$¢£¥€₣₤₦₩₪₫₱₹₺₽₿]|CHF|EUR|GBP|JPY|USD"
_NUMBER = rf"(?:\d+(?:[.,{MARKS}]\d{{3}})+|\d+)(?:[.,]\d*)?|[.,]\d+"
_WRITTEN = re.compile(rf"[+-]?\s*(?:({_CURRENCY})\s*)?[+-]?(?:{_NUMBER})\s*([^\d\s.,:;_+\-()'\u2019]{{1,6}})?")
_LONGEST_NUMBER = 40  # characters
_ORDINALS = ("st", "nd", "rd", "th")
MOST_NAMED = 20  # different texts that are taken for names of classes though they hold numbers, such as 1 to 5 stars
_MOST_WITH_SIGN = 2  # likewise, with a currency or percent sign
_LEVELS = f"{ORDINAL}:"
PLAIN_NUMBERS = (
    "Write plain numbers with a decimal point, without a currency or percent sign, a unit or marks between thousands"
)


@dataclass(frozen=True)
class Choices:
    """What a person says about the input columns.

    Attributes:
        drop: Names of columns to leave out; an entry may be several names with commas between them.
        columns: Names of the only columns to use; empty: all others.
        types: Maps names to kinds: ``numeric``, ``categorical``, ``date``, ``identifier``, ``ordinal`` or
            ``ordinal:low,middle,high``.
        missing: ``indicator`` or ``refuse``.
        one_hot_limit: Largest number of categories that get a 0/1 column each.
    """

    drop: Sequence[str] = ()
    columns: Sequence[str] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    missing: str = INDICATOR
    one_hot_limit: int = ONE_HOT_LIMIT

    def check(self) -> None:
        """Check what needs no table; raises `SettingError`."""
        if self.missing not in (INDICATOR, REFUSE):
            raise SettingError(f"`missing` must be {INDICATOR!r} or {REFUSE!r}, got {shown(self.missing)}.")
        if not is_integer(self.one_hot_limit) or self.one_hot_limit < 1:
            raise SettingError(f"`one_hot_limit` must be an integer of at least 1, got {shown(self.one_hot_limit)}.")
        for name, kind in self.types.items():
            if kind not in KINDS and not str(kind).startswith(_LEVELS):
                raise SettingError(
                    f"`types`: column {name!r} cannot be {shown(kind)}. {suggest(str(kind), KINDS)} Levels in order "
                    f"are written as {_LEVELS}low,middle,high."
                )
            levels = [one.strip() for one in str(kind).removeprefix(_LEVELS).split(",")]
            if kind not in KINDS and (len(set(levels)) < len(levels) or not all(levels)):
                raise SettingError(f"`types`: the levels of column {name!r} are empty or repeated: {shown(kind)}.")

    def unused(self, names: Sequence[str], *, targets: Sequence[str]) -> set[str]:
        """The input columns that are left out.

        Raises:
            SettingError: A name is unknown or that of a target, or no column is left.
        """
        inputs = [name for name in names if name not in targets]
        drop = _split(self.drop, names, setting="drop")
        columns = _split(self.columns, names, setting="columns")
        _split(list(self.types), names, setting="types")
        for name in targets:
            if name in drop or name in self.types:
                setting = "drop" if name in drop else "types"
                raise SettingError(f"`{setting}`: {name!r} is the target. Name input columns only.")
        found = {name for name in inputs if name in drop or (columns and name not in columns)}
        if len(found) == len(inputs):
            raise SettingError("`drop` and `columns` leave no input column. At least one is needed.")
        return found


def _split(given: Sequence[str], names: Sequence[str], *, setting: str) -> set[str]:
    """Names that are given one by one or with commas between them."""
    found = set()
    for entry in (given,) if isinstance(given, str) else given:
        for name in [entry] if entry in names else [one.strip() for one in str(entry).split(",")]:
            if name not in names:
                raise SettingError(f"`{setting}`: the table has no column {name!r}. {nearest(name, names)}")
            found.add(name)
    return found


@dataclass(frozen=True, eq=False)
class Decided:
    """Kinds of the input columns, decided on all rows of a table.

    Attributes:
        kinds: Maps the names of input columns to kinds, also ``unused``.
        levels: Levels of ordinal columns, in order.
        forms: Formats of dates.
        gaps: Columns with missing entries that an indicator marks.
        choices: What the person said.
    """

    kinds: Mapping[str, str]
    levels: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    gaps: frozenset[str] = frozenset()
    choices: Choices = field(default_factory=Choices)


def decide(
    frame: pd.DataFrame, *, targets: Sequence[str], choices: Choices, argument: str
) -> tuple[dict[str, np.ndarray], Decided]:
    """Decide the kind of every input column.

    Returns:
        The entries of the columns by name, and the decisions. A column of texts that are all different is an
        identifier, with a warning.

    Raises:
        DataError: A column holds dates, or numbers written as text, and nothing says what to do with it; an entry is
            missing where that is refused, or does not suit the kind.
    """
    unused = choices.unused(list(frame.columns), targets=targets)
    columns = {name: column_values(frame[name]) for name in frame.columns if name not in targets}
    kinds, levels, forms, gaps = {}, {}, {}, set()
    for name, values in columns.items():
        told = choices.types.get(name)
        kind = UNUSED if name in unused else (told or "").partition(":")[0] or _kind(name, values, frame, argument)
        kinds[name] = kind
        if kind in (UNUSED, IDENTIFIER):
            continue
        if kind == DATE:
            forms[name] = dates.format_of(values, column=name, argument=argument)
        elif kind == ORDINAL:
            levels[name] = _levels(name, values, told, frame, argument=argument, choices=choices)
        elif kind == NUMERIC:
            columns[name] = as_numbers(values, column=name, argument=argument)
        if _has_gaps(columns[name]):
            if choices.missing == REFUSE:
                _refuse(name, columns[name], argument)
            gaps.add(name)
        if kind == NUMERIC:
            numbers = columns[name]
            check_finite(np.where(np.isnan(numbers), 0.0, numbers)[:, None], argument=argument, names=[name])
        elif kind == CATEGORICAL:
            labels_of(values, column=name, argument=argument, refuses=False)
    _report_identifiers([name for name in kinds if kinds[name] == IDENTIFIER and name not in choices.types], kinds)
    return columns, Decided(kinds, levels, forms, frozenset(gaps), choices)


def _kind(name: str, values: np.ndarray, frame: pd.DataFrame, argument: str) -> str:
    """The kind that the entries of a column suggest."""
    if values.dtype.kind == "f":
        return NUMERIC
    if str(frame[name].dtype) == "category":
        return ORDINAL if frame[name].cat.ordered else CATEGORICAL
    if are_numbers(values):
        return NUMERIC
    if values.dtype.kind in "mM" or dates.fitting_formats(values):
        first = next((one for one in values.tolist() if not is_missing(one)), None)
        shown_first = str(values[0]) if values.dtype.kind in "mM" else shown(first)
        advice = (
            "Convert them to numbers, or drop the column."
            if values.dtype.kind == "m"
            else f"Set `--types {name}=date` (`types={{{name!r}: 'date'}}` in Python) to use year, position in the "
            f"year, weekday and hour, or `--drop {name}`."
        )
        raise DataError(f"Column {name!r} of {argument} holds dates or times, the first is {shown_first}. {advice}")
    return _kind_of_texts(name, values, argument)


def _kind_of_texts(name: str, values: np.ndarray, argument: str) -> str:
    present = [one for one in values.tolist() if one is not None]
    share = share_of_numbers(values)
    if share > 0.5:
        numbers = as_numbers(values, column=name, argument=argument)
        first = next(row for row, one in enumerate(values.tolist()) if one is not None)
        raise DataError(
            f"Column {name!r} of {argument} holds numbers written as text: {shown(values[first])} at "
            f"{row_name(first)}. Convert it, for example with `frame[{name!r}].astype(float)`."
            f"{' There are missing values too.' if np.isnan(numbers).any() else ''}"
        )
    if (row := row_of_written_number(values)) is not None:
        raise DataError(
            f"Column {name!r} of {argument} is not numeric: {shown(values[row])} at {row_name(row)}. {PLAIN_NUMBERS}, "
            f"or set `--types {name}=categorical`."
        )
    entries = [one for one in labels_of(values, column=name, argument=argument, refuses=False) if one != MISSING]
    return IDENTIFIER if len(present) > 1 and len(set(entries)) == len(entries) else CATEGORICAL


def row_of_written_number(column: np.ndarray) -> int | None:
    """The first row with a number that is written with a decimal comma, a mark between thousands, or a unit.

    None unless most entries are such numbers, all with the same unit or with none. With a unit, many of them have to
    differ, and texts that all differ must not end in the same letter, since those are names.
    """
    entries = column.tolist()
    texts = Counter(one for one in entries if isinstance(one, str))
    others = [one for one in entries if not isinstance(one, str) and not is_missing(one)]
    plain = {one for one in texts if _is_number(one)}
    units = {one: unit for one in texts.keys() - plain if (unit := _unit(one)) is not None}
    by_unit = Counter[str]()
    for text, unit in units.items():
        by_unit[unit] += texts[text]
    common = max(filter(None, by_unit), key=lambda unit: by_unit[unit], default="")
    written = {text for text, unit in units.items() if unit in ("", common)}
    num_written = sum(texts[text] for text in written)
    num_plain = sum(texts[one] for one in plain) + sum(map(_is_number, others))
    if not written or 2 * (num_written + num_plain) <= texts.total() + len(others):
        return None
    if common:
        is_word = common.isalpha() and not re.fullmatch(_CURRENCY, common)
        is_name = is_word and len(common) == 1 and len(written) == num_written
        if is_name or len(written) <= (MOST_NAMED if is_word else _MOST_WITH_SIGN):
            return None
    return next(row for row, one in enumerate(entries) if one in written)


def _unit(text: str) -> str | None:
    """The currency and the unit of a number that is written as text, empty without them; None for other texts."""
    text = text.strip()
    found = _WRITTEN.fullmatch(text) if len(text) <= _LONGEST_NUMBER else None
    return None if found is None or found[2] in _ORDINALS else "".join(filter(None, found.groups()))


def share_of_numbers(column: np.ndarray) -> float:
    """The share of the entries that are numbers or texts of numbers, among those that are not None."""
    present = [entry for entry in column.tolist() if entry is not None]
    return sum(for_each(present, _is_number)) / max(len(present), 1)


def _is_number(entry: Any) -> bool:
    try:
        return not np.isnan(as_float(entry))
    except (TypeError, ValueError):
        return False


def _levels(
    name: str, values: np.ndarray, told: str | None, frame: pd.DataFrame, *, argument: str, choices: Choices
) -> tuple[Label, ...]:
    """The levels of an ordinal column in order: as told, as declared in pandas, or the order of numbers."""
    found = set(labels_of(values, column=name, argument=argument, refuses=choices.missing == REFUSE)) - {MISSING}
    if told is not None and told.startswith(_LEVELS):
        by_text = {str(one).strip(): one for one in found}
        return tuple(by_text.get(one.strip(), one.strip()) for one in told[len(_LEVELS) :].split(","))
    if str(frame[name].dtype) == "category" and frame[name].cat.ordered:
        return tuple(frame[name].cat.categories.tolist())
    if any(isinstance(one, str) for one in found):
        some = ",".join(map(str, sorted_labels(list(found))[:5]))
        raise DataError(
            f"Column {name!r} of {argument} is ordinal, but nothing says in which order its levels are. Write "
            f"`--types {name}={_LEVELS}{some}` with all levels from low to high."
        )
    return sorted_labels(list(found))


def _has_gaps(values: np.ndarray) -> bool:
    if values.dtype.kind == "f":
        return bool(np.isnan(values).any())
    return bool(np.isnat(values).any()) if values.dtype.kind == "M" else any(map(is_missing, values.tolist()))


def _refuse(name: str, values: np.ndarray, argument: str) -> None:
    missing = pd.isna(values)
    raise DataError(
        f"Column {name!r} of {argument} has a missing value (NaN) at {row_name(int(np.flatnonzero(missing)[0]))}; "
        f"{int(missing.sum())} in this column. `missing` is {REFUSE!r}: remove these rows or impute the values, or set "
        f"it to {INDICATOR!r}."
    )


def _report_identifiers(names: list[str], kinds: Mapping[str, str]) -> None:
    if all(kind in (UNUSED, IDENTIFIER) for kind in kinds.values()):
        found = [repr(name) for name, kind in kinds.items() if kind == IDENTIFIER]
        raise DataError(
            f"No input column is left: {shorten(found)} {'is an identifier' if len(found) == 1 else 'are identifiers'} "
            "or a text that differs in every row. Set `--types COLUMN=categorical` if not."
        )
    if not names:
        return
    warnings.warn(
        f"Left out {len(names)} column{'s' * (len(names) > 1)} with a different text in every row, which look"
        f"{'s' * (len(names) == 1)} like a name or an identifier: {shorten([repr(one) for one in names])}. Set "
        "`--types COLUMN=categorical` if not.",
        UserWarning,
        stacklevel=4,
    )
