"""What held-out rows say about chains in different modes, and about the probabilities that the model states."""

import math
from collections.abc import Mapping
from typing import Any, Final

from ergonet.diagnostics.finding import (
    COPIES,
    LARGEST_RHAT,
    MODEL,
    MODES,
    UNJUDGED,
    Finding,
    beside,
    listed,
    number,
    shown_rhat,
)

FEWEST_MEMBERS: Final = 4  # with three, an outlier must be 79 times as far away as the other two are from each other
LARGEST_CALIBRATION_ERROR: Final = 0.05  # beyond what chance explains
LARGEST_CHANCE: Final = 2.5  # calibration error in units of its mean by chance, two standard deviations of one bin
USEFUL_ESS: Final = 100  # Monte Carlo error of a tenth of the standard deviation


def are_settled(metrics: Mapping[str, Any]) -> bool:
    """Whether held-out rows show chains that no longer change, are equally good, and gain by being averaged."""
    return _can_judge(metrics) and not _off(metrics)


def judge_members(metrics: Mapping[str, Any]) -> list[Finding]:
    """What held-out rows say about chains that disagree; empty if they cannot say it."""
    if not _can_judge(metrics):
        return []
    return [Finding(problem=True, sentence=one) for one in _off(metrics)] or [_modes(metrics)]


def are_unjudged(metrics: Mapping[str, Any]) -> bool:
    """Whether chains with a warm start are in different modes, and no held-out rows say whether they are settled."""
    is_ensemble = bool(metrics.get("warm_start")) and number(metrics, "num_chains") >= FEWEST_MEMBERS
    is_apart = bool((metrics.get("diagnostics") or {}).get("chains_apart", True))  # older runs do not know
    return is_ensemble and is_apart and not metrics.get("ensemble")


def are_of_modes(metrics: Mapping[str, Any], diagnostics: Mapping[str, Any]) -> bool:
    """Whether chains that disagree about predictions are taken for an ensemble."""
    is_apart = number(diagnostics, "max_rhat_function") > LARGEST_RHAT
    return is_apart and (are_settled(metrics) or are_unjudged(metrics))


def without_judgement(metrics: Mapping[str, Any]) -> Finding:
    """What can be said about chains that disagree after a warm start, without held-out rows."""
    rhat = shown_rhat(number(metrics.get("diagnostics") or {}, "max_rhat_function"))
    return Finding(
        problem=False,
        subject=UNJUDGED,
        sentence=f"{number(metrics, 'num_chains'):.0f} chains in different modes (R-hat of the predictions is {rhat}), "
        "averaged; the spread between them is in the intervals. These are not draws from one converged posterior, and "
        "without held-out rows nothing shows whether the chains are settled and equally good: score the predictions on "
        "rows that were not used.",
    )


def judge_calibration(metrics: Mapping[str, Any], _diagnostics: Mapping[str, Any]) -> list[Finding]:
    """Stated probabilities or intervals that are wrong by more than chance and two standard errors allow."""
    test = metrics.get("test") or {}
    if not beyond_chance(test) > LARGEST_CALIBRATION_ERROR:
        return []
    error, spread = number(test, "calibration"), number(test, "calibration_standard_error")
    is_classes = "error" in test
    found = f"{100 * error:.1f} % ± {100 * spread:.1f} on the held-out rows"
    what = "stated probabilities" if is_classes else "predictive intervals"
    direction = miscalibration(metrics)
    remedy = _REMEDIES[is_classes, direction]
    return [
        Finding(
            problem=True,
            subject=MODEL,
            sentence=f"The {what} are {direction} (calibration error {found}): {remedy}",
        )
    ]


def judge_copies(metrics: Mapping[str, Any], _diagnostics: Mapping[str, Any]) -> list[Finding]:
    """Held-out rows that are training rows again."""
    count = number(metrics, COPIES)
    if not count > 0:
        return []
    return [
        Finding(
            problem=False,
            subject=COPIES,
            sentence=f"{count:.0f} of {number(metrics, 'num_test'):.0f} held-out rows are copies of training rows "
            "(same inputs and target): the scores are better than those of new rows. Remove the copies, or hold out "
            "rows that are not in the table with `--test-file`.",
        )
    ]


def beyond_chance(test: Mapping[str, Any]) -> float:
    """How much of a calibration error is beyond chance and two standard errors; not above 0 if chance explains it."""
    error, spread = number(test, "calibration"), number(test, "calibration_standard_error")
    chance = number(test, "calibration_by_chance")
    return error - 2 * spread - chance if error > LARGEST_CHANCE * chance else 0.0


