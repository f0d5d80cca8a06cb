"""When a run has enough draws: `Until`, bounds for the figures of its monitored predictions.

A run that stops as soon as an estimated error looks small enough is biased: the estimate is noisy in short chains, and
so the run tends to stop where it errs. Fixed-width rules are therefore valid only with a minimum length, and as the
bound becomes small (Flegal2008). Looking seldom, at lengths that grow by a quarter each time, leaves less to choose
from, and costs little.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ergonet._checks import is_integer, is_number
from ergonet._errors import SettingError, suggest
from ergonet.diagnostics import chains
from ergonet.diagnostics.finding import beside, shown_rhat

FEWEST = 4  # draws of each chain, without which there are no figures
MINIMUM = 200
GROWTH = 1.25  # of the number of draws from look to look


@dataclass(frozen=True)
class Until:
    """A run stops once the estimates of every monitored prediction are good enough; at least one bound is needed.

    The monitored predictions are those of a network at its reference rows, or the coordinates of a target that has no
    predictions. The figures are those of all chains, of the worst prediction. They are computed after `minimum` draws
    of each chain and each time that the number has grown by a quarter, when the chains wait for each other; so a run
    stops at the same draw on any machine, and after an interruption. Source: Flegal2008.

    Attributes:
        ess: smallest effective sample size, bulk and tail, of all chains together; above 0.
        rhat: largest rank-normalized split R-hat, above 1; needs two chains.
        mcse: largest Monte Carlo standard error of a posterior mean, above 0, in the unit of the prediction: a
            probability, or the scaled target of an estimator or the command, whose standard deviation is 1.
        minimum: draws of each chain before the rule may stop a run, at least 4. Below 200 or so, estimated errors are
            so noisy that runs stop where they are too small by chance.
    """

    ess: float | Any = None
    rhat: float | Any = None
    mcse: float | Any = None
    minimum: int | Any = MINIMUM

    def __post_init__(self):
        for name, least in (("ess", 0), ("rhat", 1), ("mcse", 0)):
            value = getattr(self, name)
            if value is not None and not (is_number(value) and least < value < math.inf):
                raise SettingError(f"`Until({name}=...)` must be a number above {least}, got {value!r}.")
            object.__setattr__(self, name, None if value is None else float(value))
        if not is_integer(self.minimum) or self.minimum < FEWEST:
            raise SettingError(
                f"`Until(minimum=...)` must be an integer of at least {FEWEST}, got {self.minimum!r}: there are no "
                f"figures of fewer draws."
            )
        object.__setattr__(self, "minimum", int(self.minimum))
        if not self._bounds:
            raise SettingError("`Until` needs a bound: give `ess`, `rhat` or `mcse`, such as `Until(ess=400)`.")

    @staticmethod
    def of(value: Any) -> "Until | None":
        """A rule from itself, or from a table of its settings; None: no rule.

        Raises:
            SettingError: it is something else, or has another setting.
        """
        if value is None or isinstance(value, Until):
            return value
        if not isinstance(value, Mapping):
            raise SettingError(f"`until` must be None or such as `ergonet.Until(ess=400)`, got {value!r}.")
        known = [one.name for one in fields(Until)]
        for name in value:
            if name not in known:
                raise SettingError(f"`until` has no setting {name!r}. {suggest(str(name), known)}")
        return Until(**value)

    @property
    def _bounds(self) -> dict[str, float]:
        bounds = {name: getattr(self, name) for name in _FIGURES}
        return {name: bound for name, bound in bounds.items() if bound is not None}

    def check(self, *, num_chains: int, num_draws: int) -> None:
        """Check that a run of at most so many draws of each chain can meet the rule.

        Raises:
            SettingError: it cannot.
        """
        if self.minimum > num_draws:
            raise SettingError(
                f"`until` looks at {self.minimum} draws of each chain first (`minimum`), but `num_draws` allows "
                f"{num_draws}. Raise `num_draws`, which is the most that are drawn, or lower `minimum`."
            )
        if self.rhat is not None and num_chains < 2:
            raise SettingError("`until` with `rhat` needs at least 2 chains. Raise `num_chains`, or give `ess` only.")

    def next_look(self, drawn: int, most: int) -> int:
        """The smallest number of draws at which to look, of at least `drawn`; at most `most`, which is the last."""
        look = self.minimum
        while look < min(drawn, most):
            look = max(look + 1, math.ceil(GROWTH * look))
        return min(look, most)

    def judge(self, values: Any) -> "Verdict":
        """Whether predictions `[chain, draw, quantity]` meet the rule.

        Quantities that are constant or not finite have no figures; if no quantity has any, the rule is not met.
        """
        figures = {name: _FIGURES[name](values) for name in self._bounds}
        return Verdict(self, np.shape(values)[1], figures)


def _smallest_ess(values: Any) -> float:
    return _over_known(np.minimum(chains.ess_bulk(values), chains.ess_tail(values)), np.min)


def _largest_rhat(values: Any) -> float:
    return _over_known(chains.rhat(values), np.max)


def _largest_mcse(values: Any) -> float:
    return _over_known(chains.mcse_mean(values), np.max)


def _over_known(found: np.ndarray, reduce: Any) -> float:
    known = found[~np.isnan(found)]
    return float(reduce(known)) if known.size else math.nan


_FIGURES = {"ess": _smallest_ess, "rhat": _largest_rhat, "mcse": _largest_mcse}


@dataclass(frozen=True)
class Verdict:
    """What a look has found.

    Attributes:
        rule: the rule.
        num_draws: draws of each chain at the look.
        figures: the figure of each bound by its name; NaN: unknown.
    """

    rule: Until
    num_draws: int
    figures: Mapping[str, float]

    def _meets(self, name: str) -> bool:
        value, bound = self.figures[name], getattr(self.rule, name)
        return value >= bound if name == "ess" else value <= bound

    @property
    def is_met(self) -> bool:
        """Whether every bound is met."""
        return all(map(self._meets, self.figures))

    def __str__(self) -> str:
        shown = {"ess": _shown_ess, "rhat": shown_rhat, "mcse": _shown_mcse}
        names = {"ess": "ESS", "rhat": "R-hat", "mcse": "MCSE"}
        parts = []
        for name, value in self.figures.items():
            bound, side = getattr(self.rule, name), "at least" if name == "ess" else "at most"
            parts.append(f"{names[name]} {shown[name](value, bound)} ({side} {bound:g})")
        return f"{', '.join(parts)} of the worst prediction"

    def draws_needed(self) -> int | None:
        """Draws of each chain that would meet bounds on ESS and MCSE at the present pace; None: unknown."""
        ratios = [1.0]
        for name, value in self.figures.items():
            if self._meets(name):
                continue
            if name == "rhat" or not value > 0:
                return None
            bound = getattr(self.rule, name)
            ratios.append(bound / value if name == "ess" else (value / bound) ** 2)
        digits = 10 ** max(0, len(str(math.ceil(self.num_draws * max(ratios)))) - 2)
        return math.ceil(self.num_draws * max(ratios) / digits) * digits


def _shown_ess(value: float, bound: float) -> str:
    return beside(value, bound, decimals=0)


def _shown_mcse(value: float, bound: float) -> str:
    return beside(value, bound, decimals=max(0, 2 - math.floor(math.log10(bound))))


def report(rule: Until, verdict: Verdict | None, *, look: int, most: int, drawn: int) -> dict[str, Any]:
    """The record of a rule in what a run tells `about` itself, in JSON types.

    Args:
        rule: the rule.
        verdict: of the last look; None: there was none.
        look: draws of each chain at the next look.
        most: the most draws of each chain.
        drawn: draws of each chain.
    """
    is_met = verdict is not None and verdict.is_met
    figures = {} if verdict is None else verdict.figures
    return {
        "rule": asdict(rule),
        "met": is_met,
        "num_draws": None if verdict is None else verdict.num_draws,
        **{name: value if math.isfinite(value) else None for name, value in figures.items()},
        "sentence": _sentence(verdict, look=look, most=most, drawn=drawn),
    }


def _sentence(verdict: Verdict | None, *, look: int, most: int, drawn: int) -> str:
    if verdict is None:
        return (
            f"The stop rule is not judged yet: it next looks after {look} draws of each chain, and there are {drawn}."
        )
    if verdict.is_met:
        return f"The stop rule is met after {verdict.num_draws} of at most {most} draws of each chain: {verdict}."
    said = f"The stop rule is not met after {verdict.num_draws} draws of each chain: {verdict}."
    if drawn < most:
        return f"{said} Continue the run, which may have {most} draws of each chain."
    needed = verdict.draws_needed()
    if needed is None:
        return (
            f"{said} More draws may not help where chains disagree: look at what the diagnostics say of them, or add "
            f"draws by a larger `num_draws`."
        )
    return f"{said} It would take about {needed} at this pace: raise `num_draws` (`--draws`), or accept less."
