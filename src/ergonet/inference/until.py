"""When a run has enough draws: `Until`, bounds for the figures of its monitored predictions.

A run that stops as soon as an estimated error looks small enough is biased: the estimate is noisy in short chains, and
so the run tends to stop where it errs. Fixed-width rules are therefore valid only with a minimum length, and as the
bound becomes small (Flegal2008). Draws of slow chains are worth fewer, so a Monte Carlo error counts only from chains
that are worth `FEWEST_EFFECTIVE`. Looking seldom, at lengths that grow by a quarter each time, leaves less to choose
from, and costs little.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ergonet._checks import is_integer, is_number
from ergonet._errors import SettingError, suggest
from ergonet.diagnostics import chains
from ergonet.diagnostics.finding import beside, shown_rhat
from ergonet.diagnostics.score import mcse_score
from ergonet.target.capabilities import PointwiseLogLikelihood
from ergonet.target.contract import AbstractTarget, require

FEWEST = 4  # draws of each chain, without which there are no figures
MINIMUM = 200
LEAVE_OUT = "leave out the rule (`until=None`; in a settings file, delete its `until_` lines)"
FEWEST_EFFECTIVE = 100  # draws that the chains are worth before a Monte Carlo error that they estimate counts
GROWTH = 1.25  # of the number of draws from look to look


@dataclass(frozen=True)
class Until:
    """A run stops once its monitored predictions, or a score, are known well enough; at least one bound is needed.

    The monitored predictions are those of a network at its reference rows, or the coordinates of a target that has no
    predictions. The figures are those of all chains, of the worst prediction. They are computed after `minimum` draws
    of each chain and each time that the number has grown by a quarter, when the chains wait for each other; so a run
    stops at the same draw on any machine, and after an interruption. Source: Flegal2008.

    Attributes:
        ess: smallest effective sample size, bulk and tail, of all chains together; above 0. None: no bound, or 100
            with `mcse` or `score_mcse`, which fewer effective draws estimate badly.
        rhat: largest rank-normalized split R-hat, above 1; needs two chains.
        mcse: largest Monte Carlo standard error of a posterior mean, above 0, in the unit of the prediction: a
            probability, or the scaled target of an estimator or the command, whose standard deviation is 1.
        score_mcse: largest Monte Carlo standard error of the mean log predictive density of rows (`mcse_score`), in
            nats per row, above 0. The rows are those of `held_out`, at most 256, evenly spaced.
        held_out: the same model conditioned on rows that were held out, such as `model.condition(x_test, y_test)`, or
            another target with the same coordinates and a log likelihood by rows. None: the rows of the target.
        minimum: draws of each chain before the rule may stop a run, at least 4. Below 200 or so, estimated errors are
            so noisy that runs stop where they are too small by chance.
    """

    ess: float | Any = None
    rhat: float | Any = None
    mcse: float | Any = None
    score_mcse: float | Any = None
    held_out: AbstractTarget | Any = None
    minimum: int | Any = MINIMUM

    def __post_init__(self):
        for name, least in (("ess", 0), ("rhat", 1), ("mcse", 0), ("score_mcse", 0)):
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
            raise SettingError(
                "A stop rule needs a bound: give `ess`, `rhat`, `mcse` or `score_mcse`, such as `Until(ess=400)` or "
                "`--until-ess 400`."
            )
        if self.held_out is not None and not isinstance(self.held_out, AbstractTarget):
            raise SettingError(
                f"`Until(held_out=...)` must be a target such as `model.condition(x_test, y_test)`, got "
                f"{self.held_out!r}."
            )
        if self.held_out is not None and self.score_mcse is None:
            raise SettingError("`Until(held_out=...)` is for a bound on the error of their score: give `score_mcse`.")

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
    def settings(self) -> dict[str, Any]:
        """The settings that are numbers."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "held_out"}

    @property
    def bounds(self) -> dict[str, float]:
        """The bound of each figure that is judged, by name, with the ESS that Monte Carlo errors need."""
        given = self._bounds
        needed = {"ess": float(FEWEST_EFFECTIVE)} if {"mcse", "score_mcse"} & set(given) else {}
        return needed | given

    @property
    def _bounds(self) -> dict[str, float]:
        """The bounds that are given."""
        found = {name: getattr(self, name) for name in ("ess", "rhat", "mcse", "score_mcse")}
        return {name: bound for name, bound in found.items() if bound is not None}

    def scored(self, target: AbstractTarget) -> PointwiseLogLikelihood | None:
        """What has the rows whose score is judged, in a run on a target; None: no score is.

        Raises:
            CapabilityError: it has no log likelihood by rows.
        """
        if self.score_mcse is None:
            return None
        rows = target if self.held_out is None else self.held_out
        return require(rows, PointwiseLogLikelihood, "Until(score_mcse=...)")

    def check(self, target: AbstractTarget, *, num_chains: int, num_draws: int) -> None:
        """Check that a run on a target, of at most so many draws of each chain, can meet the rule.

        Raises:
            CapabilityError: the score of rows is to be judged, and there is no log likelihood by rows.
            SettingError: it cannot for another reason.
        """
        if self.minimum > num_draws:
            raise SettingError(
                f"The stop rule looks at {self.minimum} draws of each chain first, but `num_draws` (`--draws`) allows "
                f"{num_draws}. Raise it, which is the most that are drawn, lower `minimum` (`--until-minimum`), or "
                f"{LEAVE_OUT}."
            )
        if self.rhat is not None and num_chains < 2:
            raise SettingError(
                f"A stop rule with `rhat` (`--until-rhat`) needs at least 2 chains, got {num_chains}. Raise "
                f"`num_chains` (`--chains`), give `ess` (`--until-ess`) only, or {LEAVE_OUT}."
            )
        if self.held_out is not None and self.held_out.dim != target.dim:
            raise SettingError(
                f"`Until(held_out=...)` has {self.held_out.dim} coordinates, but the target has {target.dim}: "
                f"condition the same model on the held-out rows."
            )
        self.scored(target)

    def next_look(self, drawn: int, most: int) -> int:
        """The smallest number of draws at which to look, of at least `drawn`; at most `most`, which is the last."""
        look = self.minimum
        while look < min(drawn, most):
            look = max(look + 1, math.ceil(GROWTH * look))
        return min(look, most)

    def judge(self, values: Any, log_density: Any = None) -> "Verdict":
        """Whether the draws meet the rule.

        Quantities that are constant or not finite have no figures; if no quantity has any, the rule is not met.

        Args:
            values: predictions, `[chain, draw, quantity]`.
            log_density: log density of the rows whose score is judged, `[chain, draw, row]`; None: no score is.
        """
        figures = {name: _FIGURES[name](values) for name in self.bounds if name in _FIGURES}
        if self.score_mcse is not None:
            figures["score_mcse"] = math.nan if log_density is None else mcse_score(log_density)
        return Verdict(self, np.shape(values)[1], figures)


