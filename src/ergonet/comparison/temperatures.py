"""A posterior at several temperatures: how held-out scores change, and whether that is more than noise.

If prior and likelihood are right, no temperature predicts better on average than T = 1, which is Bayes' rule. A colder
posterior that does (the cold posterior effect, Wenzel2020) says that one of them is not, or that the chains did not
reach the posterior. `models.tempered` makes the targets.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import norm

from ergonet._errors import EstimateError, SettingError
from ergonet._notebook import Findings, in_columns
from ergonet.comparison.scored import QUANTITIES, HeldOutScores, score_rows
from ergonet.comparison.sources import fitted
from ergonet.comparison.table import FEW_ROWS, NATS
from ergonet.models.tempered import check_temperature

TEMPERATURES: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
FALSE_ALARM: Final = 0.05  # of a sweep in which no temperature matters, for each score
LARGEST_RHAT: Final = 1.1  # of predictions, above which chains are said to be in different modes
FEW_CHAINS: Final = 4

Fit = Callable[[float], Any]  # from a temperature to `Samples` or a fitted estimator
PerTemperature = Float[np.ndarray, "temperature"]


@dataclass(frozen=True, eq=False, repr=False)
class TemperatureSweep(Findings):
    """Held-out scores at several temperatures, compared with those at T = 1.

    The log score is the mean log predictive density of a row in nats, and larger is better. The error is the share of
    wrong classes or the root mean square error, and the calibration error is as in `ergonet.prediction.calibration`.

    Attributes:
        temperatures: ascending, 1 among them.
        scores: the scores at each temperature.
    """

    temperatures: tuple[float, ...]
    scores: tuple[HeldOutScores, ...]

    @property
    def num_rows(self) -> int:
        """Number of held-out rows."""
        return self.scores[0].num_rows

    @property
    def limit(self) -> float:
        """How many standard errors a difference must exceed, so that 1 in 20 sweeps without an effect shows one."""
        return float(norm.isf(FALSE_ALARM / 2 / max(len(self.temperatures) - 1, 1)))

    def values(self, quantity: str) -> PerTemperature:
        """A score, ``log_score``, ``error`` or ``calibration``, at each temperature."""
        return np.array([one.figures[quantity].value for one in self.scores])

    def errors(self, quantity: str) -> PerTemperature:
        """Standard errors of `values`, over rows and over chains."""
        return np.array([np.hypot(one.figures[quantity].error, one.figures[quantity].chance) for one in self.scores])

    def differences(self, quantity: str) -> PerTemperature:
        """`values` minus the value at T = 1."""
        return self.values(quantity) - self.values(quantity)[self._base]

    def difference_errors(self, quantity: str) -> PerTemperature:
        """Standard errors of `differences`: paired over rows, and the Monte Carlo errors of both; 0 at T = 1."""
        base = self.scores[self._base].figures[quantity]
        found = [one.figures[quantity] for one in self.scores]
        errors = np.array([np.sqrt(one.apart(base) ** 2 + one.chance**2 + base.chance**2) for one in found])
        return np.where(np.arange(len(errors)) == self._base, 0.0, errors)

    def is_noise(self, quantity: str) -> Bool[np.ndarray, "temperature"]:
        """Which differences are within `limit` standard errors; for the log score, also below 4 nats over all rows."""
        size = np.abs(self.differences(quantity))
        is_small = size * self.num_rows < NATS if quantity == "log_score" else np.zeros(len(size), bool)
        return ~(size > self.limit * self.difference_errors(quantity)) | is_small

    def frame(self) -> Any:
        """A pandas table with a row for each temperature."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for name in QUANTITIES:
            columns |= {
                name: self.values(name),
                f"{name}_error": self.errors(name),
                f"{name}_difference": self.differences(name),
                f"{name}_difference_error": self.difference_errors(name),
                f"{name}_is_noise": self.is_noise(name),
            }
        columns["calibration_by_chance"] = [one.by_chance for one in self.scores]
        columns["max_rhat"] = [one.max_rhat for one in self.scores]
        columns["divergences"] = [one.divergences for one in self.scores]
        return pd.DataFrame(columns, index=pd.Index(self.temperatures, name="temperature"))

    def table(self) -> list[tuple[str, ...]]:
        """The table as texts: the names of the columns, then a row for each temperature."""
        names = [self.title(name) for name in QUANTITIES]
        head = ("T", *(cell for name in names for cell in (name, "minus T = 1")), "R-hat", "")
        return [head, *(self._cells(number) for number in range(len(self.temperatures)))]

    def lines(self) -> list[str]:
        """The table as text."""
        about = f"{self.num_rows} held-out rows; log score in nats per row, larger is better, the others smaller"
        return [about, *in_columns(self.table())]

    def title(self, quantity: str) -> str:
        """The name of a score in words."""
        return {"log_score": "log score", "error": self.scores[0].error_name, "calibration": "calibration error"}[
            quantity
        ]

    def sentences(self) -> list[str]:
        """What the table means, and what is wrong with it."""
        said = [self._said_of(name) for name in QUANTITIES]
        apart = [t for t, one in zip(self.temperatures, self.scores, strict=True) if one.max_rhat > LARGEST_RHAT]
        if apart:
            said.append(
                f"At T = {_listed(apart)}, the R-hat of the predictions is above {LARGEST_RHAT}: the scores are those "
                "of the average of these chains, which need not be the tempered posterior."
            )
        diverged = [t for t, one in zip(self.temperatures, self.scores, strict=True) if one.divergences]
        if diverged:
            said.append(f"Transitions diverged at T = {_listed(diverged)}.")
        if self.scores[0].num_chains < FEW_CHAINS:
            said.append(f"With fewer than {FEW_CHAINS} chains the Monte Carlo errors are rough or, with one, left out.")
        if self.num_rows < FEW_ROWS:
            said.append(f"With {self.num_rows} rows the standard errors are rough.")
        return said

    @property
    def _base(self) -> int:
        return self.temperatures.index(1.0)

    def _said_of(self, quantity: str) -> str:
        """What the differences of a score from T = 1 mean."""
        title, sign = self.title(quantity), 1 if quantity == "log_score" else -1
        title = title[0].upper() + title[1:]
        gains, errors = sign * self.differences(quantity), self.difference_errors(quantity)
        real = ~self.is_noise(quantity)
        if len(gains) < 2:
            return f"{title}: there is no other temperature to compare."
        others = np.flatnonzero(np.arange(len(gains)) != self._base)
        best = int(others[np.argmax(gains[others])])
        if not real.any():
            return (
                f"{title}: no temperature differs from T = 1 by more than the noise ({self._noise_of(quantity)}); the "
                f"best of the others, T = {self.temperatures[best]:g}, by {_figure(sign * gains[best], errors[best])}."
            )
        parts = [
            f"{word} at T = {_listed([self.temperatures[index] for index in np.flatnonzero(real & chosen)])}"
            for word, chosen in (("better", gains > 0), ("worse", gains < 0))
            if (real & chosen).any()
        ]
        better = np.flatnonzero(real & (gains > 0))
        most = int(better[np.argmax(gains[better])]) if len(better) else int(np.argmin(np.where(real, gains, np.inf)))
        return (
            f"{title}: {' and '.join(parts)} than at T = 1 by more than the noise, at T = "
            f"{self.temperatures[most]:g} by {_figure(sign * gains[most], errors[most])}."
        )

    def _noise_of(self, quantity: str) -> str:
        """What counts as noise, in words."""
        least = f" and {NATS:.0f} nats over all rows" if quantity == "log_score" else ""
        return f"{self.limit:.1f} standard errors{least}"

    def _cells(self, number: int) -> tuple[str, ...]:
        one, cells = self.scores[number], [f"{self.temperatures[number]:g}"]
        verdicts = []
        for name in QUANTITIES:
            cells.append(_figure(self.values(name)[number], self.errors(name)[number]))
            apart, error = self.differences(name)[number], self.difference_errors(name)[number]
            cells.append("0" if number == self._base else _figure(apart, error))
            if not self.is_noise(name)[number]:
                gained = apart if name == "log_score" else -apart
                verdicts.append(f"{self.title(name)} {'better' if gained > 0 else 'worse'}")
        rhat = "" if np.isnan(one.max_rhat) else f"{one.max_rhat:.2f}"
        said = "Bayes" if number == self._base else ", ".join(verdicts) or "noise"
        return (*cells, rhat, said)


