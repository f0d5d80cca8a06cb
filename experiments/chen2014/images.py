"""The problem of section 4.2: images, a network of one hidden layer, and learning curves of its samplers."""

import warnings
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import ergonet
from ergonet import MLP, BayesianNetwork, RunningPrediction, likelihoods, priors, retention
from experiments.record import Case, Quantity
from experiments.sizes import Size

HIDDEN, CLASSES = 100, 10
NUM_POINTS = 16  # points of a learning curve

ERROR = Quantity("test error of the average, %", 2)
LAST = Quantity("test error of the last network, %", 2)
NLL = Quantity("nll of the average, nats", 3)
TEMPERATURE = Quantity("kinetic temperature", 3)
RATE = Quantity("learning rate", -2)
SECONDS = Quantity("seconds")
GROUPS = {"Test rows": (ERROR, LAST, NLL), "The run": (TEMPERATURE, RATE, SECONDS)}

SETTING = """
784-100-10 ReLU, softmax, N(0, 1) on every weight and bias (79510 of them); pixels / 255; batches of 500 of the 60000
training images; errors on the 10000 test images. The *average* is over the networks at the end of each epoch after the
warm-up; the *last network* is that of the last epoch, which is what an optimizer returns. Chains and optimizers start
from a tenth of a prior draw, as all minibatch runs of this library do; the report does not state its initial values. A
smoke run uses small images of another data set, a small network and a few epochs.
"""


@dataclass(frozen=True)
class Epochs:
    """The length of a run.

    Attributes:
        warmup: epochs that are not averaged.
        total: all epochs, the warm-up included.
        batch_size: rows of a minibatch.
    """

    warmup: int
    total: int
    batch_size: int = 500

    def of(self, size: Size) -> "Epochs":
        """A quick run has a tenth of these, a smoke run a handful."""
        if size.mode == "smoke":
            return Epochs(2, 5, 50)
        return Epochs(max(1, self.warmup // 10), max(2, self.total // 10)) if size.mode == "quick" else self

    def in_words(self, size: Size) -> str:
        """The size in words, such as `3 seeds of 800 epochs, of which 50 warm-up`."""
        run = self.of(size)
        return f"{size.num_seeds} seeds of {run.total} epochs, of which {run.warmup} warm-up"

    @property
    def points(self) -> list[int]:
        """Epochs of a learning curve."""
        spread = np.unique(np.geomspace(1, self.total, NUM_POINTS).round().astype(int))
        return spread.tolist()


@dataclass(frozen=True)
class Problem:
    """A network's posterior on images.

    Attributes:
        model: the network.
        target: its posterior.
        x_test: test images, flat.
        y_test: their classes.
    """

    model: BayesianNetwork
    target: Any
    x_test: np.ndarray
    y_test: np.ndarray


@cache
def problem(name: str, mode: str) -> Problem:
    """The problem for a data set; a smoke run uses the 8x8 digits instead."""
    data = ergonet.datasets.load("digits" if mode == "smoke" else name)
    hidden = 8 if mode == "smoke" else HIDDEN
    network = MLP((data.x_train.shape[1], hidden, CLASSES), activation="relu")
    model = BayesianNetwork(network, priors.Normal(1.0), likelihoods.Categorical())
    return Problem(model, model.condition(data.x_train, data.y_train), data.x_test, data.y_test)


@contextmanager
def quietly() -> Generator[None]:
    """Suppress warnings about temperatures, which are in the tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def learn(
    kernel: Any, of: Problem, epochs: Epochs, seed: int, *, init: Any = None
) -> tuple[dict[str, float], ergonet.Samples]:
    """Scores and the learning curve of one run, started from `init` or from a draw of the prior."""
    with quietly():
        result = ergonet.sample(
            of.target,
            kernel,
            num_chains=1,
            num_warmup=epochs.warmup,
            num_draws=epochs.total - epochs.warmup,
            seed=seed,
            retention=retention.Last(1),
            callback=RunningPrediction(of.model, of.x_test, of.y_test),
            init=init,
            progress=False,
        )
    curve = {name: values[0] for name, values in (result.curve or {}).items()}
    temperatures = curve.get("kinetic_temperature", np.full(epochs.total, np.nan))  # SGLD has no momentum
    found = {
        ERROR.name: 100 * float(curve["error"][-1]),
        LAST.name: 100 * float(curve["error of the draw"][-1]),
        NLL.name: float(curve["nll"][-1]),
        TEMPERATURE.name: float(np.mean(temperatures[epochs.warmup :])),
        RATE.name: float(result.tuning["step_size"][0]),
        SECONDS.name: sum(result.seconds[phase] for phase in ("warmup", "sampling")),
    }
    for epoch in epochs.points:
        found[average_after(epoch)] = 100 * float(curve["error"][epoch - 1])
        found[network_after(epoch)] = 100 * float(curve["error of the draw"][epoch - 1])
    return found, result


def average_after(epoch: int) -> str:
    """The error of the average after an epoch."""
    return f"error of the average after {epoch} epochs, %"


def network_after(epoch: int) -> str:
    """The error of the single network after an epoch."""
    return f"error of the network after {epoch} epochs, %"


def case(label: str, kernel: Any, name: str, epochs: Epochs, *, source: Mapping[str, float] | None = None) -> Case:
    """The row of `kernel(batch_size)` on a data set."""

    def measure(size: Size, seed: int) -> Mapping[str, float]:
        chosen = epochs.of(size)
        return learn(kernel(chosen.batch_size), problem(name, size.mode), chosen, seed)[0]

    return Case(label, measure, source or {})