def _smallest_ess(values: Any) -> float:
    return chains.over_known(np.min, np.minimum(chains.ess_bulk(values), chains.ess_tail(values)))


def _largest_rhat(values: Any) -> float:
    return chains.over_known(np.max, chains.rhat(values))


def _largest_mcse(values: Any) -> float:
    return chains.over_known(np.max, chains.mcse_mean(values))


_FIGURES = {"ess": _smallest_ess, "rhat": _largest_rhat, "mcse": _largest_mcse}
_NAMES = {"ess": "ESS", "rhat": "R-hat", "mcse": "MCSE", "score_mcse": "MCSE"}


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
        value, bound = self.figures[name], self.rule.bounds[name]
        return value >= bound if name == "ess" else value <= bound

    @property
    def is_met(self) -> bool:
        """Whether every bound is met."""
        return all(map(self._meets, self.figures))

    @property
    def chains_disagree(self) -> bool:
        """Whether R-hat is judged, known and too large."""
        return "rhat" in self.figures and self.figures["rhat"] > self.rule.bounds["rhat"]

    def __str__(self) -> str:
        of_predictions = [self._shown(name) for name in self.figures if name != "score_mcse"]
        said = [f"{', '.join(of_predictions)} of the worst prediction"] if of_predictions else []
        if "score_mcse" in self.figures:
            rows = "the rows of the fit" if self.rule.held_out is None else "held-out rows"
            said.append(f"{self._shown('score_mcse')} of the mean log score of {rows}")
        return ", ".join(said)

    def _shown(self, name: str) -> str:
        shown = {"ess": _shown_ess, "rhat": shown_rhat}.get(name, _shown_mcse)
        bound, side = self.rule.bounds[name], "at least" if name == "ess" else "at most"
        return f"{_NAMES[name]} {shown(self.figures[name], bound)} ({side} {bound:g})"

    def draws_needed(self) -> int | None:
        """Draws of each chain that would meet bounds on ESS and MCSE at the present pace; None: unknown."""
        ratios = [1.0]
        for name, value in self.figures.items():
            if self._meets(name):
                continue
            if name == "rhat" or not value > 0:
                return None
            bound = self.rule.bounds[name]
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
        "rule": rule.settings,
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
        return f"{said} The run has {drawn} of at most {most}."
    if verdict.chains_disagree:
        return (
            f"{said} More draws help chains that are slow, but not chains that stay in different modes: see what the "
            f"diagnostics say of the chains, or raise `num_draws` (`--draws`)."
        )
    needed = verdict.draws_needed()
    if needed is None:
        return f"{said} What has no figure is constant or not finite in these draws: see what the diagnostics say."
    return f"{said} It would take about {needed} at this pace: raise `num_draws` (`--draws`), or accept less."
