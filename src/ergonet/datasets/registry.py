"""The built-in data sets by name: one line each here, the arrays only when one is loaded."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ergonet._errors import SettingError, suggest

if TYPE_CHECKING:
    from ergonet.datasets.dataset import Dataset


@dataclass(frozen=True)
class Entry:
    """Where a built-in data set is made.

    Attributes:
        description: One line for a person who chooses among the sets.
        module: Module that holds the builder; imported on first use.
        builder: Function of that module, called as ``builder(test_fraction=..., seed=...)``.
    """

    description: str
    module: str
    builder: str


_ENTRIES = {
    "breast-cancer": Entry(
        "569 tumours, 30 measurements, malignant or benign (classification; split by test_fraction and seed)",
        "ergonet.datasets.builtin",
        "breast_cancer",
    ),
    "diabetes": Entry(
        "442 patients, 10 measurements, progression in a year (regression; split by test_fraction and seed)",
        "ergonet.datasets.builtin",
        "diabetes",
    ),
    "digits": Entry(
        "1000 handwritten digits of 8x8 pixels, 10 classes (classification; own split: first 500, last 500)",
        "ergonet.datasets.builtin",
        "digits",
    ),
    "two-moons": Entry(
        "two interleaved half circles in the plane, noise 0.2 (classification; own split: 500 and 500)",
        "ergonet.datasets.builtin",
        "two_moons",
    ),
}


def names() -> dict[str, str]:
    """The built-in data sets.

    Returns:
        Name to one-line description, sorted by name.
    """
    return {name: _ENTRIES[name].description for name in sorted(_ENTRIES)}


def load(name: str, *, test_fraction: float = 0.2, seed: int = 0) -> "Dataset":
    """Load a built-in data set; nothing is downloaded.

    Args:
        name: One of ``names()``.
        test_fraction: Share of the rows that is held out, in [0, 1). Ignored by ``digits`` and
            ``two-moons``, which come with their own split.
        seed: Seed of the split, 0 or larger. Ignored in the same cases.

    Returns:
        The data set, scaled and split.

    Raises:
        SettingError: The name is not known, or `test_fraction` or `seed` is out of its range.
    """
    if name not in _ENTRIES:
        raise SettingError(f"`name`: there is no built-in data set {name!r}. {suggest(str(name), _ENTRIES)}")
    entry = _ENTRIES[name]
    builder = getattr(importlib.import_module(entry.module), entry.builder)
    return builder(test_fraction=test_fraction, seed=seed)
