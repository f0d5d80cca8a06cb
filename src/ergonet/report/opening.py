"""The first paragraph of the report: can I use this, how good is it, how sure, and what to do next."""

from collections.abc import Mapping
from typing import Any

from ergonet.baselines.comparison import BETTER, SCALED_RMSE, SIMILAR, WORSE, Rival
from ergonet.datasets.validation import capital
from ergonet.diagnostics import advice, held_out
from ergonet.diagnostics.finding import FALLBACK, RECALIBRATION
from ergonet.report import baselines, overview, wording

_WITHOUT_ROWS = (
    "No rows were held out, so nothing shows how good the predictions of new rows are, or whether a simpler method "
    "would do as well."
)
_STANDING = {
    BETTER: "the network is clearly better",
    SIMILAR: "these rows show no clear difference",
    WORSE: "the network is clearly worse",
}


def paragraph(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    """The first paragraph, in three to five sentences.

    Args:
        metrics: the content of ``metrics.json``.

    Returns:
        The headline of the verdict; then how good the predictions are, beside what; how far the stated uncertainty can
        be trusted; and what to do next. Code is between backquotes.
    """
    found = (overview.judge(metrics).headline, *_quality(metrics), _sureness(metrics), _next(metrics))
    return tuple(sentence for sentence in found if sentence)


def _quality(metrics: Mapping[str, Any]) -> tuple[str, ...]:
    test, rival = metrics.get("test") or {}, baselines.rival(metrics)
    own = _error(test)
    if not own:
        return (_WITHOUT_ROWS,)
    rows = wording.real(metrics, "num_test")
    where = f"On {wording.plural(int(rows), 'held-out row')}" if rows is not None else "On the held-out rows"
    told = _said(metrics, "the stand-in" if metrics.get(FALLBACK) else "the network", own)
    if rival is None:
        return (f"{where} {told}; no simpler method was fitted to compare this with.",)
    method, does = rival.method, "misclassifies" if "error" in test else "has"
    which = "closest" if rival.is_closer else "best"
    beside = f"the {which} simple method, {method['name']}, {does} {_error(method['test'])}"
    return (f"{where} {told}; {beside}.", _judged(rival))


def _judged(rival: Rival) -> str:
    judged = _STANDING.get(rival.standing, "")
    errors = "fewer" if "error" in rival.method["test"] else "smaller"
    unit = " in standard deviations of the targets" if SCALED_RMSE in rival.method["difference"] else ""
    said = [
        f"its errors are clearly {errors}{unit}" if rival.is_closer else "",
        f"judged by the probabilities that both gave to the true values, {judged}" if judged else "",
    ]
    return capital(f"{'; '.join(filter(None, said))}.") if any(said) else ""


def _error(test: Mapping[str, Any]) -> str:
    """The error with its standard error: ``4.2 % ± 0.9`` or ``12.1 ± 1.3``; empty if it is unknown."""
    key = next((name for name in ("error", "rmse") if wording.real(test, name) is not None), None)
    if key is None:
        return ""
    pair = wording.with_error(
        wording.real(test, key), wording.real(test, f"{key}_standard_error"), percent=key == "error"
    )
    return " ".join(pair).strip()


def _said(metrics: Mapping[str, Any], who: str, own: str) -> str:
    test = metrics["test"]
    if "error" in test:
        return f"{who} misclassifies {own}"
    unit = "over all targets" if wording.target_errors(metrics) else "in the unit of the target"
    unit = "as a count" if "deviance" in test else unit
    return f"the typical error of {who} is {own} (root mean square, {unit})"


def _sureness(metrics: Mapping[str, Any]) -> str:
    test = metrics.get("test") or {}
    gap = wording.real(test, "calibration")
    if gap is None:
        return ""
    is_classes = "error" in test
    what = "probabilities" if is_classes else "intervals"
    is_off, direction = bool(held_out.judge_calibration(metrics, {})), held_out.miscalibration(metrics)
    slightly = held_out.beyond_chance(test) > 0 and direction != held_out.UNEVEN
    inside = wording.real(test, "coverage_90")
    if inside is not None and not ((is_off or slightly) and (0.9 - inside) * (test.get("overconfidence") or 0.0) < 0):
        measured = f"the 90 % intervals contain {100 * inside:.1f} % of the true values"
    else:
        observed = "frequencies" if is_classes else "coverage"
        measured = f"they differ from the observed {observed} by {100 * gap:.1f} % on average"
    if is_off:
        return f"Do not take the stated {what} at face value, because they are {direction}: {measured}."
    if not advice.are_draws_sound(metrics):
        said = f"The stated {what} are {direction}" if slightly else _nothing(what)
        return f"{said} ({measured}), but other draws may change them."
    if slightly:
        return f"The stated {what} are slightly {direction}, by less than this page calls a problem: {measured}."
    return f"{_nothing(what)}: {measured}."


def _nothing(what: str) -> str:
    return f"Nothing on these rows contradicts the stated {what}"


def _next(metrics: Mapping[str, Any]) -> str:
    verdict = overview.judge(metrics)
    if metrics.get(FALLBACK):
        return "Next: give the fit more time, as advised below."
    if not metrics.get("diagnostics"):
        return "Next: fit again with this version, which records what the checks need."
    if not advice.are_draws_sound(metrics):
        return "Next: deal with the problems listed below, the most serious first, and fit again."
    if verdict.level == "bad" and metrics.get(RECALIBRATION):
        return (
            "Next: predict new rows with `ergonet predict`, which recalibrates what the network states, or change the "
            "model as advised below."
        )
    if verdict.level == "bad":
        return (
            "Next: change the model as advised below, or recalibrate what it states on rows of its own with `ergonet "
            "recalibrate`."
        )
    if not (metrics.get("test") or {}):
        return "Next: fit again with `--test-fraction 0.2` to find out."
    if instead := baselines.instead(metrics):
        return f"Next: {instead}."
    return (
        "Next: predict new rows with `ergonet predict`, which also marks inputs outside the range of the training rows."
    )
