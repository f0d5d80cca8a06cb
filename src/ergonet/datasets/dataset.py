"""The record of training and test rows that models are fitted to."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float32, Int, Int32, Shaped

from ergonet.datasets.preprocessing import Preprocessing


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows for training and for testing, as the network sees them.

    Attributes:
        name: Built-in name, or ``"table"``.
        task: ``"classification"`` or ``"regression"``.
        x_train: Scaled inputs, Float32 [train_rows, features].
        y_train: Classification: class index, Int32 [train_rows]. Regression: standardized targets,
            Float32 [train_rows, targets].
        x_test: Like `x_train`; 0 rows if nothing is held out.
        y_test: Like `y_train`; 0 rows if nothing is held out.
        preprocessing: Converts new rows to network inputs, and predictions to the user's units or labels.
        image_shape: (height, width) or (height, width, channels) if a row is an image, flattened in that order;
            otherwise None.
        raw_test: Test rows before scaling, [test_rows, raw_features]: pixels for images, the numeric columns in use
            for tables.
        test_rows: Index of each test row in the user's file, counting from 0, ascending; if a separate test file was
            given, the index in that file.
        weights: Weight of each training row; None: 1.
        said: How the file of a table is written; empty if it has none.
    """

    name: str
    task: str
    x_train: Float32[np.ndarray, "train_rows features"]
    y_train: Int32[np.ndarray, "train_rows"] | Float32[np.ndarray, "train_rows targets"]
    x_test: Float32[np.ndarray, "test_rows features"]
    y_test: Int32[np.ndarray, "test_rows"] | Float32[np.ndarray, "test_rows targets"]
    preprocessing: Preprocessing
    image_shape: tuple[int, int] | tuple[int, int, int] | None
    raw_test: Shaped[np.ndarray, "test_rows raw_features"]
    test_rows: Int[np.ndarray, "test_rows"]
    weights: Float[np.ndarray, "train_rows"] | None = None
    said: str = ""