def miscalibration(metrics: Mapping[str, Any]) -> str:
    """``overconfident``, ``underconfident``, or ``uneven``.

    It is uneven where neither prevails by two standard errors, or the 90 % intervals are off to the other side.
    """
    test = metrics.get("test") or {}
    mean, spread = number(test, "overconfidence"), number(test, "overconfidence_standard_error")
    if not abs(mean) > 2 * spread or mean * number(test, "overconfidence_90") < 0:
        return UNEVEN
    return OVERCONFIDENT if mean > 0 else UNDERCONFIDENT


OVERCONFIDENT, UNDERCONFIDENT, UNEVEN = "overconfident", "underconfident", "uneven"
_REMEDIES = {
    (True, OVERCONFIDENT): "the predicted class is right less often than stated. Use a narrower prior or one with "
    "learned scales, and check that the held-out rows are from the population of the training rows.",
    (True, UNDERCONFIDENT): "the predicted class is right more often than stated. Use a wider prior or one with "
    "learned scales, or a larger network; a longer warm-up if the log posterior still rises.",
    (True, UNEVEN): "some are too high and some too low. Use a prior with learned scales, or another network.",
    (False, OVERCONFIDENT): "they contain fewer true values than stated. Use a likelihood with learned noise, or with "
    "noise per row, if this one has neither; try a narrower prior; and check that the held-out rows are from the "
    "population of the training rows.",
    (False, UNDERCONFIDENT): "they contain more true values than stated. Use a likelihood with learned noise, or with "
    "noise per row, if this one has neither, or a wider prior for the weights.",
    (False, UNEVEN): "some are too wide and some too narrow. Use noise per row if the likelihood has "
    "none, or transform the target.",
}


def _can_judge(metrics: Mapping[str, Any]) -> bool:
    table = metrics.get("ensemble") or {}
    members = [*table.get("chains", []), *table.get("unusable", [])]
    known = all(math.isfinite(number(table, name)) for name in ("change", "change_error", "gain_over_best"))
    return len(members) >= FEWEST_MEMBERS and known and bool(table.get("apart"))


def _off(metrics: Mapping[str, Any]) -> list[str]:
    """Sentences about members that are not settled or not equal, most serious first."""
    table, found = metrics["ensemble"], []
    longer = "a longer warm-up" if metrics.get("warm_start") else "a longer warm-up or a warm start"
    if table["unusable"]:
        who = listed("Chain", table["unusable"])
        found.append(
            f"{who} gives the true values of some held-out rows a log density that is not finite. Standardize inputs "
            "and targets, or choose a likelihood with heavier tails."
        )
    for chain in table["worse"]:
        where = table["chains"].index(chain)
        below = _signed(-table["differences"][where], table["difference_errors"][where])
        found.append(
            f"{listed('Chain', [chain])} predicts the held-out rows worse than the others: its log score is {below} "
            f"nats per row below the mean of the chains. Use {longer}, so that it can leave its region, or another "
            "seed."
        )
    if abs(table["change"]) > table["change_limit"] * table["change_error"]:
        course = "still improve" if table["change"] > 0 else "become worse"
        by = _signed(abs(table["change"]), table["change_error"])
        found.append(
            f"The chains are not settled: their predictions of the held-out rows {course}, by {by} nats per row from "
            f"the first to the second half of the draws. Use {longer}, and more draws."
        )
    elif table["drifting"]:
        found.append(
            f"{listed('Chain', table['drifting'])} is not settled: its log posterior and its log score of the held-out "
            "rows change from the first to the second half of its draws. Use a longer warm-up, and more draws."
        )
    if not found and table["gain_over_best"] < -table["gain_limit"] * table["gain_over_best_error"]:
        by = _signed(-table["gain_over_best"], table["gain_over_best_error"])
        found.append(
            f"{listed('Chain', [table['best']])} alone predicts the held-out rows better than the average of all "
            f"chains, by {by} nats per row: the others spoil the average. Use {longer}, so that all chains reach such "
            "a region."
        )
    return found


def _modes(metrics: Mapping[str, Any]) -> Finding:
    table, diagnostics = metrics["ensemble"], metrics.get("diagnostics") or {}
    rhat, precision = shown_rhat(number(diagnostics, "max_rhat_function")), number(table, "smallest_ess_within")
    share, more = f"{100 * number(table, 'between_share'):.0f} %", ""
    if precision < USEFUL_ESS:
        worth = beside(precision, float(USEFUL_ESS), decimals=0)
        more = f" Within its modes the worst prediction is worth {worth} independent draws: more draws help."
    return Finding(
        problem=False,
        subject=MODES,
        sentence=f"{len(table['chains'])} chains in different modes (R-hat of the predictions is {rhat}), averaged; "
        f"the spread between them, {share} of the variance of a typical prediction, is in the intervals. "
        "These are not draws from one converged posterior, but on held-out rows no chain falls behind the "
        f"others, they no longer change, and none is better than their average.{more}",
    )


def _signed(value: float, error: float) -> str:
    return f"{value:.2g} ± {error:.1g}"
