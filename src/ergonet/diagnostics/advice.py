"""Diagnostics in plain sentences: what is wrong with a run, and what to change.

The thresholds are those of the literature and of other samplers: R-hat 1.01 and an ESS of 100 per chain (Vehtari2021),
E-BFMI 0.3 (Betancourt2016b), and any divergence at all.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from ergonet.diagnostics.finding import (
    COST,
    LARGEST_RHAT,
    MODEL,
    SMALLEST_ESS_PER_CHAIN,
    Finding,
    beside,
    listed,
    needed_ess,
    number,
    shown_rhat,
    stated,
)
from ergonet.diagnostics.held_out import (
    are_of_modes,
    are_unjudged,
    judge_calibration,
    judge_copies,
    judge_members,
    without_judgement,
)
from ergonet.diagnostics.scales import judge_scales

SMALLEST_E_BFMI: Final = 0.3
LARGEST_SATURATED_FRACTION: Final = 0.05
LARGEST_ACCEPTANCE_GAP: Final = 0.1
KINETIC_TEMPERATURES: Final = (0.5, 2.0)
SMALLEST_MINIBATCH_ACCEPTANCE: Final = 0.1
LARGEST_ROUNDING_ERROR: Final = 0.2
LARGEST_ENERGY_VARIANCE: Final = 0.01
STANDSTILL: Final = "a standstill"
STORM: Final = "a storm of divergences"

_WEIGHTS_NEED_NOT_MIX = (
    " Judge mixing by predictions only: the weights of a network are not identified (hidden units can be permuted) "
    "and need not mix."
)


def find(metrics: Mapping[str, Any]) -> tuple[Finding, ...]:
    """List everything that is wrong with a run, most serious first.

    Args:
        metrics: the content of ``metrics.json``. A figure that is absent is not judged. A figure that is present but
            None or NaN could not be computed, which is itself a finding if the results cannot be trusted without it.

    Returns:
        Findings; empty if every check passes.
    """
    diagnostics = metrics.get("diagnostics") or {}
    findings = [finding for rule in _RULES for finding in rule(metrics, diagnostics)]
    return tuple(sorted(findings, key=lambda finding: not finding.problem))


def advise(metrics: Mapping[str, Any]) -> list[str]:
    """Explain each finding in a sentence or two that says what to change.

    Args:
        metrics: the content of ``metrics.json``, see ``find``.

    Returns:
        Sentences, most serious first; empty if every check passes.
    """
    return [finding.sentence for finding in find(metrics)]


def failed(metrics: Mapping[str, Any]) -> bool:
    """Whether the results should not be trusted as they are; decides the exit code under ``--strict``.

    Args:
        metrics: the content of ``metrics.json``, see ``find``.

    Returns:
        True if at least one finding is a problem and not merely a waste of time.
    """
    return any(finding.problem for finding in find(metrics))


def are_draws_sound(metrics: Mapping[str, Any]) -> bool:
    """Whether the draws can be used for predictions, whatever the model is worth.

    Args:
        metrics: the content of ``metrics.json``, see ``find``.

    Returns:
        True if no finding about the draws is a problem.
    """
    return not any(finding.problem and finding.subject != MODEL for finding in find(metrics))


def _stopped(metrics: Mapping[str, Any], _diagnostics: Mapping[str, Any]) -> list[Finding]:
    reason = str(metrics.get("stopped_by") or "")
    remedies = {
        STANDSTILL: "Start from other initial values, use a smaller step size or a longer warm-up, and check the scale "
        "of the inputs and the prior.",
        STORM: "Use a longer warm-up, a target acceptance of 0.95 or a smaller step size; if the prior has learned "
        "scales, use its non-centered parametrization or a narrower prior for the scales.",
    }
    found = next((remedy for kind, remedy in remedies.items() if reason.startswith(kind)), None)
    if found is None:
        return []
    return [Finding(problem=True, sentence=f"The run was stopped by {reason}: more draws would not help. {found}")]


def _stuck(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    chains = diagnostics.get("stuck_chains") or []
    if not chains:
        return []
    who = listed("Chain", chains)
    return [
        Finding(
            problem=True,
            sentence=f"{who} never moved: every proposal was rejected, so all draws are the same point. "
            "Use a smaller initial step size or a longer warm-up, and check the scale of the inputs and the "
            "prior.",
        )
    ]


def _nonfinite(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    count = number(diagnostics, "nonfinite")
    if not count > 0:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"{_share(count, metrics)} reached a point where the log posterior was not finite. "
            "Standardize inputs and targets, or choose a prior or likelihood with heavier tails; "
            "in a density of your own, look for logarithms of and divisions by values near zero.",
        )
    ]


def _rounding(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    error = number(diagnostics, "rounding_error")
    if not error > LARGEST_ROUNDING_ERROR:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"The log density is rounded by about {error:.2g}, so its differences between draws are wrong: "
            "the draws are too wide, and R-hat does not show it. Subtract large constants from the log density and "
            'from terms that cancel, or call `jax.config.update("jax_enable_x64", True)` first to use double '
            "precision.",
        )
    ]


def _divergences(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    count = number(diagnostics, "divergences")
    if not count > 0:
        return []
    target = number(diagnostics, "target_acceptance")
    higher = " or ".join([f"{one:g}" for one in (0.9, 0.95, 0.99) if one > target + 0.005][:2])
    remedy = f"Raise the target acceptance (now {target:g}) to {higher}" if higher else "Use a smaller step size"
    if not math.isfinite(target):
        is_biased = math.isfinite(number(diagnostics, "energy_variance"))
        remedy = "Use a smaller `energy_variance`" if is_biased else "Use a smaller step size"
    return [
        Finding(
            problem=True,
            sentence=f"{_share(count, metrics)} diverged: the step size was too large for a narrow region of the "
            f"posterior, which the draws may therefore miss. {remedy}, or use a narrower prior.",
        )
    ]


def _disagreement(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    if "max_rhat_function" not in diagnostics:
        return []
    largest = number(diagnostics, "max_rhat_function")
    if largest > LARGEST_RHAT:
        by_held_out_rows = judge_members(metrics)
        if by_held_out_rows:
            return by_held_out_rows
        if are_unjudged(metrics):
            return [without_judgement(metrics)]
        sentence = (
            f"The chains disagree about predictions: R-hat is {shown_rhat(largest, LARGEST_RHAT)} and should be "
            f"at most {LARGEST_RHAT}. Use a longer warm-up and more draws.{_WEIGHTS_NEED_NOT_MIX}"
        )
    elif not math.isnan(largest):
        return []
    elif metrics.get("num_chains") == 1:
        sentence = (
            "A single chain cannot show whether other initial values would give other predictions: run at least 4 "
            "chains."
        )
    else:
        sentence = (
            "R-hat of the predictions could not be computed (it needs at least 4 draws, and predictions that vary): "
            "run more draws."
        )
    return [Finding(problem=True, sentence=sentence)]


def _few_draws(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    if "min_ess_bulk_function" not in diagnostics:
        return []
    needed = needed_ess(metrics)
    smallest = number(diagnostics, "min_ess_bulk_function")
    if smallest >= needed or are_of_modes(metrics, diagnostics):
        return []
    if math.isnan(smallest):
        sentence = "The effective sample size (ESS) could not be computed (it needs at least 4 draws): run more draws."
    else:
        factor = needed / smallest if smallest > 0 else math.inf
        more = f"about {_rounded_up(factor)} times as many draws" if math.isfinite(factor) else "many more draws"
        already_said = number(diagnostics, "max_rhat_function") > LARGEST_RHAT
        sentence = (
            "The worst-mixing prediction has an effective sample size (ESS) of only "
            f"{beside(smallest, float(needed), decimals=0)}; it should be at least {SMALLEST_ESS_PER_CHAIN} per chain, "
            f"{needed} in all. Run {more}, or use a kernel with longer trajectories."
            f"{'' if already_said else _WEIGHTS_NEED_NOT_MIX}"
        )
    return [Finding(problem=True, sentence=sentence)]


def _energy(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    smallest = number(diagnostics, "min_ebfmi")
    if not smallest < SMALLEST_E_BFMI or thin_of(metrics) > 1:  # of thinned draws, only older runs have it
        return []
    return [
        Finding(
            problem=True,
            sentence="The energy mixes too slowly: "
            f"E-BFMI is {beside(smallest, SMALLEST_E_BFMI, decimals=2)} and should be at least {SMALLEST_E_BFMI}, so "
            "the tails of the posterior may be missed. Use a longer warm-up; if that does not help, use a prior with "
            "lighter tails, fixed scales, or a non-centered parametrization.",
        )
    ]


def _saturation(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    fraction, thin = number(diagnostics, "max_tree_depth_fraction"), thin_of(metrics)
    if not 1 - (1 - fraction) ** (1 / thin) > LARGEST_SATURATED_FRACTION:  # of trajectories, if they are independent
        return []
    who = "of the trajectories" if thin == 1 else "of the draws contain a trajectory that"
    return [
        Finding(
            problem=False,
            subject=COST,
            sentence=f"{100 * fraction:.0f} % {who} reached the maximum tree depth: "
            "the draws are valid, but more correlated than necessary. Allow one more doubling "
            "(`max_doublings`), or use a longer warm-up.",
        )
    ]


def _acceptance(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    mean, target = number(diagnostics, "mean_acceptance"), number(diagnostics, "target_acceptance")
    if not abs(mean - target) > LARGEST_ACCEPTANCE_GAP:
        return []
    if mean < target:
        consequence = (
            "the step size is too large for the region sampled after the warm-up. Use a longer warm-up, or initial "
            "values closer to the posterior"
        )
    else:
        consequence = "the step size is smaller than necessary, which costs only time. Use a longer warm-up"
    return [
        Finding(
            problem=False,
            subject=COST,
            sentence=f"The mean acceptance is {mean:.2f}, but the target was {target:.2f}: {consequence}.",
        )
    ]


def _biased(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    variance = number(diagnostics, "energy_variance")
    if not math.isfinite(variance):
        return []
    return [
        Finding(
            problem=variance > LARGEST_ENERGY_VARIANCE,
            sentence="The draws are biased by the step size, because the kernel has no Metropolis correction: the mean "
            f"square of its energy errors is {variance:.1g} per dimension. Compare with `MAMS`, which is exact, or "
            "use a smaller `energy_variance`.",
        )
    ]


def _metric(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    counts = (number(diagnostics, name) for name in ("rejected_metrics", "refused_metrics"))  # the latter: older runs
    count = next((one for one in counts if one > 0), 0)
    if not count:
        return []
    return [
        Finding(
            problem=False,
            subject=COST,
            sentence=f"The warm-up learned a metric that was not finite (rejected {count:.0f} times) and kept the "
            "previous one: the draws are valid, but the step size may be smaller than necessary. Standardize inputs "
            "and targets, or use float64.",
        )
    ]


def _temperature(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    mean = number(diagnostics, "mean_kinetic_temperature")
    low, high = KINETIC_TEMPERATURES
    remedies = diagnostics.get("remedies")
    if remedies is None:  # older runs
        remedies = "lower the learning rate or raise the batch size"
    if math.isnan(mean) or low <= mean <= high or not remedies:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"The mean kinetic temperature is {mean:.2f} and should be near 1: the noise of the minibatch "
            f"gradient is not balanced, so the draws are too {'wide' if mean > 1 else 'narrow'}. "
            f"{remedies[0].upper()}{remedies[1:]}.",
        )
    ]


def _clipped(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    share = number(diagnostics, "clipped_fraction")
    if not share > 0:
        return []
    return [
        Finding(
            problem=share > 0.05,
            sentence=f"The estimated gradient noise exceeds the friction in {100 * share:.2g} % of coordinates and "
            "steps, and could not be corrected for there: raise the momentum decay, or lower the learning rate.",
        )
    ]


def _rejected(_metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> list[Finding]:
    mean = number(diagnostics, "minibatch_acceptance")
    if not mean < SMALLEST_MINIBATCH_ACCEPTANCE:
        return []
    return [
        Finding(
            problem=True,
            sentence=f"Almost all minibatch trajectories were rejected (mean acceptance {mean:.2g}), so the chains "
            "hardly move. Lower the learning rate.",
        )
    ]


_RULES: tuple[Callable[[Mapping[str, Any], Mapping[str, Any]], list[Finding]], ...] = (
    *(stated, _stopped),
    _stuck,
    _nonfinite,
    _rounding,
    _divergences,
    _disagreement,
    _few_draws,
    judge_scales,
    _energy,
    _saturation,
    _acceptance,
    _biased,
    _metric,
    _temperature,
    _clipped,
    _rejected,
    judge_calibration,
    judge_copies,
)


def thin_of(metrics: Mapping[str, Any]) -> float:
    """Transitions for each stored draw, 1 if it is not known; above, statistics are those of several transitions."""
    thin = number(metrics, "thin")
    return thin if 1 < thin < math.inf else 1.0


def _share(count: float, metrics: Mapping[str, Any]) -> str:
    """The subject of a sentence: so many transitions or, where draws are thinned, draws with such a transition."""
    is_thinned, total = thin_of(metrics) > 1, number(metrics, "num_chains") * number(metrics, "num_draws")
    name, end = ("draw", f" contain{'s' if count == 1 else ''} a transition that") if is_thinned else ("transition", "")
    if not math.isfinite(total) or total < count:
        return f"{count:.0f} {name}{'' if count == 1 else 's'}{end}"
    percent = 100 * count / total
    return f"{count:.0f} of {total:.0f} {name}s ({percent:{'.0f' if percent >= 10 else '.2g'}} %){end}"


def _rounded_up(factor: float) -> str:
    return f"{math.ceil(factor * 2) / 2:g}" if factor < 10 else f"{math.ceil(factor):d}"
