"""The tables: six UCI regressions with their standard splits, and classifications that scikit-learn brings along.

The files of the regressions are those of Gal and Hernandez-Lobato: a folder for each set, with `data.txt`, the indices
of its columns and, for each split, the indices of its rows.
"""

import importlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

VARIABLE = "ERGONET_DATA"
REGRESSIONS = ("yacht", "energy", "concrete", "wine-quality-red", "kin8nm", "power-plant")
STANDARD_SPLITS = tuple(range(5))
FURTHER_SPLITS = tuple(range(10, 20))  # of SMALL tables, besides; 5 to 9 served to choose the default
TEST_SHARE = 0.2  # of the classifications


@dataclass(frozen=True)
class Split:
    """Training and test rows of a table.

    Attributes:
        is_classification: whether the targets are classes 0 to K - 1.
        x_train: training inputs, `[rows, features]`.
        y_train: their targets, `[rows]`.
        x_test: test inputs.
        y_test: their targets.
    """

    is_classification: bool
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    def save(self, path: Path) -> None:
        """Write the arrays as an NPZ file, for a process of its own."""
        np.savez(path, **self.__dict__)


def read_split(path: Path) -> Split:
    """The split that `Split.save` wrote."""
    with np.load(path) as content:
        arrays = {name: content[name] for name in content.files}
    is_classification = bool(arrays.pop("is_classification"))
    return Split(is_classification, **arrays)


def load(name: str, split: int, *, data: Path | None) -> Split:
    """A split of a table.

    Args:
        name: one of `REGRESSIONS`, `CLASSIFICATIONS` or `TINY`.
        split: 0 to 19 for a regression; any number else.
        data: folder that contains `uci/` with the files of the regressions, or the folder `uci` itself; None: the one
            that the environment variable ERGONET_DATA names.

    Raises:
        FileNotFoundError: the files of a regression are not there; the message says how to give their folder.
    """
    if name in REGRESSIONS:
        return _standard(_folder(name, data), split)
    if name in TINY:
        return TINY[name](split)
    x, y = CLASSIFICATIONS[name]()
    return _shuffled(x, y, split)


def _folder(name: str, data: Path | None) -> Path:
    given = data or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    for folder in () if given is None else (given / "uci" / name, given / name):
        if (folder / "data.txt").exists():
            return folder
    where = "no folder is given" if given is None else f"{str(given)!r} has no uci/{name}/data.txt"
    raise FileNotFoundError(f"The files of {name!r} are missing: {where}. Give it by --data or {VARIABLE}.")


def _standard(folder: Path, split: int) -> Split:
    table = np.loadtxt(folder / "data.txt")
    features, target = (_indices(folder / f"index_{name}.txt") for name in ("features", "target"))
    train, test = (_indices(folder / f"index_{name}_{split}.txt") for name in ("train", "test"))
    x, y = table[:, features], table[:, target[0]]
    return Split(False, x[train], y[train], x[test], y[test])


def _indices(path: Path) -> np.ndarray:
    return np.atleast_1d(np.loadtxt(path)).astype(int)


def _shuffled(x: np.ndarray, y: np.ndarray, split: int) -> Split:
    """A split that keeps the shares of the classes; its number is the seed."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(np.arange(len(y)), test_size=TEST_SHARE, stratify=y, random_state=split)
    return Split(True, x[train], y[train], x[test], y[test])


def _bundled(name: str) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def read() -> tuple[np.ndarray, np.ndarray]:
        found: Any = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")(return_X_y=True)
        return np.asarray(found[0], np.float64), np.asarray(found[1], np.int64)

    return read


def _made(seed: int, **settings: Any) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    def make() -> tuple[np.ndarray, np.ndarray]:
        from sklearn.datasets import make_classification

        x, y = make_classification(random_state=seed, **settings)
        return np.asarray(x, np.float64), np.asarray(y, np.int64)

    return make


CLASSIFICATIONS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "breast-cancer": _bundled("breast_cancer"),
    "wine": _bundled("wine"),
    "digits": _bundled("digits"),
    "imbalanced": _made(
        0, n_samples=2000, n_features=20, n_informative=6, n_redundant=4, weights=[0.93], class_sep=0.8, flip_y=0.02
    ),
    "multiclass": _made(
        1, n_samples=2000, n_features=16, n_informative=8, n_redundant=2, n_classes=6, class_sep=1.2, flip_y=0.03
    ),
}
"""Inputs and classes by name."""
SMALL = ("breast-cancer", "wine")
"""Classifications whose five test sets together have fewer rows than the table of any other."""


def _tiny_regression(split: int) -> Split:
    rng = np.random.default_rng(split)
    x = rng.standard_normal((80, 3))
    y = 5 + x @ np.array([1.0, -2.0, 0.0]) + 0.3 * rng.standard_normal(80)
    return Split(False, x[:60], y[:60], x[60:], y[60:])


def _tiny_classes(split: int) -> Split:
    rng = np.random.default_rng(split)
    x = rng.standard_normal((90, 2))
    return _shuffled(x, (x[:, 0] + 0.3 * rng.standard_normal(90) > 0).astype(np.int64), split)


TINY: dict[str, Callable[[int], Split]] = {"tiny-regression": _tiny_regression, "tiny-classes": _tiny_classes}
"""For `--quick`: no files are needed."""