@dataclass(frozen=True)
class _Job:
    """A fit at a temperature and its scores; it can be sent to another process if its parts can."""

    fit: Fit
    temperature: float
    x: Any
    y: Any

    def __call__(self) -> HeldOutScores:
        known = fitted(self.fit(self.temperature))
        return score_rows(known, *known.rows(self.x, self.y))


def temperature_sweep(
    fit: Fit, x: Any, y: Any, *, temperatures: Iterable[Any] = TEMPERATURES, executor: Executor | None = None
) -> TemperatureSweep:
    """Score held-out rows at several temperatures of a posterior.

    Args:
        fit: samples at a temperature, and returns `Samples` or a fitted estimator:
            `lambda t: ergonet.sample(ergonet.tempered(target, t), seed=1)`. Give every temperature the same settings.
        x: inputs of rows that were not used for fitting, as the network or the estimator takes them.
        y: their targets, likewise.
        temperatures: above 0; 1 is added if it is missing.
        executor: runs the fits, each a job; None: one after the other, in this process. Other processes need a `fit`
            that can be sent to them, such as a function of a module.

    Raises:
        DataError: the rows cannot be used.
        EstimateError: a row has no finite log predictive density.
        SettingError: a temperature is out of range.
    """
    return sweep_of({one: _Job(fit, one, x, y) for one in with_one(temperatures)}, executor=executor)


