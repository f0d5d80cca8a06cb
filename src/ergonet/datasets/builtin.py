"""Builders of the built-in data sets that ship with scikit-learn; nothing is downloaded.

`digits` and `two-moons` have a fixed split; the others are split like any table.
"""

import dataclasses
from typing import Any

import numpy as np

from ergonet.datasets.dataset import Dataset
from ergonet.datasets.preprocessing import Preprocessing
from ergonet.datasets.tables import from_table
from ergonet.datasets.transforms import AbstractTransform
from ergonet.datasets.validation import check_seed, check_test_fraction

_DIGITS_ROWS = 500
_MOONS_ROWS = 500
_MOONS_NOISE = 0.2
_MOONS_SEED = 0


def digits(*, test_fraction: float, seed: int) -> Dataset:
    """8x8 gray images of digits: pixels / 16, minus the training mean of each pixel, divided by one global sd.

    The first 500 rows are for training and the last 500 for testing. Pixels that are constant over the training rows
    are kept (as zeros), so that a 64-35-10 network without biases has 2590 weights.

    Source: scikit-learn `load_digits` (UCI, Optical Recognition of Handwritten Digits).
    """
    from sklearn.datasets import load_digits

    check_test_fraction(test_fraction)
    check_seed(seed)
    bunch: Any = load_digits()
    pixels, labels = np.asarray(bunch.data), np.asarray(bunch.target)
    train, test = pixels[:_DIGITS_ROWS], pixels[-_DIGITS_ROWS:]
    mean = train.mean(axis=0)
    preprocessing = Preprocessing(
        task="classification",
        feature_names=tuple(bunch.feature_names),
        target_names=("digit",),
        dropped=(),
        feature_mean=mean,
        feature_sd=np.full(pixels.shape[1], (train - mean).std()),
        target_mean=np.zeros(0),
        target_sd=np.zeros(0),
        classes=tuple(range(10)),
        scaling="pixels / 16, minus the training mean of each pixel, divided by one sd for all pixels",
    )
    return Dataset(
        name="digits",
        task="classification",
        x_train=preprocessing.transform(train),
        y_train=labels[:_DIGITS_ROWS].astype(np.int32),
        x_test=preprocessing.transform(test),
        y_test=labels[-_DIGITS_ROWS:].astype(np.int32),
        preprocessing=preprocessing,
        image_shape=(8, 8),
        raw_test=test,
        test_rows=np.arange(len(pixels) - _DIGITS_ROWS, len(pixels)),
    )


def two_moons(*, test_fraction: float, seed: int) -> Dataset:
    """Two interleaved half circles with noise 0.2: 500 training rows and 500 test rows, always the same.

    Source: scikit-learn `make_moons`.
    """
    import pandas as pd
    from sklearn.datasets import make_moons

    check_test_fraction(test_fraction)
    check_seed(seed)
    moons: Any = make_moons(2 * _MOONS_ROWS, noise=_MOONS_NOISE, random_state=_MOONS_SEED)
    points, labels = moons
    frame = pd.DataFrame({"x0": points[:, 0], "x1": points[:, 1], "moon": labels})
    train, test = frame.iloc[:_MOONS_ROWS], frame.iloc[_MOONS_ROWS:]
    dataset = from_table(train, "moon", task="classification", test_frame=test)
    return dataclasses.replace(dataset, name="two-moons", test_rows=np.arange(_MOONS_ROWS, 2 * _MOONS_ROWS))


def diabetes(*, test_fraction: float, seed: int, target_transform: AbstractTransform | None = None) -> Dataset:
    """Progression of diabetes after one year against ten measurements, in original units.

    Source: scikit-learn `load_diabetes` (Efron et al., 2004, Least Angle Regression).
    """
    from sklearn.datasets import load_diabetes

    bunch: Any = load_diabetes(as_frame=True, scaled=False)
    dataset = from_table(
        bunch.frame.rename(columns={"target": "progression"}),
        "progression",
        task="regression",
        test_fraction=test_fraction,
        seed=seed,
        target_transform=target_transform,
    )
    return dataclasses.replace(dataset, name="diabetes")


def breast_cancer(*, test_fraction: float, seed: int) -> Dataset:
    """Malignant or benign from 30 measurements of cell nuclei; labels are the class names.

    Source: scikit-learn `load_breast_cancer` (UCI, Breast Cancer Wisconsin, Diagnostic).
    """
    from sklearn.datasets import load_breast_cancer

    bunch: Any = load_breast_cancer(as_frame=True)
    frame = bunch.frame.assign(target=np.asarray(bunch.target_names)[bunch.target])
    dataset = from_table(
        frame.rename(columns={"target": "diagnosis"}),
        "diagnosis",
        task="classification",
        test_fraction=test_fraction,
        seed=seed,
    )
    return dataclasses.replace(dataset, name="breast-cancer")
