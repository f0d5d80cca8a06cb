"""The demo against scikit-learn's predictors as they are shipped, on the same rows.

`python -m benchmarks.demo` fits the digits by the command, and logistic regression and `MLPClassifier` for ten seeds,
which all get the same scaled pixels. Differences are ours minus theirs, averaged over their seeds; that of the negative
log probability has the standard error of its mean over the test rows, the same rows for both.
"""

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from benchmarks.uci.contestants import COMMAND
from ergonet import datasets
from ergonet.prediction.scores import classification_scores

SEEDS = range(10)
SCORES = "error", "nll", "calibration"


def demo(truth: np.ndarray) -> np.ndarray:
    """Class probabilities of the test rows by the command."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["fit", "digits", "--out", f"{folder}/run", "--quiet"]
        subprocess.run([sys.executable, "-c", COMMAND, *arguments], check=True, stdout=subprocess.DEVNULL)
        with np.load(Path(folder) / "run" / "evaluation.npz") as stored:
            assert np.array_equal(stored["truth"], truth)
            return stored["probabilities"]


def theirs(data: datasets.Dataset) -> dict[str, list[np.ndarray]]:
    """Class probabilities of the test rows by the others, for each seed."""
    made: dict[str, list[Any]] = {
        "logistic regression": [LogisticRegression(max_iter=1000)],
        "MLPClassifier": [MLPClassifier(random_state=seed) for seed in SEEDS],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the optimizer of the networks stops at its number of iterations
        return {
            name: [one.fit(data.x_train, data.y_train).predict_proba(data.x_test) for one in models]
            for name, models in made.items()
        }


def surprise(probabilities: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Negative log probability of each row."""
    return -np.log(probabilities[np.arange(len(truth)), truth])


def main() -> None:
    """Measure and print."""
    data = datasets.load("digits")
    ours, truth = demo(data.y_test), data.y_test
    print("ours", {name: round(classification_scores(ours, truth)[name], 4) for name in SCORES})
    for name, found in theirs(data).items():
        scores = [classification_scores(one, truth) for one in found]
        rows = surprise(ours, truth) - np.mean([surprise(one, truth) for one in found], axis=0)
        print(name, {key: round(float(np.mean([one[key] for one in scores])), 4) for key in SCORES}, end="")
        print(f" by {len(found)} fits; difference {rows.mean():.4f} +- {rows.std(ddof=1) / len(rows) ** 0.5:.4f}")


if __name__ == "__main__":
    main()