def sweep_of(
    jobs: Mapping[float, Callable[[], HeldOutScores]],
    *,
    executor: Executor | None = None,
    say: Callable[[str], None] | None = None,
) -> TemperatureSweep:
    """The sweep from a job for each temperature, ascending; `say` gets a line about each as it is done."""
    began = time.perf_counter()
    waiting = {} if executor is None else {one: executor.submit(job) for one, job in jobs.items()}
    scores = []
    for number, (temperature, job) in enumerate(jobs.items()):
        scores.append(waiting[temperature].result() if waiting else job())
        if say is not None:
            value, seconds = scores[-1].figures["log_score"].value, time.perf_counter() - began
            say(f"T = {temperature:g} ({number + 1} of {len(jobs)}): log score {value:.4g}, after {seconds:.0f} s")
        if not np.isfinite(scores[-1].figures["log_score"].value):
            raise EstimateError(
                f"At T = {temperature:g} a held-out row has a log predictive density that is not finite. Standardize "
                "inputs and targets, choose a likelihood with heavier tails, or leave this temperature out."
            )
    return TemperatureSweep(tuple(jobs), tuple(scores))


def with_one(temperatures: Iterable[Any]) -> list[float]:
    """The temperatures, checked and ascending, each once, with 1 among them.

    Raises:
        SettingError: one of them is out of range, or there are none.
    """
    found = {check_temperature(one) for one in temperatures}
    if not found:
        raise SettingError("`temperatures` is empty: give at least one, such as 0.1.")
    return sorted({*found, 1.0})


def _figure(value: float, error: float) -> str:
    """A figure with the decimals that its error allows."""
    if not error > 0:
        return f"{value:.3g}"
    decimals = int(np.clip(1 - np.floor(np.log10(error)), 0, 6))
    return f"{value:.{decimals}f} \N{PLUS-MINUS SIGN} {error:.{decimals}f}"


def _listed(temperatures: Iterable[float]) -> str:
    return ", ".join(f"{one:g}" for one in temperatures)
