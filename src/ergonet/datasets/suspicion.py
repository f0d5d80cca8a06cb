"""Columns that look wrong, named before a fit.

Identifiers and row numbers, copies, leaks of the target, and names of categories that look like one written twice.
"""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from ergonet._errors import shown
from ergonet.datasets.kinds import CATEGORICAL, NUMERIC
from ergonet.datasets.validation import shorten

EXPLAINED = 0.999
_MOST_ROWS = 2000  # that a tree sees
_MOST_RANKED = 10_000  # rows
_FEWEST_ROWS = 50  # for a rule that must hold on other rows, and for row numbers whose name does not tell
_MOST_TREES = 100  # columns; among more, only those that follow the target in order are found
_NAMES = ("id", "index", "key", "nr", "uuid", "guid", "rownames")


def warn_of_suspects(
    columns: Mapping[str, np.ndarray], target: Any, *, kinds: Mapping[str, str], target_names: Sequence[str]
) -> None:
    """Issue one warning for each way in which columns look wrong.

    Args:
        columns: Entries of the input columns of all rows.
        target: Labels [rows], or numbers [rows, targets].
        kinds: Kinds of the columns; only numeric and categorical ones are looked at.
        target_names: Names of the target columns.
    """
    codes = {name: _codes(column) for name, column in columns.items() if kinds[name] in (NUMERIC, CATEGORICAL)}
    rows = [name for name in codes if kinds[name] == NUMERIC and _is_row_number(name, columns[name])]
    _warn(dict.fromkeys(rows, "numbers its rows like an identifier, which says nothing about new rows"))
    _warn({name: f"holds the same as column {first!r}, and one is enough" for name, first in _copies(codes).items()})
    is_label = isinstance(target, list)
    for name in [name for name in codes if kinds[name] == CATEGORICAL]:
        _warn_of_spellings(name, columns[name].tolist())
    if is_label:
        _warn_of_spellings(target_names[0], target)
    answers = _codes(np.array(target, dtype=object))[:, None] if is_label else np.asarray(target)
    for name, answer in zip(target_names, answers.T, strict=True) if len(codes) > 1 else ():
        leaks = [one for one, code in codes.items() if _follows(code, answer)]
        if not leaks and len(codes) <= _MOST_TREES and len(answer) >= _FEWEST_ROWS:
            leaks = [one for one, code in codes.items() if _explains(code, answer, is_label=is_label)]
        share = f"{100 * EXPLAINED:g} %"
        said = f"alone explains {share} of the target {name!r}, like a copy of it or a result that comes after it"
        _warn(dict.fromkeys(leaks, said))


def _warn(said: Mapping[str, str]) -> None:
    """Warn of columns, by their names."""
    names = list(said)
    for name in names[:3]:
        others = f" So do {shorten([repr(one) for one in names[3:]])}." if len(names) > 3 and name == names[2] else ""
        warnings.warn(
            f"Column {name!r} {said[name]}. Leave it out with `--drop` unless new rows have it and it helps.{others}",
            UserWarning,
            stacklevel=4,
        )


def _warn_of_spellings(name: str, entries: Sequence[Any]) -> None:
    """Warn of the first two categories of a column that differ in nothing but blanks or case."""
    first: dict[str, str] = {}
    for entry in sorted({one for one in entries if isinstance(one, str)}):
        earlier = first.setdefault(" ".join(entry.casefold().split()), entry)
        if earlier != entry:
            warnings.warn(
                f"Column {name!r} has {shown(earlier)} and {shown(entry)}, which differ only in blanks or case, as two "
                "categories. Write them alike if they are one.",
                UserWarning,
                stacklevel=4,
            )
            return


def _codes(column: np.ndarray) -> Float[np.ndarray, "rows"]:
    """Numbers as they are, and an arbitrary number for each category."""
    if column.dtype.kind in "biuf":
        return column.astype(np.float64, copy=False)
    return np.unique([str(one) for one in column.tolist()], return_inverse=True)[1].astype(np.float64)


