"""The reproductions by name; light, so that they can be listed without importing JAX."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from experiments.record import Experiment


@dataclass(frozen=True)
class Entry:
    """Where a reproduction lives, and what it is.

    Attributes:
        module: with an `EXPERIMENT`.
        about: one line.
    """

    module: str
    about: str


ENTRIES = {
    "lau-termination": Entry("experiments.lau2018.termination", "Lau 2018, Table 4.2: XHMC against no-U-turn ends"),
    "lau-static": Entry("experiments.lau2018.static", "Lau 2018, Table 4.13: static and windowed against dynamic HMC"),
    "lau-layers": Entry("experiments.lau2018.layers", "Lau 2018, Table 4.11: 2, 3 and 4 hidden layers"),
    "lau-scaled": Entry("experiments.lau2018.scaled", "Lau 2018, Table 4.9: prior variance 1 or 1 / units"),
    "lau-precision": Entry("experiments.lau2018.precision", "Lau 2018, Table 4.12: float32 against float64"),
    "lau-metric": Entry("experiments.lau2018.metric", "Lau 2018, Table 4.10: dense, diagonal and identity metric"),
}


def load(name: str) -> "Experiment":
    """The experiment of that name.

    Raises:
        KeyError: there is none.
    """
    return importlib.import_module(ENTRIES[name].module).EXPERIMENT
