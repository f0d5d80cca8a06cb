"""Dates as numbers: days since 1970, and the parts of a date that a network can use."""

import re
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Shaped

from ergonet._errors import DataError, shown
from ergonet.datasets.validation import is_missing, row_name

ISO = "ISO8601"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PARTS = ("year", "year sine", "year cosine", *WEEKDAYS, "hour sine", "hour cosine")
_ORDERS = ("%d.%m.", "%d/%m/", "%m/%d/", "%d-%m-", "%m-%d-", "%d-%b-", "%d %b ")
_DAYS = ("%Y/%m/%d", *(f"{order}{year}" for order in _ORDERS for year in ("%Y", "%y")))
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
FORMATS = (ISO, *(f"{day}{time}" for day in _DAYS for time in _TIMES))
_ZONE = re.compile(r"(?<=\d)\s*(Z|[+-]\d\d(:?\d\d)?)$")
_SECONDS = 86400.0
_DIGITS = 9  # of sines and cosines, so that those of midnight and noon are exactly 0
_SEEN = 200  # entries that are tried before all are


def format_of(values: Shaped[np.ndarray, "rows"], *, column: str, argument: str) -> str:
    """The one of `FORMATS` in which a column of dates is written.

    Raises:
        DataError: No format fits every entry, or two fit that disagree, as for 01/02/2020.
    """
    fitting = fitting_formats(values)
    if not fitting:
        first = next((one for one in values.tolist() if not is_missing(one)), None)
        raise DataError(
            f"Column {column!r} of {argument} does not hold dates of one known form; the first is {shown(first)}. "
            "Write them as 2020-12-31, 2020-12-31 17:30 or 31.12.2020."
        )
    days = [_days_of(values, one) for one in fitting]
    differ = [np.flatnonzero(one[days[0] == days[0]] != days[0][days[0] == days[0]]) for one in days[1:]]
    for other, rows in zip(fitting[1:], differ, strict=True):
        if len(rows):
            raise DataError(
                f"Column {column!r} of {argument} could mean two dates in every row, as {fitting[0]} or as {other}. "
                "Write the dates as 2020-12-31."
            )
    return fitting[0]


def fitting_formats(values: Shaped[np.ndarray, "rows"]) -> list[str]:
    """The formats in which every entry that is not missing is a date."""
    if values.dtype.kind == "M":
        return [ISO]
    present = [one for one in values.tolist() if not is_missing(one)]
    if not present or not all(_may_be_date(one) for one in present):
        return []
    found = [*FORMATS]
    for entries in (np.array(present[:_SEEN], dtype=object), np.array(present, dtype=object)):
        found = [one for one in found if not np.isnan(_days_of(entries, one)).any()]
    return found


def as_days(values: Shaped[np.ndarray, "rows"], form: str, *, column: str, argument: str) -> Float[np.ndarray, "rows"]:
    """Days since 1970, with the time of day as a fraction; NaN for missing entries.

    Args:
        values: Dates, or texts in the format `form`.
        form: One of `FORMATS`.
        column: Name of the column in messages.
        argument: Name of the table in messages.

    Raises:
        DataError: An entry is no such date; names the first row, its value and the count.
    """
    missing = _missing(values)
    days = _days_of(values, form)
    bad = np.flatnonzero(np.isnan(days) & ~missing)
    if len(bad):
        raise DataError(
            f"Column {column!r} of {argument} holds {len(bad)} value{'s' * (len(bad) > 1)} that "
            f"{'are' if len(bad) > 1 else 'is'} no date{'s' * (len(bad) > 1)} of the form {form}: the first is "
            f"{shown(values[bad[0]])} at {row_name(int(bad[0]))}."
        )
    return days


def parts_of(days: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows parts"]:
    """The year, the position in it and in the day as points on a circle, and the day of the week as 0/1 columns."""
    whole = np.floor(days)
    dates = whole.astype(np.int64).astype("M8[D]")
    years = dates.astype("M8[Y]")
    start = years.astype("M8[D]").astype(np.int64)
    length = (years + np.timedelta64(1, "Y")).astype("M8[D]").astype(np.int64) - start
    turn, hour = 2 * np.pi * (days - start) / length, 2 * np.pi * (days - whole)
    weekday = (whole.astype(np.int64) + 3) % 7  # 1970 began on a Thursday
    sines = [np.round(one, _DIGITS) for one in (np.sin(turn), np.cos(turn), np.sin(hour), np.cos(hour))]
    found = [years.astype(np.int64) + 1970, *sines[:2], weekday[:, None] == np.arange(7), *sines[2:]]
    return np.column_stack(found).astype(np.float64)


def _may_be_date(entry: Any) -> bool:
    text = entry.strip() if isinstance(entry, str) else ""
    return (6 if text.count("/") == 2 else 8) <= len(text) <= 35 and text[:1].isdigit()  # 8.1.10 may be a version


def _local(text: str) -> str:
    """A date without its offset from UTC: its day and hour are those of the people who wrote it."""
    return _ZONE.sub("", text.strip()) if ":" in text or "T" in text else text.strip()


def _missing(values: Shaped[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    if values.dtype.kind == "M":
        return np.isnat(values)
    return np.array([is_missing(one) for one in values.tolist()], dtype=bool)


def _days_of(values: Shaped[np.ndarray, "rows"], form: str) -> Float[np.ndarray, "rows"]:
    if values.dtype.kind != "M":
        texts: Any = pd.Series([_local(one) if isinstance(one, str) else None for one in values.tolist()], dtype=object)
        parsed = pd.to_datetime(texts, format=form, errors="coerce", utc=True)
        values = parsed.dt.tz_localize(None).to_numpy()
    seconds = values.astype("M8[us]").astype(np.int64) / 1e6
    return np.where(np.isnat(values), np.nan, seconds / _SECONDS)