def _is_row_number(name: str, column: Float[np.ndarray, "rows"]) -> bool:
    """Whether whole numbers are all different, and are consecutive or named like an identifier."""
    if np.isnan(column).any() or (column != np.floor(column)).any() or len(np.unique(column)) < len(column):
        return False
    words = name.lower().replace("-", "_").replace(" ", "_").split("_")
    is_named = words[0] in _NAMES or words[-1] in _NAMES or name.lower().startswith("unnamed:")
    return is_named or (len(column) >= _FEWEST_ROWS and bool((np.abs(np.diff(column)) == 1).all()))


def _copies(codes: Mapping[str, Float[np.ndarray, "rows"]]) -> dict[str, str]:
    """Columns that repeat an earlier one that varies, with its name; missing entries are at the same rows in both."""
    first: dict[bytes, str] = {}
    earlier = {name: first.setdefault(_digest(code), name) for name, code in codes.items() if _varies(code)}
    return {name: one for name, one in earlier.items() if one != name}


def _digest(code: Float[np.ndarray, "rows"]) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(code)).digest()


def _varies(code: Float[np.ndarray, "rows"]) -> bool:
    known = code[~np.isnan(code)]
    return len(known) > 0 and bool(np.ptp(known) > 0)


def _follows(code: Float[np.ndarray, "rows"], answer: Float[np.ndarray, "rows"]) -> bool:
    """Whether the target is a linear or a monotone function of a column, up to a thousandth of its variance."""
    rows = np.flatnonzero(_there(code, answer))
    if len(rows) < 10:
        return False
    code, answer = code[rows], answer[rows]
    if _squared_correlation(code, answer) >= EXPLAINED:
        return True
    few = np.random.default_rng(0).permutation(len(rows))[:_MOST_RANKED]
    return _squared_correlation(_ranks(code[few]), _ranks(answer[few])) >= EXPLAINED


def _there(code: Float[np.ndarray, "rows"], answer: Float[np.ndarray, "rows"]) -> Bool[np.ndarray, "rows"]:
    return np.isfinite(code) & np.isfinite(answer)


def _ranks(values: Float[np.ndarray, "rows"]) -> Float[np.ndarray, "rows"]:
    from scipy.stats import rankdata

    return rankdata(values)


def _squared_correlation(one: Float[np.ndarray, "rows"], two: Float[np.ndarray, "rows"]) -> float:
    if len(one) < 2:
        return 0.0
    one, two = (values / (np.abs(values).max() or 1.0) for values in (one, two))
    one, two = one - one.mean(), two - two.mean()
    scale = (one @ one) * (two @ two)
    return float((one @ two) ** 2 / scale) if scale > 1e-200 else 0.0


def _explains(code: Float[np.ndarray, "rows"], answer: Float[np.ndarray, "rows"], *, is_label: bool) -> bool:
    """Whether a tree of this column alone explains the target in rows that it has not seen."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    rows = np.random.default_rng(0).permutation(np.flatnonzero(_there(code, answer)))[:_MOST_ROWS]
    half = len(rows) // 2
    if half < _FEWEST_ROWS // 2 or np.ptp(code[rows]) == 0:
        return False
    with np.errstate(over="ignore"):
        x, y = code[rows].astype(np.float32)[:, None], answer[rows]
    if not np.isfinite(x).all() or np.ptp(y[:half]) == 0 or np.ptp(y[half:]) == 0:
        return False
    y = y if is_label else y / np.abs(y).max()
    tree = DecisionTreeClassifier(random_state=0) if is_label else DecisionTreeRegressor(random_state=0)
    missed = 1 - tree.fit(x[:half], y[:half]).score(x[half:], y[half:])
    # Relative to the errors of always naming the most frequent class, which are few if the others are rare.
    without = 1 - np.unique(y[half:], return_counts=True)[1].max() / (len(y) - half) if is_label else 1.0
    return bool(missed <= (1 - EXPLAINED) * without)
