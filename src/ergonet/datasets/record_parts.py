"""Parts of the record of a preprocessing, checked as they are read from a file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from ergonet._errors import RunDirectoryError
from ergonet.datasets.validation import Label

LARGEST = float(np.finfo(np.float64).max)


def require(condition: object, part: str, wanted: str) -> None:
    """Raise `RunDirectoryError` unless a part of the record is as it is written."""
    if not condition:
        raise RunDirectoryError(
            f"The preprocessing record has a `{part}` that is not {wanted}: it was changed. Restore it from a backup, "
            f"or fit again."
        )


def listed(record: Mapping[str, Any], part: str, kinds: tuple[type, ...], wanted: str) -> list[Any]:
    """A list of values of these types."""
    found = record[part]
    require(isinstance(found, list) and all(type(one) in kinds for one in found), part, f"a list of {wanted}")
    return found


def texts(record: Mapping[str, Any], part: str) -> tuple[str, ...]:
    """A tuple of texts."""
    return tuple(listed(record, part, (str,), "texts"))


def labels(record: Mapping[str, Any], part: str) -> tuple[Label, ...]:
    """A tuple of different labels."""
    found = listed(record, part, (str, bool, int, float), "texts or numbers")
    require(len(set(found)) == len(found), part, "a list of different labels")
    return tuple(found)


def numbers(record: Mapping[str, Any], part: str) -> Float[np.ndarray, "number"]:
    """An array of finite numbers."""
    found = listed(record, part, (int, float), "numbers")
    require(all(abs(one) <= LARGEST for one in found), part, "a list of finite numbers")
    return np.asarray(found, dtype=np.float64)


def number_range(record: Mapping[str, Any]) -> Float[np.ndarray, "2 encoded"]:
    """Smallest and largest values."""
    ends = listed(record, "feature_range", (list,), "lists")
    require(len(ends) == 2 and len(ends[0]) == len(ends[1]), "feature_range", "two lists of as many numbers")
    return np.stack([numbers({"feature_range": one}, "feature_range") for one in ends])
