"""Models compared on the same rows: differences with their errors, and weights."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from ergonet._errors import DataError
from ergonet._notebook import Findings, in_columns
from ergonet.comparison.criteria import Elpd, sum_error
from ergonet.comparison.weights import pseudo_bma_weights, stacking_weights

ERRORS = 2  # a difference of fewer standard errors is noise
NATS = 4.0  # a difference of less is small, and its error over rows is not to be trusted (Sivula2020)
FEW_ROWS = 100  # with fewer, errors over rows are rough

PerModel = Float[np.ndarray, "model"]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Findings):
    """Models in the order of their expected log predictive density, the best one first.

    Attributes:
        names: of the models.
        estimates: of the models.
    """

    names: tuple[str, ...]
    estimates: tuple[Elpd, ...]

    @property
    def method(self) -> str:
        """How the densities were computed."""
        return self.estimates[0].method

    @cached_property
    def pointwise(self) -> Float[np.ndarray, "model row"]:
        """The log density of each row."""
        return np.stack([one.pointwise for one in self.estimates])

    @property
    def differences(self) -> PerModel:
        """Each sum minus that of the best model; at most 0."""
        return (self.pointwise - self.pointwise[0]).sum(axis=1)

    @property
    def errors(self) -> PerModel:
        """Standard errors of `differences`: paired over rows, and the Monte Carlo errors of both sums where known."""
        paired = np.array([sum_error(one) for one in self.pointwise - self.pointwise[0]])
        chance = [0.0 if one.monte_carlo_error is None else np.sum(one.monte_carlo_error**2) for one in self.estimates]
        return np.sqrt(paired**2 + np.array([0.0, *(chance[0] + one for one in chance[1:])]))

    @property
    def is_noise(self) -> Bool[np.ndarray, "model"]:
        """Which differences are below 2 standard errors or 4 nats: these rows cannot tell the models apart."""
        size = -self.differences
        return ~((size >= ERRORS * self.errors) & (size >= NATS))

    @cached_property
    def stacking(self) -> PerModel:
        """Weights of the models whose average predicts best (Yao2018)."""
        return stacking_weights(self.pointwise)

    @cached_property
    def pseudo_bma(self) -> PerModel:
        """Pseudo-BMA+ weights (Yao2018)."""
        return pseudo_bma_weights(self.pointwise)

    def frame(self) -> Any:
        """A pandas table with a row for each model."""
        import pandas as pd

        columns = {
            "elpd": [one.value for one in self.estimates],
            "error": [one.error for one in self.estimates],
            "difference": self.differences,
            "difference_error": self.errors,
            "is_noise": self.is_noise,
            "parameters": [one.num_parameters for one in self.estimates],
            "unreliable_rows": [int(one.unreliable.sum()) for one in self.estimates],
            "stacking": self.stacking,
            "pseudo_bma": self.pseudo_bma,
        }
        return pd.DataFrame(columns, index=pd.Index(self.names, name="model"))

    def table(self) -> list[tuple[str, ...]]:
        """The table as texts: the names of the columns with entries, then a row for each model."""
        head = ("model", "elpd", "difference", "p", "bad k", "stacking", "pseudo-BMA", "")
        rows = [self._cells(number) for number in range(len(self.names))]
        columns = [(name, *entries) for name, *entries in zip(head, *rows, strict=True) if any(entries)]
        return list(zip(*columns, strict=True))

    def lines(self) -> list[str]:
        """The table as text."""
        return [f"{self.method}, {self.pointwise.shape[1]} rows, nats; larger is better", *in_columns(self.table())]

    def _cells(self, number: int) -> tuple[str, ...]:
        one, sign = self.estimates[number], "\N{PLUS-MINUS SIGN}"
        apart = f"{self.differences[number]:.1f} {sign} {self.errors[number]:.1f}" if number else "0"
        return (
            self.names[number],
            f"{one.value:.1f} {sign} {one.error:.1f}",
            apart,
            "" if one.parameters is None else f"{one.num_parameters:.1f}",
            "" if one.pareto_k is None else str(int(one.unreliable.sum())),
            f"{self.stacking[number]:.2f}",
            f"{self.pseudo_bma[number]:.2f}",
            "best" if not number else "noise" if self.is_noise[number] else "worse",
        )

    def sentences(self) -> list[str]:
        """What the table means, and what is wrong with it."""
        said, rows = [], self.pointwise.shape[1]
        same = [name for name, is_noise in zip(self.names[1:], self.is_noise[1:], strict=True) if is_noise]
        if same:
            said.append(
                f"The difference of {self.names[0]} and {', '.join(same)} is noise: below {ERRORS} standard errors or "
                f"{NATS:.0f} nats, so these rows do not say which is better."
            )
        elif len(self.names) > 1:
            others = self.names[1] if len(self.names) == 2 else "the others"
            said.append(f"{self.names[0]} predicts better than {others}, by more than the noise.")
        for name, one in zip(self.names, self.estimates, strict=True):
            bad = int(one.unreliable.sum())
            if bad and one.pareto_k is not None:
                said.append(
                    f"{name}: {bad} of {rows} rows have Pareto k above {one.largest_k:.2f}, so its value is not to be "
                    "trusted; fit again without these rows (`--exact`, `comparison.refit`), or use held-out rows."
                )
            elif bad:
                said.append(f"{name}: {bad} of {rows} rows vary too much for WAIC; use LOO.")
        if rows < FEW_ROWS:
            said.append(f"With {rows} rows the standard errors are rough.")
        return said


def compare(estimates: Mapping[str, Elpd]) -> Comparison:
    """Compare models on the same rows.

    Args:
        estimates: of each model by name, made by the same method.

    Raises:
        DataError: there are none, methods differ, or the rows are not the same.
    """
    if not estimates:
        raise DataError("`estimates` is empty: name at least one model.")
    for (name, one), (other_name, other) in itertools.pairwise(estimates.items()):
        if one.method != other.method:
            raise DataError(
                f"{name!r} is by {one.method} and {other_name!r} by {other.method}: compare estimates of one method."
            )
        if difference := different_rows(one, other):
            raise DataError(f"{name!r} and {other_name!r} cannot be compared: {difference}. Fit both to the same rows.")
    order = sorted(estimates, key=lambda name: -estimates[name].value)
    return Comparison(tuple(order), tuple(estimates[name] for name in order))


def different_rows(one: Elpd, other: Elpd) -> str:
    """In what the rows of two estimates differ; empty if they are the same, as far as their targets say."""
    counts = len(one.pointwise), len(other.pointwise)
    if counts[0] != counts[1]:
        return f"they have {counts[0]} and {counts[1]} rows"
    if one.observed is None or other.observed is None:
        return ""
    if one.observed.shape != other.observed.shape:
        return f"they have {one.observed.shape[1]} and {other.observed.shape[1]} targets"
    scale = one.observed.std(axis=0) + np.abs(one.observed).max(axis=0) * 1e-3
    apart = (np.abs(one.observed - other.observed) > 1e-4 * scale).any(axis=1)
    if not apart.any():
        return ""
    return f"the targets of {int(apart.sum())} of {counts[0]} rows differ, row {int(np.argmax(apart))} first"
