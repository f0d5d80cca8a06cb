"""From numbers to plain sentences: what is off in a run, and what to change.

The thresholds are those of the literature and of other samplers: R-hat 1.01 and 100 effective draws per chain
(Vehtari and others 2021), energy 0.3 (Betancourt 2016), any divergence at all.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

LARGEST_RHAT: Final = 1.01
FEWEST_EFFECTIVE_DRAWS_PER_CHAIN: Final = 100
SMALLEST_E_BFMI: Final = 0.3
LARGEST_SATURATED_FRACTION: Final = 0.05
LARGEST_ACCEPTANCE_GAP: Final = 0.1
KINETIC_TEMPERATURES: Final = (0.5, 2.0)
SMALLEST_MINIBATCH_ACCEPTANCE: Final = 0.1

_WEIGHTS_NEED_NOT_MIX = (
    " Judge this by predictions only: weights of a network are not identified (hidden units can swap places) "
    "and need not mix."
)


@dataclass(frozen=True)
class Finding:
    """One thing that is off.

    Attributes:
        problem: True when results should not be trusted as they are; False when the run was only slower than
            it need be.
        sentence: what is off and what to change, in plain words.
    """

    problem: bool
    sentence: str


def find(metrics: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Everything that is off in a run, worst first.

    Args:
        metrics: the content of ``metrics.json``. A number that is not there is not judged; one that is there
            and is None or NaN could not be told, which is a finding where trust depends on it.

    Returns:
        Findings; none when all is fine.
    """
    diagnostics = metrics.get("diagnostics") or {}
    findings = [finding for rule in _RULES for finding in rule(metrics, diagnostics)]
    return tuple(sorted(findings, key=lambda finding: not finding.problem))


def advise(metrics: Mapping[str, Any]) -> list[str]:
    """One plain sentence or two for each thing that is off, with what to change.

    Args:
        metrics: the content of ``metrics.json``, see ``find``.

    Returns:
        Sentences, worst first; empty when all is fine.
    """
    return [finding.sentence for finding in find(metrics)]


def failed(metrics: Mapping[str, Any]) -> bool:
    """Whether results should not be trusted as they are; what ``--strict`` asks.

    Args:
        metrics: the content of ``metrics.json``, see ``find``.

    Returns:
        True when at least one finding is a problem, not merely a waste of time.
    """
    return any(finding.problem for finding in find(metrics))


def _stuck(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    chains = diagnostics.get("stuck_chains") or []
    if not chains:
        return []
    who = _listed("Chain", chains)
    return [
        Finding(
            problem=True,
            sentence=f"{who} never moved: every proposal was refused, so the draws are copies of one point. "
            "Use a smaller first step size or a longer warm-up, and check the scale of the inputs and the "
            "prior.",
        )
    ]


def _nonfinite(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    count = _number(diagnostics, "nonfinite")
    if not count > 0:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"{_share(count, metrics)} met a log posterior that was not finite. "
            "Standardise inputs and targets, or choose a prior or likelihood with heavier tails; "
            "if it is a density of your own, look for logarithms and divisions near zero.",
        )
    ]


