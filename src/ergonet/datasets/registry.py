"""The built-in data sets by name: one line each here, the arrays only when one is loaded."""

import importlib
from dataclasses import dataclass
from os import PathLike
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
        builder: Function of that module, called as ``builder(test_fraction=..., seed=...)``, or, when it reads files,
            as ``builder(folder=..., fetch=...)``.
        reads_files: Whether the data come from a folder of the user's.
        own_split: Whether training and test rows are always the same ones.
    """

    description: str
    module: str
    builder: str
    reads_files: bool = False
    own_split: bool = False


_ENTRIES = {
    "breast-cancer": Entry(
        "569 tumours, 30 measurements, malignant or benign (classification; split by test_fraction and seed)",
        "ergonet.datasets.builtin",
        "breast_cancer",
    ),
    "cifar10": Entry(
        "60000 photographs of 32x32 pixels, 10 classes (classification; own split; files in --data DIR)",
        "ergonet.datasets.images",
        "cifar10",
        reads_files=True,
        own_split=True,
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
        own_split=True,
    ),
    "fashion-mnist": Entry(
        "70000 articles of clothing of 28x28 pixels, 10 classes (classification; own split; files in --data DIR)",
        "ergonet.datasets.images",
        "fashion_mnist",
        reads_files=True,
        own_split=True,
    ),
    "mnist": Entry(
        "70000 handwritten digits of 28x28 pixels, 10 classes (classification; own split; files in --data DIR)",
        "ergonet.datasets.images",
        "mnist",
        reads_files=True,
        own_split=True,
    ),
    "two-moons": Entry(
        "two interleaved half circles in the plane, noise 0.2 (classification; own split: 500 and 500)",
        "ergonet.datasets.builtin",
        "two_moons",
        own_split=True,
    ),
}


def names() -> dict[str, str]:
    """The built-in data sets.

    Returns:
        Name to one-line description, sorted by name.
    """
    return {name: _ENTRIES[name].description for name in sorted(_ENTRIES)}


def entry_of(name: str) -> Entry:
    """What the registry knows of a built-in data set; raises `SettingError` where the name is not known."""
    if name not in _ENTRIES:
        raise SettingError(f"`name`: there is no built-in data set {name!r}. {suggest(str(name), _ENTRIES)}")
    return _ENTRIES[name]


def load(
    name: str,
    *,
    test_fraction: float = 0.2,
    seed: int = 0,
    data: str | PathLike[str] | None = None,
    fetch: bool = False,
) -> "Dataset":
    """Load a built-in data set; nothing is downloaded unless `fetch` asks for it.

    Args:
        name: One of ``names()``.
        test_fraction: Share of the rows that is held out, in [0, 1). Ignored by sets that come with their own split,
            as their descriptions say.
        seed: Seed of the split, 0 or larger. Ignored in the same cases.
        data: For ``mnist``, ``fashion-mnist`` and ``cifar10``: the folder that holds their folders or their files.
            None: the one that the environment variable ERGONET_DATA names.
        fetch: For the same: download from OpenML instead, through scikit-learn, which keeps a copy.

    Returns:
        The data set, scaled and split.

    Raises:
        DataError: Files are missing, or cannot be used; or the download failed.
        SettingError: The name is not known, `test_fraction` or `seed` is out of its range, or `data` or `fetch` are
            given for a set that reads no files.
    """
    entry = entry_of(name)
    builder = getattr(importlib.import_module(entry.module), entry.builder)
    if entry.reads_files:
        return builder(folder=data, fetch=fetch)
    given = {"data": data is not None, "fetch": fetch}
    for argument, is_given in given.items():
        if is_given:
            others = ", ".join(one for one in sorted(_ENTRIES) if _ENTRIES[one].reads_files)
            raise SettingError(
                f"`{argument}` (`--{argument}`) is for data sets that are read from files ({others}), not for {name!r}."
            )
    return builder(test_fraction=test_fraction, seed=seed)