def _divergences(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    count = _number(diagnostics, "divergences")
    if not count > 0:
        return []
    target = _number(diagnostics, "target_acceptance")
    remedy = f"Raise the target acceptance (now {target:g}) to 0.9 or 0.95"
    if not math.isfinite(target):
        remedy = "Use a smaller step size"
    return [
        Finding(
            problem=True,
            sentence=f"{_share(count, metrics)} diverged: the step was too long for a narrow part of the "
            f"posterior, which the draws may therefore miss. {remedy}, or use a narrower prior.",
        )
    ]


def _disagreement(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    if "max_rhat_function" not in diagnostics:
        return []
    largest = _number(diagnostics, "max_rhat_function")
    if largest > LARGEST_RHAT:
        sentence = (
            f"Chains disagree about predictions: R-hat is {_two_digits_above_one(largest)}, and should be "
            f"at most {LARGEST_RHAT}. Run a longer warm-up and more draws.{_WEIGHTS_NEED_NOT_MIX}"
        )
    elif not math.isnan(largest):
        return []
    elif metrics.get("num_chains") == 1:
        sentence = (
            "With one chain nobody can tell whether another start would give other predictions: run at least 4 chains."
        )
    else:
        sentence = (
            "Agreement of the chains could not be judged (R-hat needs at least 4 draws of predictions that "
            "vary): run more draws."
        )
    return [Finding(problem=True, sentence=sentence)]


def _few_draws(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    if "min_ess_bulk_function" not in diagnostics:
        return []
    num_chains = int(metrics.get("num_chains") or 1)
    needed = FEWEST_EFFECTIVE_DRAWS_PER_CHAIN * num_chains
    smallest = _number(diagnostics, "min_ess_bulk_function")
    if smallest >= needed:
        return []
    if math.isnan(smallest):
        sentence = "The effective number of draws could not be told (it needs at least 4 draws): run more draws."
    else:
        factor = needed / smallest if smallest > 0 else math.inf
        more = f"about {_rounded_up(factor)} times as many draws" if math.isfinite(factor) else "many more draws"
        already_said = _number(diagnostics, "max_rhat_function") > LARGEST_RHAT
        sentence = (
            f"The prediction that mixes worst has only {smallest:.0f} effective draws, and should have "
            f"{FEWEST_EFFECTIVE_DRAWS_PER_CHAIN} per chain, {needed} in all. Run {more}, or a kernel "
            f"that takes longer trajectories.{'' if already_said else _WEIGHTS_NEED_NOT_MIX}"
        )
    return [Finding(problem=True, sentence=sentence)]


def _scales(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    needed = FEWEST_EFFECTIVE_DRAWS_PER_CHAIN * int(metrics.get("num_chains") or 1)
    largest, smallest = _number(diagnostics, "max_rhat_scales"), _number(diagnostics, "min_ess_bulk_scales")
    found = []
    if largest > LARGEST_RHAT:
        found.append(f"R-hat is {_two_digits_above_one(largest)}, and should be at most {LARGEST_RHAT}")
    if smallest < needed:
        found.append(f"the worst has {smallest:.0f} effective draws, and should have {needed}")
    if not found:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"The learned scales of weights or noise do not mix: {'; '.join(found)}. Predictions may hold all "
            "the same, what the run says of scales and of the relevance of inputs does not. Run more draws, or sample "
            "weights and scales jointly with non-centred weights, as `NUTS` does by default.",
        )
    ]


def _energy(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    smallest = _number(diagnostics, "min_ebfmi")
    if not smallest < SMALLEST_E_BFMI:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"Chains change their energy too slowly: E-BFMI is {smallest:.2f}, and should be at "
            f"least {SMALLEST_E_BFMI}, so the tails of the posterior may be missed. Run a longer warm-up; if "
            "that does not help, use a prior with lighter tails or fixed scales, or a non-centred one.",
        )
    ]


def _saturation(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    fraction = _number(diagnostics, "max_tree_depth_fraction")
    if not fraction > LARGEST_SATURATED_FRACTION:
        return []
    return [
        Finding(
            problem=False,
            sentence=f"{100 * fraction:.0f} % of the trajectories were cut off at their greatest length: "
            "results hold, but draws are more alike than they need be. Allow one more doubling "
            "(`max_doublings`), or warm up longer.",
        )
    ]


def _acceptance(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    mean, target = _number(diagnostics, "mean_acceptance"), _number(diagnostics, "target_acceptance")
    if not abs(mean - target) > LARGEST_ACCEPTANCE_GAP:
        return []
    if mean < target:
        consequence = (
            "steps are too long for what was met after the warm-up. Warm up longer, or start nearer to the posterior"
        )
    else:
        consequence = "steps are shorter than they need be, which costs time only. Warm up longer"
    return [
        Finding(
            problem=False,
            sentence=f"The mean acceptance is {mean:.2f} where {target:.2f} was aimed at: {consequence}.",
        )
    ]


def _metric(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    count = _number(diagnostics, "refused_metrics")
    if not count > 0:
        return []
    return [
        Finding(
            problem=False,
            sentence=f"The warm-up learned a metric that was not finite ({count:.0f} of them) and kept the one before: "
            "results hold, but steps may be shorter than they need be. Standardise inputs and targets, or use "
            "float64.",
        )
    ]


def _temperature(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    mean = _number(diagnostics, "mean_kinetic_temperature")
    low, high = KINETIC_TEMPERATURES
    if math.isnan(mean) or low <= mean <= high:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"The kinetic temperature is {mean:.2f} on average and should be near 1: friction and the noise "
            f"of the minibatch gradient are out of balance, so the draws are too {'wide' if mean > 1 else 'narrow'}. "
            "Lower the learning rate, raise the momentum decay or the batch size, or let the kernel estimate the "
            "noise.",
        )
    ]


def _clipped(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    share = _number(diagnostics, "clipped_fraction")
    if not share > 0:
        return []
    return [
        Finding(
            problem=share > 0.05,
            sentence=f"The estimated noise of the gradient outweighs the friction in {100 * share:.2g} % of "
            "coordinates and steps, where it could not be made up for: raise the momentum decay, or lower the "
            "learning rate.",
        )
    ]


def _refused(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    mean = _number(diagnostics, "minibatch_acceptance")
    if not mean < SMALLEST_MINIBATCH_ACCEPTANCE:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"Minibatch trajectories were almost all refused (mean acceptance {mean:.2g}), so the draws "
            "hardly move. Lower the learning rate.",
        )
    ]


_RULES: tuple[Callable[[Mapping[str, Any], Mapping[str, Any]], list[Finding]], ...] = (
    _stuck,
    _nonfinite,
    _divergences,
    _disagreement,
    _few_draws,
    _scales,
    _energy,
    _saturation,
    _acceptance,
    _metric,
    _temperature,
    _clipped,
    _refused,
)


def _number(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    return float("nan") if value is None else float(value)


def _share(count: float, metrics: Mapping[str, Any]) -> str:
    chains, draws = _number(metrics, "num_chains"), _number(metrics, "num_draws")
    total = chains * draws * _number({"thin": 1, **metrics}, "thin")
    if not math.isfinite(total) or total < count:
        return f"{count:.0f} transitions" if count != 1 else "1 transition"
    return f"{count:.0f} of {total:.0f} transitions ({100 * count / total:.2g} %)"


def _listed(noun: str, indices: Sequence[int]) -> str:
    names = [str(index) for index in indices]
    if len(names) == 1:
        return f"{noun} {names[0]} (counted from 0)"
    return f"{noun}s {', '.join(names[:-1])} and {names[-1]} (counted from 0)"


def _two_digits_above_one(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.3f}" if value < 1.1 else f"{value:.2f}"


def _rounded_up(factor: float) -> str:
    return f"{math.ceil(factor * 2) / 2:g}" if factor < 10 else f"{math.ceil(factor):d}"
